#pragma once

/// The device headers (codegen/cuda/device/) as texts, in the order in which they build on each other.
namespace weft::codegen::cuda {

struct Header {
  const char* name;
  const char* text;
};
extern const Header kHeaders[];
inline constexpr int kHeaderCount = 18;

}  // namespace weft::codegen::cuda
