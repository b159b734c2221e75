#include "python/calls.h"

#include "python/launch.h"
#include "python/library.h"

#include <nanobind/nanobind.h>

#include <algorithm>
#include <list>
#include <optional>
#include <string>
#include <utility>

namespace weft::python {

namespace {

bool is_exactly(nb::handle value, PyTypeObject* type) { return Py_TYPE(value.ptr()) == type; }

/// Values that cannot change: what equal ones of them say is the same.
bool is_plain(nb::handle value) {
  return value.is_none() || is_exactly(value, &PyUnicode_Type) || is_exactly(value, &PyBool_Type) ||
         is_exactly(value, &PyLong_Type) || is_exactly(value, &PyFloat_Type);
}

bool is_sequence(nb::handle value) { return is_exactly(value, &PyList_Type) || is_exactly(value, &PyTuple_Type); }

bool are_same(nb::handle a, nb::handle b);

bool are_same_sequences(nb::handle a, nb::handle b) {
  const Py_ssize_t size = PySequence_Size(a.ptr());
  if (PySequence_Size(b.ptr()) != size) return false;
  for (Py_ssize_t i = 0; i < size; ++i) {
    if (!are_same(nb::steal(PySequence_GetItem(a.ptr(), i)), nb::steal(PySequence_GetItem(b.ptr(), i)))) return false;
  }
  return true;
}

/// Of plain values and lists of them. `True` is not 1, for the language tells them apart.
bool are_same(nb::handle a, nb::handle b) {
  if (a.is(b)) return true;
  if (Py_TYPE(a.ptr()) != Py_TYPE(b.ptr())) return false;
  if (is_sequence(a)) return are_same_sequences(a, b);
  return is_plain(a) && PyObject_RichCompareBool(a.ptr(), b.ptr(), Py_EQ) == 1;
}

/// The same that nobody else can change; nothing where others could.
nb::object kept_value(nb::handle value) {
  if (is_plain(value)) return nb::borrow(value);
  if (!is_sequence(value)) return {};
  nb::list out;
  for (const nb::handle item : value) {
    nb::object kept = kept_value(item);
    if (!kept.is_valid()) return {};
    out.append(kept);
  }
  return is_exactly(value, &PyTuple_Type) ? nb::object(nb::tuple(out)) : nb::object(out);
}

/// What a call says of its pattern.
struct Asked {
  nb::object pattern, scale, dropout, target, engine;
  bool has_lengths;
  nb::dict params;

  /// Patterns and engines are told apart by being others.
  bool operator==(const Asked& other) const {
    return has_lengths == other.has_lengths && engine.is(other.engine) && are_same(pattern, other.pattern) &&
           are_same(scale, other.scale) && are_same(dropout, other.dropout) && are_same(target, other.target) &&
           are_same_params(other.params);
  }

  bool are_same_params(const nb::dict& other) const {
    if (params.size() != other.size()) return false;
    PyObject *name = nullptr, *value = nullptr, *other_name = nullptr, *other_value = nullptr;
    Py_ssize_t at = 0, other_at = 0;
    while (PyDict_Next(params.ptr(), &at, &name, &value) != 0) {
      if (PyDict_Next(other.ptr(), &other_at, &other_name, &other_value) == 0) return false;
      if (!are_same(name, other_name) || !are_same(value, other_value)) return false;
    }
    return true;
  }
};

/// Kernels of the calls that were made last, by what they said and by the arrays' facts that are compiled in.
class Kernels {
 public:
  /// None where such a call was not seen, or its arrays are no attention's.
  nb::object find(const View& q, const View& v, const Asked& asked) {
    if (q.rank() != 4 || v.rank() != 4) return nb::none();
    const nb::ft_lock_guard locked(mutex_);
    const auto found =
        std::ranges::find_if(entries_, [&](const Entry& one) { return one.fits(q, v) && one.asked == asked; });
    if (found == entries_.end()) return nb::none();
    entries_.splice(entries_.begin(), entries_, found);
    return entries_.front().kernel;
  }

  /// Where `asked` holds what a caller may change later nothing is kept.
  void keep(const View& q, const View& v, Asked asked, nb::object kernel) {
    nb::dict params;
    for (const auto& [name, value] : asked.params) {
      const nb::object kept = kept_value(value);
      if (!kept.is_valid()) return;
      params[name] = kept;
    }
    for (const nb::object* one : {&asked.scale, &asked.dropout, &asked.target}) {
      if (!is_plain(*one)) return;
    }
    asked.params = std::move(params);
    const nb::ft_lock_guard locked(mutex_);
    entries_.push_front({q.dtype(), q.device(), q.extent(3), v.extent(3), std::move(asked), std::move(kernel)});
    if (entries_.size() > kMost) entries_.pop_back();
  }

 private:
  static constexpr std::size_t kMost = 256;

  struct Entry {
    std::string dtype, device;
    std::int64_t dim, dim_v;
    Asked asked;
    nb::object kernel;

    bool fits(const View& q, const View& v) const {
      return dim == q.extent(3) && dim_v == v.extent(3) && dtype == q.dtype() && device == q.device();
    }
  };

  std::list<Entry> entries_;
  nb::ft_mutex mutex_;
};

bool is_plain_tensor(nb::handle array) {
  static Held tensor("torch", "Tensor"), parameter("torch", "nn.Parameter");
  const nb::handle type(reinterpret_cast<PyObject*>(Py_TYPE(array.ptr())));
  return type.is(tensor.get()) || type.is(parameter.get());
}

bool is_set(Held& question) {
  const nb::handle ask = question.get();
  return !ask.is_valid() || nb::cast<bool>(ask());
}

/// `launch`, which is to `record` gradients or not, or how PyTorch wants to see a call of its tensors: as an `operator`
/// where a mode, a transform or a tensor of another type is at work, through `autocast` where it may ask for another
/// dtype. Its compiler was asked before. `xla`: arrays of JAX on a GPU, whose memory and streams are XLA's.
enum class Way { launch, record, operate, autocast, xla };

/// As weft/_attention.py knows it; made once.
nb::handle said(Way way) {
  static PyObject* const words[] = {PyUnicode_InternFromString("launch"), PyUnicode_InternFromString("record"),
                                    PyUnicode_InternFromString("operator"), PyUnicode_InternFromString("autocast"),
                                    PyUnicode_InternFromString("xla")};
  return words[static_cast<int>(way)];
}

/// Of JAX's arrays on GPUs.
bool is_of_xla(nb::handle array) {
  return library_of(array) == Library::jax && nb::cast<bool>(of_arrays("is_of_xla")(array));
}

Way way_of(nb::handle q, nb::handle k, nb::handle v) {
  static Held modes("torch", "_C._len_torch_dispatch_stack"),
      transforms("torch", "_C._functorch.peek_interpreter_stack"), autocast("torch", "_C._is_any_autocast_enabled");
  if (is_of_xla(q)) return Way::xla;
  if (library_of(q) != Library::torch) return Way::launch;
  for (const nb::handle array : {q, k, v}) {
    if (library_of(array) == Library::torch && !is_plain_tensor(array)) return Way::operate;
  }
  if (nb::cast<int>(modes.get()()) > 0 || !transforms.get()().is_none()) return Way::operate;
  return is_set(autocast) ? Way::autocast : Way::launch;
}

bool requires_grad(nb::handle array) {
  static const nb::handle name = PyUnicode_InternFromString("requires_grad");  // calls ask each of their tensors
  return library_of(array) == Library::torch && nb::cast<bool>(array.attr(name));
}

/// Do PyTorch's tensors want to be differentiated by? `inputs`: a dict or None.
bool records_gradients(nb::object q, nb::object k, nb::object v, nb::object inputs) {
  static Held enabled("torch", "is_grad_enabled");
  bool wanted = requires_grad(q) || requires_grad(k) || requires_grad(v);
  if (!wanted && !inputs.is_none()) {
    for (const nb::handle value : inputs.attr("values")()) wanted = wanted || requires_grad(value);
  }
  return wanted && is_set(enabled);
}

/// The way of a call whose tensors nothing of PyTorch's is to see.
Way way_of_launch(nb::object q, nb::object k, nb::object v, nb::object inputs) {
  if (is_of_xla(q)) return Way::xla;
  return records_gradients(std::move(q), std::move(k), std::move(v), std::move(inputs)) ? Way::record : Way::launch;
}

nb::object find_of(Kernels& kernels, nb::object q, nb::object v, const Asked& asked) {
  Stream unready = Stream::unready();
  const View of_q(std::move(q), "q", unready), of_v(std::move(v), "v", unready);
  return kernels.find(of_q, of_v, asked);
}

}  // namespace

void bind_calls(nb::module_& module) {
  module.def("records_gradients", &records_gradients, nb::arg("q").none(), nb::arg("k").none(), nb::arg("v").none(),
             nb::arg("inputs").none());
  module.def(
      "way_of_launch",
      [](nb::object q, nb::object k, nb::object v, nb::object inputs) {
        return said(way_of_launch(std::move(q), std::move(k), std::move(v), std::move(inputs)));
      },
      nb::arg("q").none(), nb::arg("k").none(), nb::arg("v").none(), nb::arg("inputs").none());
  nb::class_<Kernels>(module, "Kernels")
      .def(nb::init<>())
      .def(
          "find",
          [](Kernels& self, nb::object q, nb::object v, nb::object pattern, nb::object scale, nb::object dropout,
             bool has_lengths, nb::object target, nb::object engine, nb::dict params) {
            return find_of(self, std::move(q), std::move(v),
                           {std::move(pattern), std::move(scale), std::move(dropout), std::move(target),
                            std::move(engine), has_lengths, std::move(params)});
          },
          nb::arg("q").none(), nb::arg("v").none(), nb::arg("pattern").none(), nb::arg("scale").none(),
          nb::arg("dropout").none(), nb::arg("has_lengths"), nb::arg("target").none(), nb::arg("engine").none(),
          nb::arg("params"))
      .def(
          "look",
          [](Kernels& self, nb::object q, nb::object k, nb::object v, nb::object inputs, nb::object pattern,
             nb::object scale, nb::object dropout, bool has_lengths, nb::object target, nb::object engine,
             nb::dict params) {
            const Way way = way_of(q, k, v);
            if (way != Way::launch) return nb::make_tuple(said(way), nb::none());
            const bool records = records_gradients(q, std::move(k), v, std::move(inputs));
            nb::object found = find_of(self, std::move(q), std::move(v),
                                       {std::move(pattern), std::move(scale), std::move(dropout), std::move(target),
                                        std::move(engine), has_lengths, std::move(params)});
            return nb::make_tuple(said(records ? Way::record : way), std::move(found));
          },
          nb::arg("q").none(), nb::arg("k").none(), nb::arg("v").none(), nb::arg("inputs").none(),
          nb::arg("pattern").none(), nb::arg("scale").none(), nb::arg("dropout").none(), nb::arg("has_lengths"),
          nb::arg("target").none(), nb::arg("engine").none(), nb::arg("params"))
      .def(
          "keep",
          [](Kernels& self, const View& q, const View& v, nb::object pattern, nb::object scale, nb::object dropout,
             bool has_lengths, nb::object target, nb::object engine, nb::dict params, nb::object kernel) {
            self.keep(q, v,
                      {std::move(pattern), std::move(scale), std::move(dropout), std::move(target), std::move(engine),
                       has_lengths, std::move(params)},
                      std::move(kernel));
          },
          nb::arg("q"), nb::arg("v"), nb::arg("pattern"), nb::arg("scale").none(), nb::arg("dropout").none(),
          nb::arg("has_lengths"), nb::arg("target").none(), nb::arg("engine").none(), nb::arg("params"),
          nb::arg("kernel"));
}

}  // namespace weft::python
