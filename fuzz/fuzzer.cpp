#include "fuzz/targets.h"

#include <cstddef>
#include <cstdint>

/// libFuzzer's entry; the build says which of the targets it is for.
extern "C" __attribute__((visibility("default"))) int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                                                             std::size_t size) {
  weft::fuzz::WEFT_FUZZ_TARGET({reinterpret_cast<const char*>(data), size});
  return 0;
}
