#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft::emulate {

/// One call in the emitted text.
struct Frame {
  std::string function;
  int line = 0;
};

/// For each offset into a built object the call there, then what it is inlined into, outwards; only those that are
/// in the emitted text. By addr2line, which comes with the linker; all empty where it is not to be had.
std::vector<std::vector<Frame>> frames(const std::string& object_bytes, const std::vector<std::uint64_t>& offsets);

/// `get (line 12) < stage (line 40) < weft_kernel (line 90)`; empty for none.
std::string print(const std::vector<Frame>& frames);

}  // namespace weft::emulate
