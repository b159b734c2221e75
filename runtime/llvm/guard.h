#pragma once

#include "runtime/llvm/functions.h"

#include <string>

namespace weft::llvm {

/// Makes fatal errors of the library (such as an instruction it cannot select) come back to guarded() on the
/// thread that caused them. One on a thread outside of guarded() ends the process, as without us.
void install_guard(const Functions& llvm);

/// Runs `work(data)`. True when it returned; false, with LLVM's reason, when LLVM gave up in it, or something was
/// thrown.
///
/// LLVM gives up by calling a handler that must not return; ours jumps back here, as LLVM's own crash recovery
/// does. No destructor between runs: `work` keeps only raw handles in its frames, everything else in `data`,
/// and after a failure what LLVM held is abandoned, not freed.
bool guarded(void (*work)(void* data), void* data, std::string& reason);

}  // namespace weft::llvm
