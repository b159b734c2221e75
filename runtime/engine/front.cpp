#include "runtime/engine/front.h"
#include "compiler/ir/check.h"

#include "compiler/ir/jumps.h"
#include "compiler/ir/lower.h"
#include "compiler/planner/planner.h"
#include "dsl/parse.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft {

namespace {

bool has_error(const std::vector<Diagnostic>& findings) {
  return std::any_of(findings.begin(), findings.end(), [](const auto& d) { return d.severity == Severity::error; });
}

std::string names_of(const dsl::File& file) {
  std::string names;
  for (const auto& pattern : file.patterns) names += (names.empty() ? "" : ", ") + pattern.name;
  return names;
}

Result<std::string> choose(const dsl::File& file, const Source& source, const std::string& wanted) {
  if (file.patterns.empty()) return user_error(source.name + " holds no pattern");
  if (wanted.empty()) {
    if (file.patterns.size() == 1) return file.patterns.front().name;
    return user_error(fmt::format("{} holds several patterns; name one of them: {}", source.name, names_of(file)));
  }
  if (file.find(wanted) != nullptr) return wanted;
  std::vector<std::string> names;
  for (const auto& pattern : file.patterns) names.push_back(pattern.name);
  const auto near = nearest_word(wanted, names);
  return user_error(fmt::format("{} holds no pattern '{}'; {}", source.name, wanted,
                                near.empty() ? "it holds: " + names_of(file) : "did you mean '" + near + "'?"));
}

Result<ir::Params> parse_params(const std::map<std::string, std::string>& texts) {
  ir::Params params;
  for (const auto& [name, text] : texts) {
    WEFT_TRY(auto parsed, ir::parse_param(name + "=" + text));
    params.insert(std::move(parsed));
  }
  return params;
}

/// The option and the text disagree: the text is underlined, the option is quoted.
Error contradiction(SourceRange range, const std::string& what, const std::string& in_text, const std::string& asked) {
  Diagnostic diagnostic;
  diagnostic.code = "E0901";
  diagnostic.range = range;
  diagnostic.message = fmt::format("{} is {} here and {} in the options", what, in_text, asked);
  diagnostic.label = fmt::format("the text says {}", in_text);
  diagnostic.notes.push_back(fmt::format("the options say {} {}; leave one of the two out", what, asked));
  return user_error(std::vector{diagnostic});
}

Status bind_number(std::optional<std::int64_t>& field, const std::optional<std::int64_t>& option, const char* what,
                   SourceRange range) {
  if (!option) return done;
  if (*option < 1) return user_error(fmt::format("{} is {} in the options; it must be at least 1", what, *option));
  if (field && *field != *option) {
    return contradiction(range, what, std::to_string(*field), std::to_string(*option));
  }
  field = option;
  return done;
}

Status bind_options(ir::Pattern& pattern, const CompileOptions& options) {
  // `heads H;` and `dim D;` fix the other of their pair, too.
  if (pattern.heads && !pattern.kv_heads) pattern.kv_heads = pattern.heads;
  if (pattern.dim && !pattern.dim_v) pattern.dim_v = pattern.dim;
  WEFT_CHECK(bind_number(pattern.heads, options.heads, "heads", pattern.heads_range));
  WEFT_CHECK(bind_number(pattern.kv_heads, options.kv_heads, "kv heads", pattern.heads_range));
  WEFT_CHECK(bind_number(pattern.dim, options.dim, "dim", pattern.dim_range));
  WEFT_CHECK(bind_number(pattern.dim_v, options.dim_v, "value dim", pattern.dim_range));
  if (pattern.heads && !pattern.kv_heads) pattern.kv_heads = pattern.heads;
  if (pattern.dim && !pattern.dim_v) pattern.dim_v = pattern.dim;
  if (pattern.heads && *pattern.heads % *pattern.kv_heads != 0) {
    return user_error(fmt::format("{} heads are not a multiple of {} kv heads", *pattern.heads, *pattern.kv_heads));
  }
  // f64 binds nothing: it is the interpreter's own type, which takes any pattern.
  if (options.dtype && *options.dtype != DType::f64) {
    if (*options.dtype == DType::i32 || *options.dtype == DType::u8) {
      return user_error(
          fmt::format("dtype {} is for inputs; q, k and v are f32, f16 or bf16", to_string(*options.dtype)));
    }
    const auto wanted = to_ir(*options.dtype);
    if (pattern.dtype && *pattern.dtype != wanted) {
      return contradiction(pattern.dtype_range, "dtype", ir::to_string(*pattern.dtype), ir::to_string(wanted));
    }
    pattern.dtype = wanted;
  }
  return done;
}

}  // namespace

Status check_branch_lse(const ir::Pattern& pattern) {
  if (!ir::has_lse(pattern)) return user_error("'weights sigmoid' divides by no sum: branches have no LSE");
  if (!pattern.sink_logit) return done;
  return user_error("'sink_logit' joins the sum of the whole row: there is no LSE of each branch beside it");
}

Result<ir::Bind> bind_of(const ir::Pattern& pattern, const CompileOptions& options) {
  const auto open = [](const char* what) {
    return user_error(fmt::format("the pattern leaves {} open, and the options do not say it", what));
  };
  if (!pattern.dim) return open("dim");
  if (!pattern.dtype) return open("dtype");
  if (options.branch_lse) WEFT_CHECK(check_branch_lse(pattern));
  return ir::Bind{.d = *pattern.dim,
                  .d_v = *pattern.dim_v,
                  .dtype = *pattern.dtype,
                  .branch_lse = options.branch_lse && !options.gradient,  // it reads those that the mode has
                  .paged = options.paged,
                  .gradient = options.gradient};
}

Result<Planned> plan_pattern(Front front, const CompileOptions& options, const Target& target) {
  WEFT_TRY(const auto bind, bind_of(front.pattern, options));
  WEFT_TRY(auto plan, planner::plan(front.pattern, bind, target));
  return Planned{std::move(front), bind, target, std::move(plan)};
}

Result<CheckedText> check_text(const Source& source) {
  WEFT_TRY(auto file, dsl::parse(source, ir::examine));
  auto findings = ir::check(file, source);
  if (has_error(findings)) return user_error(std::move(findings));
  return CheckedText{.file = std::move(file), .warnings = std::move(findings)};
}

Result<Front> read_pattern(const CheckedText& text, const Source& source, const CompileOptions& options) {
  WEFT_TRY(const auto name, choose(text.file, source, options.pattern));
  WEFT_TRY(const auto params, parse_params(options.params));
  std::vector<Diagnostic> findings;
  WEFT_TRY(auto pattern, ir::lower(text.file, name, params, &findings));
  WEFT_CHECK(bind_options(pattern, options));
  if (options.gradient) {
    if (auto jump = ir::warn_of_jumps(pattern)) findings.push_back(std::move(*jump));
  }
  return Front{.pattern = std::move(pattern), .warnings = std::move(findings)};
}

Result<Front> read_pattern(const Source& source, const CompileOptions& options) {
  WEFT_TRY(auto text, check_text(source));
  WEFT_TRY(auto front, read_pattern(text, source, options));
  front.warnings.insert(front.warnings.begin(), text.warnings.begin(), text.warnings.end());
  return front;
}

ir::DType to_ir(DType type) {
  if (type == DType::f16) return ir::DType::f16;
  return type == DType::bf16 ? ir::DType::bf16 : ir::DType::f32;
}

DType from_ir(ir::DType type) {
  if (type == ir::DType::f16) return DType::f16;
  return type == ir::DType::bf16 ? DType::bf16 : DType::f32;
}

DType from_ir(ir::InputType type) {
  if (type == ir::InputType::i32) return DType::i32;
  return type == ir::InputType::u8 ? DType::u8 : DType::f32;
}

}  // namespace weft
