#include "python/run.h"

#include "python/engine.h"
#include "python/view.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace weft::python {

namespace {

/// Of a tensor that is not given: no data.
weft_tensor tensor_or_none(const View* view, bool heads_first) {
  return view == nullptr ? weft_tensor{} : view->tensor(heads_first);
}

/// Named tensors of a dict of views; names live in the dict's keys.
struct Named {
  std::vector<std::string> names;
  std::vector<weft_named_tensor> tensors;

  explicit Named(const nb::dict& views) {
    names.reserve(views.size());  // pointers into it are given away
    for (const auto& [name, view] : views) {
      names.push_back(nb::cast<std::string>(name));
      tensors.push_back({names.back().c_str(), nb::cast<const View&>(view).tensor(false)});
    }
  }
};

void run(const Kernel& kernel, const View& q, const View& k, const View& v, const View* out, const View* lse,
         const View* branch_lse, bool heads_first, const nb::dict& inputs, const std::vector<std::int64_t>& offset,
         const std::vector<std::int64_t>& cu_q, const std::vector<std::int64_t>& cu_k, std::uint64_t dropout_seed,
         int threads, std::uintptr_t stream, const View* d_out, const View* d_lse, const View* dq, const View* dk,
         const View* dv, const nb::dict& d_inputs) {
  const Named given(inputs), wanted(d_inputs);
  weft_run_args args = weft_run_args_init();
  args.q = q.tensor(heads_first);
  args.k = k.tensor(heads_first);
  args.v = v.tensor(heads_first);
  args.out = tensor_or_none(out, heads_first);
  args.lse = tensor_or_none(lse, false);
  args.branch_lse = tensor_or_none(branch_lse, false);
  args.inputs = given.tensors.data();
  args.input_count = given.tensors.size();
  args.offset = offset.data();
  args.offset_count = offset.size();
  args.cu_q = cu_q.data();
  args.cu_q_count = cu_q.size();
  args.cu_k = cu_k.data();
  args.cu_k_count = cu_k.size();
  args.dropout_seed = dropout_seed;
  args.threads = threads;
  args.stream = reinterpret_cast<void*>(stream);
  args.d_out = tensor_or_none(d_out, heads_first);
  args.d_lse = tensor_or_none(d_lse, false);
  args.dq = tensor_or_none(dq, heads_first);
  args.dk = tensor_or_none(dk, heads_first);
  args.dv = tensor_or_none(dv, heads_first);
  args.d_inputs = wanted.tensors.data();
  args.d_input_count = wanted.tensors.size();
  weft_error* error = nullptr;
  {
    const nb::gil_scoped_release unlocked;
    error = weft_run(kernel.handle(), &args);
  }
  check(error, Stage::arguments);
}

}  // namespace

void bind_run(nb::module_& module) {
  const auto none = [](const char* name) { return nb::arg(name).none() = nb::none(); };
  const std::vector<std::int64_t> nothing;
  module.def("run", &run, nb::arg("kernel"), nb::arg("q"), nb::arg("k"), nb::arg("v"), none("out"), none("lse"),
             none("branch_lse"), nb::arg("heads_first") = false, nb::arg("inputs") = nb::dict(),
             nb::arg("offset") = nothing, nb::arg("cu_q") = nothing, nb::arg("cu_k") = nothing,
             nb::arg("dropout_seed") = 0, nb::arg("threads") = 0, nb::arg("stream") = 0, none("d_out"), none("d_lse"),
             none("dq"), none("dk"), none("dv"), nb::arg("d_inputs") = nb::dict());
}

}  // namespace weft::python
