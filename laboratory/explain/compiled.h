#pragma once

#include "compiler/ir/few_rows.h"
#include "laboratory/explain/json.h"
#include "laboratory/explain/listener.h"
#include "laboratory/sass/report.h"
#include "runtime/engine/binaries.h"
#include "runtime/engine/front.h"

#include <cstdint>
#include <optional>

namespace weft::explain {

/// What a compiler made of a plan for a GPU. Nothing is known where this machine cannot compile for it, or where the
/// target is a CPU, whose kernels `explain` does not compile.
struct Compiled {
  std::optional<int> registers = {}, spill_bytes = {};
  std::optional<std::int64_t> shared_bytes = {};
  int blocks_per_sm = 0;  ///< that registers, shared memory and threads leave room for; 0: not known
  std::optional<sass::Report> machine_code = {};  ///< none without a disassembler that reads it
};

/// Takes the regime's kernel, of a plan for a GPU, from the store, or compiles it. Warns of what a machine lacks, and
/// how to mend it.
Result<Compiled> compile_for_gpu(const Planned& planned, ir::Regime regime, std::int64_t heads,
                                 const Binaries& binaries, const Listener& listener);

/// How many blocks of the plan's kernel run on an SM at once.
sass::Launch launch_of(const ir::Plan& plan, const Compiled& compiled);

/// Every number of the report, or null.
Json to_json(const std::optional<sass::Report>& report);

}  // namespace weft::explain
