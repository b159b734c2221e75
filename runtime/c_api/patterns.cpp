#include "compiler/base/diagnostic.h"
#include "runtime/c_api/handles.h"
#include "runtime/c_api/library.h"
#include "runtime/engine/front.h"

/// Patterns without kernels: what a text says, and the texts that Weft brings.

namespace weft::c_api {
namespace {

weft_dtype dtype_of(ir::InputType type) {
  switch (type) {
    case ir::InputType::i32:
      return WEFT_I32;
    case ir::InputType::u8:
      return WEFT_U8;
    case ir::InputType::f32:
      return WEFT_F32;
  }
  return WEFT_DTYPE_OPEN;
}

weft_lse_kind lse_of(const ir::Pattern& pattern) {
  if (!ir::has_lse(pattern)) return WEFT_LSE_NONE;
  return ir::per_branch(pattern.combine) ? WEFT_LSE_OF_BRANCHES : WEFT_LSE_OF_ROWS;
}

}  // namespace

weft_pattern pattern_of(const ir::Pattern& pattern, const std::vector<Diagnostic>& warnings, const Source& source) {
  weft_pattern out;
  out.name = pattern.name;
  out.text = ir::print(pattern);
  out.lse = lse_of(pattern);
  out.branches = std::ssize(pattern.branches);
  out.input_names.reserve(pattern.inputs.size());  // pointers into it are given away
  for (const auto& input : pattern.inputs) {
    out.input_names.push_back(input.name);
    out.inputs.push_back({.name = out.input_names.back().c_str(),
                          .dtype = dtype_of(input.type),
                          .rank = static_cast<std::int32_t>(input.axes.size())});
  }
  out.warnings = diagnostics_of(warnings, &source, out.texts);
  for (const auto& warning : warnings) out.warnings_report += render(warning, source);
  return out;
}

}  // namespace weft::c_api

using namespace weft;         // NOLINT(google-build-using-namespace): the functions below have no namespace
using namespace weft::c_api;  // NOLINT(google-build-using-namespace)

extern "C" {

weft_error* weft_check(const char* text, size_t text_length, const weft_compile_options* options, weft_pattern** out) {
  Source source;
  return guarded(&source, [&]() -> Status {
    if (out == nullptr) return missing("the place for the pattern");
    *out = nullptr;
    if (text == nullptr) return missing("the text");
    WEFT_TRY(const auto made, options_of(options));
    source = {.name = made.source_name, .text = std::string(text, text_length)};
    WEFT_TRY(const auto front, read_pattern(source, made));
    *out = new weft_pattern(pattern_of(front.pattern, front.warnings, source));
    return done;
  });
}

void weft_pattern_free(weft_pattern* pattern) { delete pattern; }

const weft_pattern* weft_kernel_pattern(const weft_kernel* kernel) {
  return kernel == nullptr ? nullptr : &kernel->pattern;
}

const char* weft_pattern_name(const weft_pattern* pattern) { return pattern == nullptr ? "" : pattern->name.c_str(); }
const char* weft_pattern_text(const weft_pattern* pattern) { return pattern == nullptr ? "" : pattern->text.c_str(); }
weft_lse_kind weft_pattern_lse(const weft_pattern* pattern) {
  return pattern == nullptr ? WEFT_LSE_NONE : pattern->lse;
}
int64_t weft_pattern_branch_count(const weft_pattern* pattern) { return pattern == nullptr ? 0 : pattern->branches; }

size_t weft_pattern_input_count(const weft_pattern* pattern) { return pattern == nullptr ? 0 : pattern->inputs.size(); }
weft_input_info weft_pattern_input(const weft_pattern* pattern, size_t number) {
  if (number >= weft_pattern_input_count(pattern)) return {};
  return pattern->inputs[number];
}

size_t weft_pattern_warning_count(const weft_pattern* pattern) {
  return pattern == nullptr ? 0 : pattern->warnings.size();
}
weft_diagnostic weft_pattern_warning(const weft_pattern* pattern, size_t number) {
  if (number >= weft_pattern_warning_count(pattern)) return {};
  return pattern->warnings[number];
}
const char* weft_pattern_warnings_report(const weft_pattern* pattern) {
  return pattern == nullptr ? "" : pattern->warnings_report.c_str();
}

const char* weft_library_text(size_t number) { return number < library_size() ? library_text(number) : nullptr; }

}  // extern "C"
