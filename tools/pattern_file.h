#pragma once

#include "compiler/base/result.h"
#include "compiler/ir/pattern.h"
#include "kernels_cache/store.h"
#include "runtime/engine/front.h"
#include "tools/console.h"
#include "tools/options.h"

#include <weft/weft.h>

/// From the command line to one bound pattern: what run, draw, explain, emit and bench start with.
namespace weft::tools {

/// `f32`, `f16`, `bf16`, `f64`.
std::optional<DType> dtype_named(const std::string& word);

/// What the options say about compiling. User error: a -D that is not name=value.
Result<CompileOptions> compile_options(const Options& options, const Source& source);

struct PatternFile {
  Source source;
  CompileOptions options;
  ir::Pattern pattern;
};

/// Reads options.files[0] and prints its warnings. After an error has been printed, `status` is what to end with.
struct Opened {
  std::optional<PatternFile> file = {};
  int status = kDone;
};
Opened open_pattern(const Options& options, const Console& console);

/// Binds what neither file nor options say: 8 heads, dim 64, f32, batch 1; says so.
struct Sizes {
  std::int64_t batch = 1, heads = 8, kv_heads = 8, dim = 64, dim_v = 64;
  DType dtype = DType::f32;
};
/// `options` with these sizes filled in: what an engine is asked to compile.
CompileOptions with_sizes(CompileOptions options, const Sizes& sizes);
Sizes default_sizes(const Options& options, const ir::Pattern& pattern, const Console& console);

/// What the options say about store and compilers.
EngineOptions engine_options(const Options& options);
/// The same, with notices as remarks.
EngineOptions engine_options(const Options& options, const Console& console);

/// The store that the options name; or the same to look into, which changes nothing.
enum class StoreUse { change, look };
std::shared_ptr<cache::Store> open_store(const Options& options, StoreUse use = StoreUse::change);

/// The plan for the target that the options name, with default_sizes for what is open.
Result<Planned> plan_file(const PatternFile& file, const Options& options, const Console& console);

}  // namespace weft::tools
