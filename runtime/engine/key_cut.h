#pragma once

#include "compiler/base/result.h"
#include "compiler/ir/plan.h"

#include <weft/weft.h>

#include <cstdint>

namespace weft {

/// Of a launch: some chunks of the keys of its rows alone, whose states it leaves in memory of the caller's, or what is
/// made of such states. Others compute the other chunks, or the same ones do, one after another. A row's bits depend on
/// where chunks begin, and not on who computes which when.
struct KeyCut {
  enum class Step {
    attend,  ///< writes the states of `count` chunks, which begin at key `first`
    fold,    ///< the first of `count` states becomes that of all
    finish,  ///< O and LSE of `count` states
  };
  Step step = Step::attend;
  float* states = nullptr;  ///< in the kernel's memory, [B, H, rows of the launch, slots, softmaxes, d_v + 2]
  std::int64_t slots = 1, slot = 0, count = 1;  ///< states of a row, the first that the step is about, and how many
  std::int64_t first = 0, keys = 0;             ///< keys of each chunk
  std::int64_t held = 0;                        ///< the key whose rows K and V begin with
};

/// f32 numbers of a row's state of one chunk.
std::int64_t floats_of_state(const ir::Plan& plan);

/// A launch, by a kernel that ir::check_key_cuts passes, of which `cut` says what it computes; `args.out` is written by
/// the last step alone.
Status run_cut(const Kernel& kernel, const RunArgs& args, const KeyCut& cut);

}  // namespace weft
