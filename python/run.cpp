#include "python/run.h"

#include "python/array.h"
#include "python/launch.h"
#include "python/library.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::python {

namespace {

/// Arrays that were made here, or checked.
View look(nb::object array, const char* name) {
  Stream none = Stream::unready();
  return View(std::move(array), name, none);
}

/// A caller's place for O, which must be exactly that.
void check_place(const View& out, const Launch& launch) {
  const auto refuse = [&](const std::string& why) { throw_named("ArgumentError", out.name() + why); };
  const View& q = launch.q();
  if (out.read_only()) refuse(" is read-only");
  if (library_of(out.array()) == Library::jax) refuse(" is of JAX, whose arrays do not change");
  if (out.shape() != launch.shape_of_out()) {
    refuse(" has the shape " + shown(out.shape()) + "; expected " + shown(launch.shape_of_out()));
  }
  if (out.dtype() != q.dtype()) refuse(" is " + out.dtype() + "; expected " + q.dtype());
  if (!out.same_device(q)) refuse(" is on " + out.device() + "; expected " + q.device() + ", as q");
  if (!out.is_dense_last()) {
    refuse(": the last axis has stride " + std::to_string(out.strides().back()) + "; expected 1");
  }
}

void fill(const nb::object& array, double value) {
  if (PyObject_SetItem(array.ptr(), Py_Ellipsis, nb::float_(value).ptr()) != 0) throw nb::python_error();
}

/// What there is where no key is.
void write_nothing(const Kernel& kernel, const nb::object& out, const nb::object& lse) {
  const std::string_view text = weft_kernel_pattern_text(kernel.handle());
  if (!lse.is_none() && text.find("sink_logit") != std::string_view::npos) {
    throw_named("ArgumentError", "k has no keys: with 'sink_logit' the LSE of no keys is not answered");
  }
  fill(out, 0.0);
  if (!lse.is_none() && !nb::isinstance<Array>(lse)) fill(lse, -std::numeric_limits<double>::infinity());
}

void place_lse(const Kernel& kernel, weft_run_args& args, const View& lse) {
  const bool of_branches = weft_pattern_lse(kernel.pattern()) == WEFT_LSE_OF_BRANCHES;
  (of_branches ? args.branch_lse : args.lse) = lse.tensor(false);
}

/// `NO_LSE`, `AN_LSE` and `KEPT_LSE` of weft/_kernels.py.
enum LseWanted { kNoLse, kAnLse, kKeptLse };

/// An LSE that nobody but a backward pass sees is memory of our own: asking PyTorch for a tensor takes longer than a
/// small launch.
nb::object make_lse(const Launch& launch, int wanted) {
  const auto shape = launch.shape_of_lse();
  if (wanted == kKeptLse && launch.q().device() == "cpu") return nb::cast(Array({shape.begin(), shape.end()}, "f32"));
  return empty_like(launch.q(), shape, "f32");
}

/// O, and where it is wanted and there is one the LSE, else None.
nb::object forward(const Kernel& kernel, nb::object q, nb::object k, nb::object v, nb::object out, int wanted_lse,
                   bool heads_first, nb::object inputs, nb::object offset, nb::object cu_q, nb::object cu_k,
                   nb::object seed, int threads, nb::object stream) {
  Launch launch(kernel, std::move(q), std::move(k), std::move(v),
                {heads_first, std::move(inputs), std::move(offset), std::move(cu_q), std::move(cu_k), std::move(seed),
                 threads, std::move(stream)});
  const bool made = out.is_none();
  if (made) out = empty_like(launch.q(), launch.shape_of_out(), launch.q().dtype());
  const View place = look(out, "out");
  if (!made) check_place(place, launch);
  nb::object lse = nb::none();
  if (wanted_lse != kNoLse && weft_pattern_lse(kernel.pattern()) != WEFT_LSE_NONE) lse = make_lse(launch, wanted_lse);
  if (launch.no_keys() && !launch.no_rows()) write_nothing(kernel, out, lse);
  if (!launch.no_keys() && !launch.no_rows()) {
    launch.args.out = place.tensor(heads_first);
    std::optional<View> seen;
    if (!lse.is_none()) {
      Stream none = Stream::unready();
      seen.emplace(lse, "lse", none);
      place_lse(kernel, launch.args, *seen);
    }
    launch.run();
  }
  return nb::make_tuple(written(launch.q(), out), written(launch.q(), lse));
}

/// One gradient: of what, and where it is written.
struct Gradient {
  std::string name;
  const View* of;
  nb::object array;
};

/// Gradients of what is wanted, in the order q, k, v, then f32 inputs.
std::vector<Gradient> to_make(const Kernel& kernel, const Launch& launch, const nb::object& wanted) {
  std::vector<Gradient> out = {{"q", &launch.q(), {}}, {"k", &launch.k(), {}}, {"v", &launch.v(), {}}};
  for (size_t i = 0; i < weft_pattern_input_count(kernel.pattern()); ++i) {
    const auto input = weft_pattern_input(kernel.pattern(), i);
    const View* given = launch.input(input.name);
    if (given != nullptr && input.dtype == WEFT_F32) out.push_back({input.name, given, {}});
  }
  if (!wanted.is_none()) {
    std::erase_if(out, [&](const Gradient& one) {
      return PySequence_Contains(wanted.ptr(), nb::str(one.name.c_str()).ptr()) != 1;
    });
  }
  return out;
}

void run_backward(const Kernel& kernel, Launch& launch, bool heads_first, const std::vector<Gradient>& made,
                  nb::object out, nb::object lse, nb::object d_out, nb::object d_lse) {
  weft_run_args& args = launch.args;
  std::optional<View> given_d_out, given_d_lse, saved_lse;
  view_input(given_d_out, std::move(d_out), "d_out", launch.stream());
  if (given_d_out->shape() != launch.shape_of_out()) {
    throw_named("ArgumentError", "d_out has the shape " + shown(given_d_out->shape()) + "; expected " +
                                     shown(launch.shape_of_out()) + ", as out");
  }
  args.d_out = given_d_out->tensor(heads_first);
  const View saved_out = look(std::move(out), "out");
  args.out = saved_out.tensor(heads_first);
  Stream none = Stream::unready();
  if (!lse.is_none()) {
    saved_lse.emplace(std::move(lse), "lse", none);
    place_lse(kernel, args, *saved_lse);
  }
  if (!d_lse.is_none()) {
    view_input(given_d_lse, std::move(d_lse), "d_lse", none);
    args.d_lse = given_d_lse->tensor(false);
  }
  std::vector<weft_named_tensor> of_inputs;
  for (const auto& one : made) {
    const View place = look(one.array, "a gradient");  // `made` holds the array
    if (one.of == &launch.q()) {
      args.dq = place.tensor(heads_first);
    } else if (one.of == &launch.k()) {
      args.dk = place.tensor(heads_first);
    } else if (one.of == &launch.v()) {
      args.dv = place.tensor(heads_first);
    } else {
      of_inputs.push_back({one.name.c_str(), place.tensor(false)});
    }
  }
  args.d_inputs = of_inputs.data();
  args.d_input_count = of_inputs.size();
  launch.run();
}

/// Gradients of q, k and v, None where one is not wanted, and a dict of those of inputs.
nb::object backward(const Kernel& kernel, nb::object q, nb::object k, nb::object v, nb::object out, nb::object lse,
                    nb::object d_out, nb::object d_lse, nb::object wanted, bool heads_first, nb::object inputs,
                    nb::object offset, nb::object cu_q, nb::object cu_k, nb::object seed, int threads,
                    nb::object stream) {
  Launch launch(kernel, std::move(q), std::move(k), std::move(v),
                {heads_first, std::move(inputs), std::move(offset), std::move(cu_q), std::move(cu_k), std::move(seed),
                 threads, std::move(stream)});
  auto made = to_make(kernel, launch, wanted);
  const bool empty = launch.no_rows() || launch.no_keys();
  for (auto& one : made) {
    one.array = empty ? of_arrays("zeros")(one.of->array(), tuple_of(one.of->shape()), one.of->dtype())
                      : empty_like(*one.of, one.of->shape(), one.of->dtype());
  }
  if (!made.empty() && !empty) {
    run_backward(kernel, launch, heads_first, made, std::move(out), std::move(lse), std::move(d_out), std::move(d_lse));
  }
  nb::object of_q = nb::none(), of_k = nb::none(), of_v = nb::none();
  nb::dict of_inputs;
  for (const auto& one : made) {
    const nb::object done = written(*one.of, one.array);
    if (one.of == &launch.q()) {
      of_q = done;
    } else if (one.of == &launch.k()) {
      of_k = done;
    } else if (one.of == &launch.v()) {
      of_v = done;
    } else {
      of_inputs[one.name.c_str()] = done;
    }
  }
  return nb::make_tuple(of_q, of_k, of_v, of_inputs);
}

/// What `random` and `top` choose in a launch: (set, block, first row of blocks, i32 [batch entries, heads, blocks of
/// rows, places]) of each.
nb::list chosen(const Kernel& kernel, nb::object q, nb::object k, nb::object v, bool heads_first, nb::object inputs,
                nb::object offset, int threads, nb::object stream) {
  Launch launch(kernel, std::move(q), std::move(k), std::move(v),
                {heads_first, std::move(inputs), std::move(offset), nb::none(), nb::none(), nb::int_(0), threads,
                 std::move(stream)});
  std::vector<std::pair<std::string, weft_chosen_list>> found;
  const auto visit = [](const weft_chosen_list* list, void* context) {
    static_cast<decltype(found)*>(context)->emplace_back(list->set, *list);
  };
  check(weft_kernel_lists(kernel.handle(), launch.shape(), launch.args.offset, launch.args.offset_count, visit, &found),
        Stage::arguments);
  const nb::object out = empty_like(launch.q(), launch.shape_of_out(), launch.q().dtype());
  const View place = look(out, "out");
  launch.args.out = place.tensor(heads_first);
  nb::list made;
  std::vector<weft_tensor> places;
  for (const auto& [set, list] : found) {
    const Extents shape(std::begin(list.extent), std::end(list.extent));
    const nb::object array = of_arrays("empty")(launch.q().array(), tuple_of(shape), "i32", false);
    places.push_back(look(array, "a list").tensor(false));  // `made` holds the array
    made.append(nb::make_tuple(set, list.block, list.first_row, array));
  }
  launch.args.lists = places.data();
  launch.args.list_count = places.size();
  if (!found.empty()) launch.run();
  return made;
}

/// One launch over what was looked at before, dense: what the time of calls is measured against.
void run_alone(const Kernel& kernel, const View& q, const View& k, const View& v, const View& out, int threads) {
  weft_run_args args = weft_run_args_init();
  args.q = q.tensor(false);
  args.k = k.tensor(false);
  args.v = v.tensor(false);
  args.out = out.tensor(false);
  args.threads = threads;
  check_unlocked(Stage::arguments, [&] { return weft_run(kernel.handle(), &args); });
}

}  // namespace

void bind_run(nb::module_& module) {
  const auto none = [](const char* name) { return nb::arg(name).none(); };
  module.def("forward", &forward, nb::arg("kernel"), nb::arg("q"), nb::arg("k"), nb::arg("v"), none("out"),
             nb::arg("lse"), nb::arg("heads_first"), none("inputs"), none("offset"), none("cu_q"), none("cu_k"),
             none("seed"), nb::arg("threads"), none("stream"));
  module.def("backward", &backward, nb::arg("kernel"), nb::arg("q"), nb::arg("k"), nb::arg("v"), nb::arg("out"),
             none("lse"), nb::arg("d_out"), none("d_lse"), none("wanted"), nb::arg("heads_first"), none("inputs"),
             none("offset"), none("cu_q"), none("cu_k"), none("seed"), nb::arg("threads"), none("stream"));
  module.def("chosen", &chosen, nb::arg("kernel"), nb::arg("q"), nb::arg("k"), nb::arg("v"), nb::arg("heads_first"),
             none("inputs"), none("offset"), nb::arg("threads"), none("stream"));
  module.def("run_alone", &run_alone);
}

}  // namespace weft::python
