#pragma once

#include "compiler/base/result.h"
#include "laboratory/explain/compiled.h"
#include "laboratory/explain/listener.h"
#include "laboratory/explain/prediction.h"
#include "laboratory/explain/ring_report.h"
#include "laboratory/explain/workload.h"
#include "runtime/engine/binaries.h"
#include "runtime/engine/front.h"
#include "runtime/engine/measured.h"

#include <weft/weft.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

/// What a kernel will do at given sizes, and why: all that `weft explain` says.
namespace weft::explain {

/// Sizes where neither the pattern nor the caller says: 4,096 tokens, 8 heads, dim 64.
inline constexpr std::int64_t kTokens = 4096, kHeads = 8, kDim = 64;
/// How many tokens the pattern itself demands, if it does.
std::optional<std::int64_t> tokens_of(const ir::Pattern& pattern);
ir::Shape shape_of(const ir::Pattern& pattern, std::int64_t batch, std::optional<std::int64_t> tokens,
                   std::optional<std::int64_t> keys);

struct Request {
  const Source& source;
  CompileOptions compile;  ///< heads and dims as in `shape`, dtype f32 where nobody says
  ir::Shape shape;
  const std::vector<ir::Tensor>& inputs;  ///< all of the pattern's, or none: then what depends on them is not counted
  std::optional<RingOf> ring = {};
  bool heads_first = false;  ///< tensors are [B, H, n, d], not [B, n, H, d]
  Stores stores = {};        ///< where an engine finds tuned schedules and what was measured
  std::string llvm = {};     ///< as in EngineOptions
  /// What compiles for GPUs; asked for once, and where the target is one only.
  std::function<std::shared_ptr<const Binaries>()> binaries = {};
};

struct Explanation {
  Planned planned;
  ir::Shape shape;
  Workload load = {};
  std::vector<Compiled> kernels = {};        ///< one, and of gradients on GPUs that of dK and dV
  std::optional<Prediction> predicted = {};  ///< none of gradients on CPUs
  std::optional<BackwardMemory> backward = {};
  std::optional<RingReport> ring = {};  ///< where one is asked for
};

/// User errors: of the text and of sizes that do not fit it, a ring together with gradients, the interpreter, which has
/// no plan.
Result<Explanation> explain(const Request& request, const Listener& listener = {});

/// Lines for people.
std::string to_text(const Explanation& what);
Json to_json(const Explanation& what);

}  // namespace weft::explain
