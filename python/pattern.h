#pragma once

#include "python/dtypes.h"
#include "python/errors.h"

#include <nanobind/nanobind.h>
#include <weft/c.h>

#include <memory>
#include <string>
#include <vector>

namespace weft::python {

namespace nb = nanobind;

/// What is to be compiled, or only read: weft_compile_options, whose strings live here.
struct Request {
  std::string text, pattern, source_name, target;
  std::vector<std::string> params;  ///< `name=value`
  std::int64_t heads = 0, kv_heads = 0, dim = 0, dim_v = 0;
  std::string dtype;  ///< empty: not said
  bool branch_lse = false, gradient = false;
};

/// Calls `use` with the options of a request, while they live.
template <typename Use>
auto with_options(const Request& request, const Use& use) {
  weft_compile_options options = weft_compile_options_init();
  std::vector<const char*> params;
  for (const auto& param : request.params) params.push_back(param.c_str());
  const auto* type = element_type(request.dtype);
  if (!request.dtype.empty() && (type == nullptr || type->dtype == WEFT_DTYPE_OPEN)) {
    throw_named("ArgumentError", "no dtype '" + request.dtype + "'; expected f32, f16, bf16 or f64");
  }
  options.pattern = request.pattern.empty() ? nullptr : request.pattern.c_str();
  options.params = params.data();
  options.param_count = params.size();
  options.heads = request.heads;
  options.kv_heads = request.kv_heads;
  options.dim = request.dim;
  options.dim_v = request.dim_v;
  options.dtype = type == nullptr ? WEFT_DTYPE_OPEN : type->dtype;
  options.branch_lse = request.branch_lse ? 1 : 0;
  options.gradient = request.gradient ? 1 : 0;
  options.target = request.target.empty() ? nullptr : request.target.c_str();
  options.source_name = request.source_name.empty() ? nullptr : request.source_name.c_str();
  return use(options);
}

/// A text that was read, with what it says of itself.
class Pattern {
 public:
  explicit Pattern(const Request& request);
  const weft_pattern* handle() const { return handle_.get(); }

 private:
  struct Free {
    void operator()(weft_pattern* pattern) const { weft_pattern_free(pattern); }
  };
  std::unique_ptr<weft_pattern, Free> handle_;
};

void bind_pattern(nb::module_& module);

}  // namespace weft::python
