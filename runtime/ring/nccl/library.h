#pragma once

#include "compiler/base/result.h"
#include "runtime/ring/nccl/functions.h"

#include <string>

namespace weft::nccl {

/// `2.18.5` of 21805.
std::string text_of(int version);

/// NCCL as it was opened: once a process and place.
struct Library {
  std::string path;
  int version = 0;
  Functions functions = {};

  /// `call` says what was tried; `comm` may be null. No error: success, or under way.
  Status check(int result, const char* call, CommHandle* comm) const;
};

/// What WEFT_NCCL names, else libnccl.so.2. Environment error (ring_start) that says how to get one.
Result<const Library*> open();

}  // namespace weft::nccl
