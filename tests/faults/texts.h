#pragma once

#include "tests/faults/fault.h"

#include <cstdint>
#include <ostream>
#include <vector>

namespace weft::test {

struct Size {
  std::int64_t queries = 200, keys = queries, heads = 2, kv_heads = heads, d = 16, d_v = d;
};

/// A kernel, a problem that it is right on, and the faults that make it wrong there.
struct Text {
  const char* name;
  const char* pattern;
  std::vector<Fault> faults;
  const char* target = "sm_61";  ///< sm_80: in f16, by matrix instructions
  Size size = {};
  double sharpness = 1;          ///< of Q: peaked rows move their maxima
  bool rising = false;           ///< scores grow with the keys
  const char* beside = nullptr;  ///< planted always: no fault, but brings one to light
};

inline void PrintTo(const Text& text, std::ostream* out) { *out << text.name; }

const std::vector<Text>& cuda_texts();
const std::vector<Text>& cpu_texts();

}  // namespace weft::test
