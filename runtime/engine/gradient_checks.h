#pragma once

#include "compiler/base/result.h"
#include "runtime/engine/launch_checks.h"

#include <weft/weft.h>

namespace weft {

/// What can be wrong with O, LSE, dO, dLSE and the outputs of a backward pass whose q, k, v and inputs were found
/// right; puts the gradients of inputs in order. Of a forward kernel: that none of them is given.
Status check_gradients(const LaunchContract& contract, const RunArgs& args, Launch& launch);

}  // namespace weft
