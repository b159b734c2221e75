#pragma once

#include "compiler/base/result.h"
#include "runtime/nvrtc/invoke.h"
#include "runtime/nvrtc/library.h"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

/// NVRTC in a process of its own: it aborts the process it runs in when memory runs out, and cannot be interrupted.
namespace weft::nvrtc {

/// Zero: no such limit.
struct Limits {
  std::chrono::milliseconds deadline{0};
  std::uint64_t memory_bytes = 0;  ///< of address space, the compiler itself (some 150 MB) included
  bool any() const { return deadline.count() > 0 || memory_bytes > 0; }
};

/// invoke(), in a worker process that is killed at the deadline and cannot map more than the limit. Nothing is
/// forked: any threads may run here, and none of the caller's files or signal handlers reach the worker. When the
/// calling thread ends, the worker is killed.
///
/// Environment error, naming the limit, where it was reached; also where there is no worker program, or its NVRTC is
/// not the same build as `library`, whose file was replaced meanwhile.
Result<Outcome> invoke_in_worker(const Library& library, const std::string& text,
                                 const std::vector<std::string>& arguments, Stage stage, const Limits& limits);

/// The worker program: WEFT_WORKER where it is set, else `weft-compile` beside this program or this library, or where
/// it is installed with the library.
Result<std::string> find_worker();

}  // namespace weft::nvrtc
