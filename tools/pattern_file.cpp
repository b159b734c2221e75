#include "tools/pattern_file.h"

#include "runtime/engine/destination.h"
#include "runtime/engine/engine_checks.h"
#include "runtime/engine/tuned.h"
#include "tools/files.h"

namespace weft::tools {

std::optional<DType> dtype_named(const std::string& word) {
  for (auto type : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    if (word == to_string(type)) return type;
  }
  return std::nullopt;
}

Result<CompileOptions> compile_options(const Options& options, const Source& source) {
  CompileOptions to;
  to.pattern = options.pattern;
  for (const auto& text : options.params) {
    const auto sign = text.find('=');
    if (sign == std::string::npos || sign == 0) {
      return user_error(fmt::format("-D {:.60}: expected name=value, such as -D width=64", text));
    }
    to.params[text.substr(0, sign)] = text.substr(sign + 1);
  }
  to.heads = options.heads;
  to.kv_heads = options.kv_heads;
  to.dim = options.dim;
  to.dim_v = options.dim_v;
  to.dtype = dtype_named(options.dtype);
  if (!options.target.empty()) to.target = options.target;
  to.branch_lse = options.lse_per_branch;
  to.gradient = options.gradient;
  to.source_name = source.name;
  return to;
}

Opened open_pattern(const Options& options, const Console& console) {
  auto source = read_source(options.files.at(0));
  if (!source) return {.status = console.fail(source.error())};
  auto compile = compile_options(options, *source);
  if (!compile) return {.status = console.usage(compile.error().message)};
  auto asked = *compile;
  asked.gradient = asked.gradient || !options.grad.empty();  // `run --grad` is about both passes
  auto front = read_pattern(*source, asked);
  if (!front) return {.status = console.fail(front.error(), &*source)};
  console.warnings(front->warnings, *source);
  compile->pattern = front->pattern.name;
  return {.file = PatternFile{
              .source = std::move(*source), .options = std::move(*compile), .pattern = std::move(front->pattern)}};
}

Sizes default_sizes(const Options& options, const ir::Pattern& pattern, const Console& console) {
  Sizes sizes;
  std::string assumed;
  const auto assume = [&](const std::string& text) { assumed += (assumed.empty() ? "" : ", ") + text; };
  if (options.batch) sizes.batch = *options.batch;
  if (pattern.heads)
    sizes.heads = *pattern.heads;
  else
    assume(fmt::format("{} heads", sizes.heads));
  sizes.kv_heads = pattern.kv_heads.value_or(sizes.heads);
  if (pattern.dim)
    sizes.dim = *pattern.dim;
  else
    assume(fmt::format("dim {}", sizes.dim));
  sizes.dim_v = pattern.dim_v.value_or(sizes.dim);
  if (options.dtype == "f64")
    sizes.dtype = DType::f64;
  else if (pattern.dtype)
    sizes.dtype = from_ir(*pattern.dtype);
  else
    assume(to_string(sizes.dtype));
  if (!options.batch) assume(fmt::format("batch {}", sizes.batch));
  if (!assumed.empty()) console.remark("{}: not given, taken as {}", pattern.name, assumed);
  return sizes;
}

CompileOptions with_sizes(CompileOptions options, const Sizes& sizes) {
  options.heads = sizes.heads;
  options.kv_heads = sizes.kv_heads;
  options.dim = sizes.dim;
  options.dim_v = sizes.dim_v;
  options.dtype = sizes.dtype;
  return options;
}

EngineOptions engine_options(const Options& options) {
  return {.cache_dir = options.cache_dir,
          .no_cache = options.no_cache,
          .no_compile = options.no_compile,
          .llvm = options.llvm,
          .nvrtc = options.nvrtc,
          .threads = static_cast<int>(options.threads.value_or(0)),
          .deadline_ms = options.deadline.value_or(0),
          .memory_bytes = options.memory.value_or(0)};
}

EngineOptions engine_options(const Options& options, const Console& console) {
  auto out = engine_options(options);
  out.notice = [&console](const std::string& text) { console.remark("{}", text); };
  return out;
}

std::shared_ptr<cache::Store> open_store(const Options& options, StoreUse use) {
  const auto engine = engine_options(options);
  return cache::Store::open({.directory = engine.cache_dir,
                             .disabled = engine.no_cache,
                             .read_only = use == StoreUse::look,
                             .cap = engine.cache_bytes});
}

Result<Planned> plan_file(const PatternFile& file, const Options& options, const Console& console) {
  const auto compile = with_sizes(file.options, default_sizes(options, file.pattern, console));
  WEFT_TRY(const auto destination, find_destination(compile.target));
  if (destination.kind == Destination::Kind::interpreter) {
    return user_error("the interpreter has no plan; use --target cpu");
  }
  WEFT_CHECK(check_gradient(compile));
  return plan_as_engines_do(file.source, compile, {open_store(options, StoreUse::look)}, destination.target);
}

}  // namespace weft::tools
