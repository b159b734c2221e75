#include "python/jax.h"

#include "python/engine.h"
#include "python/weft/_jax/call.h"

#include <nanobind/stl/string.h>
#include <weft/c.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace weft::python {

namespace {

using jax::Buffer;
using jax::Call;

/// Kernels by the names that stand in compiled programs. Python holds them for as long as there are such.
class Names {
 public:
  void keep(std::string name, const weft_kernel* kernel) {
    const std::lock_guard lock(mutex_);
    kernels_[std::move(name)] = kernel;
  }
  const weft_kernel* find(std::string_view name) const {
    const std::lock_guard lock(mutex_);
    const auto found = kernels_.find(name);
    return found == kernels_.end() ? nullptr : found->second;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, const weft_kernel*, std::less<>> kernels_;
};

Names& names() {
  static Names all;
  return all;
}

/// Of a buffer that Weft knows as `rank` axes: those in front of them are of the batch.
weft_tensor tensor_of(const Buffer& from, int rank, bool heads_first = false) {
  if (from.rank < rank || rank > 4) throw std::invalid_argument("a buffer has too few axes");
  std::vector<std::int64_t> extents(from.extents + (from.rank - rank), from.extents + from.rank);
  for (int i = 0; i < from.rank - rank; ++i) extents.at(0) *= from.extents[i];
  if (std::find(extents.begin(), extents.end(), 0) != extents.end()) return {};
  weft_tensor out = weft_dense(from.data, static_cast<weft_dtype>(from.dtype), rank, extents.data());
  if (heads_first) {
    std::swap(out.extent[1], out.extent[2]);
    std::swap(out.stride[1], out.stride[2]);
  }
  return out;
}

/// The arguments, taken one by one.
class Given {
 public:
  Given(const Buffer* first, std::size_t count) : next_(first), end_(first + count) {}
  const Buffer& take() {
    if (next_ == end_) throw std::invalid_argument("a buffer is missing");
    return *next_++;
  }
  bool any() const { return next_ != end_; }

 private:
  const Buffer *next_, *end_;
};

void place_lse(const weft_pattern* pattern, weft_run_args& args, const Buffer& lse) {
  const auto kind = weft_pattern_lse(pattern);
  if (kind == WEFT_LSE_OF_ROWS) args.lse = tensor_of(lse, 3);
  if (kind == WEFT_LSE_OF_BRANCHES) args.branch_lse = tensor_of(lse, 4);
}

/// Inputs, and of those with a gradient the place for it.
struct Inputs {
  std::vector<weft_named_tensor> values, gradients;

  Inputs(const weft_pattern* pattern, Given& given, Given& results, bool backward) {
    for (std::size_t i = 0; i < weft_pattern_input_count(pattern); ++i) {
      const auto input = weft_pattern_input(pattern, i);
      values.push_back({input.name, tensor_of(given.take(), input.rank)});
      if (backward && input.dtype == WEFT_F32) gradients.push_back({input.name, tensor_of(results.take(), input.rank)});
    }
  }
};

weft_error* launch(const weft_kernel* kernel, const Call& call) {
  const weft_pattern* const pattern = weft_kernel_pattern(kernel);
  Given given(call.arguments, call.argument_count), results(call.results, call.result_count);
  weft_run_args args = weft_run_args_init();
  const auto rows = [&](Given& from) { return tensor_of(from.take(), 4, call.heads_first); };
  args.q = rows(given);
  args.k = rows(given);
  args.v = rows(given);
  args.out = rows(call.backward ? given : results);
  place_lse(pattern, args, (call.backward ? given : results).take());
  if (call.backward) {
    args.d_out = rows(given);
    const Buffer& d_lse = given.take();
    if (weft_pattern_lse(pattern) != WEFT_LSE_NONE) {
      args.d_lse = tensor_of(d_lse, weft_pattern_lse(pattern) == WEFT_LSE_OF_BRANCHES ? 4 : 3);
    }
    args.dq = rows(results);
    args.dk = rows(results);
    args.dv = rows(results);
  }
  const Inputs inputs(pattern, given, results, call.backward);
  args.inputs = inputs.values.data();
  args.input_count = inputs.values.size();
  args.d_inputs = inputs.gradients.data();
  args.d_input_count = inputs.gradients.size();
  if (given.any()) {
    args.dropout_seed_at = static_cast<const std::uint64_t*>(given.take().data);
  }
  if (call.has_offset) {
    args.offset = &call.offset;
    args.offset_count = 1;
  }
  args.threads = call.threads;
  args.stream = call.stream;
  return weft_run(kernel, &args);
}

void say(char* message, std::size_t size, std::string_view text) {
  std::snprintf(message, size, "%.*s", static_cast<int>(text.size()), text.data());
}

bool run_for_xla(const Call* call, char* message, std::size_t size) {
  try {
    const weft_kernel* const kernel = names().find({call->kernel, call->kernel_size});
    if (kernel == nullptr) {
      say(message, size,
          "the kernel of this program was not made in this process: call weft.jax.attention in it first");
      return false;
    }
    weft_error* const error = launch(kernel, *call);
    if (error == nullptr) return true;
    say(message, size, weft_error_message(error));
    weft_error_free(error);
  } catch (const std::exception& error) {
    say(message, size, error.what());
  }
  return false;
}

}  // namespace

void bind_jax(nb::module_& module) {
  module.def("jax_keep",
             [](std::string name, const Kernel& kernel) { names().keep(std::move(name), kernel.handle()); });
  module.def("jax_function", [] { return reinterpret_cast<std::uintptr_t>(&run_for_xla); });
}

}  // namespace weft::python
