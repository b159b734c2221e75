#include "runtime/llvm/guard.h"

#include <csetjmp>
#include <cstdio>
#include <exception>

namespace weft::llvm {
namespace {

struct Frame {
  std::jmp_buf back;
  char reason[2048];
};

thread_local Frame* innermost = nullptr;

void on_fatal_error(const char* reason) {
  Frame* frame = innermost;
  if (frame == nullptr) {
    // Someone else's compilation in the same copy of LLVM: say what LLVM would have said before it exits.
    std::fprintf(stderr, "LLVM ERROR: %s\n", reason);
    return;
  }
  std::snprintf(frame->reason, sizeof frame->reason, "%s", reason);
  std::longjmp(frame->back, 1);
}

/// In a frame of its own, so that no variable lives across the jump.
bool run(Frame& frame, void (*work)(void*), void* data) {
  if (setjmp(frame.back) != 0) return false;
  try {
    work(data);
    return true;
  } catch (const std::exception& thrown) {
    // Out of memory, from the allocator: LLVM is compiled without exceptions and lets them pass.
    std::snprintf(frame.reason, sizeof frame.reason, "%s", thrown.what());
    return false;
  }
}

}  // namespace

void install_guard(const Functions& llvm) { llvm.InstallFatalErrorHandler(on_fatal_error); }

bool guarded(void (*work)(void*), void* data, std::string& reason) {
  Frame frame{};
  Frame* const outer = innermost;
  innermost = &frame;
  const bool returned = run(frame, work, data);
  innermost = outer;
  if (!returned) reason = frame.reason;
  return returned;
}

}  // namespace weft::llvm
