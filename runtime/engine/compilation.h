#pragma once

#include "codegen/source.h"
#include "compiler/base/fork_safe.h"
#include "compiler/ir/few_rows.h"
#include "kernels_cache/entry.h"
#include "kernels_cache/key.h"
#include "runtime/engine/arguments.h"
#include "runtime/engine/front.h"

#include <weft/weft.h>

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace weft {

struct Backend;

/// One kernel on its way from a request to launches: what is known of it before anything is compiled. It grows with the
/// stages, none of which changes what an earlier one wrote: read_pattern() and plan_pattern() made what it inherits,
/// texts are made when they are first asked for (a stored kernel starts without them), and Kernel::State adds what
/// runs. Its readers are thread-safe, and safe in forked processes.
struct Compilation : Planned {
  explicit Compilation(Planned planned);

  const Backend& backend;
  std::vector<ir::Step> steps;          ///< of a launch
  std::string launch;                   ///< what the runtime must know beside a binary
  std::optional<cache::Key> memo = {};  ///< what stores note of its texts begins so (memo.h)
  std::string command = {};  ///< that would add it to a bundle, for the message where nothing may be compiled

  const std::string& pattern_text() const;
  const std::string& plan_text() const;
  const codegen::Source& source(ir::Regime regime = ir::Regime::many_queries) const;
  /// Made once for each number of heads that launches have.
  Result<std::shared_ptr<const HeadTables>> tables(std::int64_t heads,
                                                   ir::Regime regime = ir::Regime::many_queries) const;
  /// Has anybody asked for the source?
  bool emitted(ir::Regime regime = ir::Regime::many_queries) const;

 private:
  mutable ForkSafe<> mutex_;
  mutable std::map<ir::Regime, codegen::Source> sources_;
  mutable std::optional<std::string> pattern_text_, plan_text_;
  std::array<KnownHeads<HeadTables>, ir::kRegimes> tables_;
};

/// What one of a kernel's texts is compiled to: first what stores are asked by, then what they or a compiler gave.
struct Binary {
  ir::Regime regime = ir::Regime::many_queries;
  /// Everything that can change what the binary is, but the compiler: bundles are asked by it where there is none,
  /// and with the compiler's identity it becomes the key of the store.
  cache::Key request = cache::Key();
  std::optional<cache::Key> memo = {};  ///< to note it under in stores (memo.h)

  cache::Entry entry = {};
  CacheOrigin origin = CacheOrigin::miss;
  std::string place = {};  ///< the directory of the store, the name of the bundle; empty where it was compiled
  BuildTimes times = {};
};

/// Emits the text and says what it is called.
Binary binary_of(const Compilation& kernel, ir::Regime regime = ir::Regime::many_queries);

/// For people, what is compiled in: `bf16, dim 64`, `f32, dim 64, value dim 32, branch lse, few queries`.
std::string variant_of(const ir::Bind& bind, ir::Regime regime);

}  // namespace weft
