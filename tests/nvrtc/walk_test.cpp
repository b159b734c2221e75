#include "runtime/nvrtc/compile.h"

#include "planted.h"

#include "tests/support/places.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

/// compiler/walk is read by compilers for devices, too: every header, and every function that hosts call.
namespace weft::nvrtc {
namespace {

std::string header(const std::string& path) {
  std::ifstream file(test::in_checkout(path));
  EXPECT_TRUE(file) << path;
  std::string out;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("#include \"") && line != "#pragma once") out += line + "\n";
  }
  return out;
}

constexpr const char* kWalk = R"(
using namespace weft::walk;

struct Environment {
  i64 x_begin, x_end, y_begin, y_end;
  const i64* words;
  TermState* states;
  const Said* saids;
  __device__ i64 word(const i64* at) const { return *at; }
  __device__ const i64* table(i64 offset) const { return words + offset; }
  __device__ i64 input(i64 number) const { return number; }
  __device__ i64 part(i64 b, i64 a) const { return b * y_end / a; }
  __device__ i64 form(i64 number, i64 x) const { return number + x; }
  __device__ const Said& said(i64 number) const { return saids[number]; }
  __device__ TermState& state(i64 t) { return states[t]; }
  __device__ i64 modulus(i64) const { return 0; }
  __device__ Answer answers(i64, i64 y) { return {kSomeKeep, y + 1}; }
};

extern "C" __global__ void weft_kernel(const i64* words, TermState* states, const Said* saids, i64* cuts, i64* out,
                                       i64 n) {
  Environment e = {0, n, 0, n, words, states, saids};
  const i64* const head = words + words[0];
  const i64* const pass = words + words[1];
  Rows rows;
  rows_of_tile(e, head, Tiles{64, true, 1}, blockIdx.x, [&](i64 x, u64 bits) {
    rows.last = x;
    rows.any |= bits;
    const Interval kept = interval_of_row(e, term_of(e, pass, 0), x, bits);
    out[0] += kept.hi - kept.lo;
  });
  const i64 count = make_spans(e, rows, pass, cuts);
  for (i64 i = 1; i < count; ++i) {
    const Zone zone = make_zone(e, pass, cuts[i - 1], cuts[i], cuts + count);
    for (i64 y; (y = next_hit(e, pass, cuts + count, zone.count, cuts[i])) < cuts[i];) out[1] += y;
  }
}
)";

TEST(NvrtcCompile, TheWalkIsReadByDevices) {
  std::string text = header("codegen/args.h");
  for (const char* name : {"portable", "words", "rows", "terms", "zones"})
    text += header(std::string("compiler/walk/") + name + ".h");
  text += kWalk;
  std::size_t tried = 0;
  for (const char* name : {"sm_61", "sm_80", "sm_90"}) {
    const Target target = find_target(name).value();
    const auto library = library_for(target);
    if (library == nullptr) continue;
    const auto binary = compile(*library, text, target);
    EXPECT_TRUE(binary.ok()) << name << ": " << (binary.ok() ? "" : binary.error().message);
    ++tried;
  }
  if (tried == 0) GTEST_SKIP() << "no NVRTC here";
}

}  // namespace
}  // namespace weft::nvrtc
