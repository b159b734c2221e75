#include "compiler/target/cpu_features.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace weft {
namespace {

#if defined(__x86_64__)

struct Registers {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Registers cpuid(unsigned leaf, unsigned subleaf = 0) {
  Registers r;
  // Fails, and leaves zeros, where the processor has no such leaf.
  if (__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx) == 0) return {};
  return r;
}

/// Registers the operating system saves at a switch of threads (XCR0). Without it a processor's AVX is unusable.
struct SavedState {
  bool none = true;
  bool avx = false;
  bool avx512 = false;
};

SavedState saved_state(const Registers& leaf_1) {
  constexpr unsigned kOsxsave = 1U << 27;
  constexpr unsigned kAvxState = 0x6;      // xmm, ymm
  constexpr unsigned kAvx512State = 0xE6;  // and the mask registers, upper halves of zmm0-15, zmm16-31
  if ((leaf_1.ecx & kOsxsave) == 0) return {};
  unsigned low = 0;
  unsigned high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return {.avx = (low & kAvxState) == kAvxState, .avx512 = (low & kAvx512State) == kAvx512State};
}

CpuFeatureSet read_features() {
  const Registers leaf_1 = cpuid(1);
  const Registers leaf_7 = cpuid(7);
  const Registers leaf_7_1 = leaf_7.eax >= 1 ? cpuid(7, 1) : Registers{};
  const Registers leaf_extended = cpuid(0x80000001);
  const SavedState saved = saved_state(leaf_1);
  CpuFeatureSet out;
#define WEFT_CPU_FEATURE(name, leaf, reg, bit, state) \
  if ((leaf_##leaf.reg >> (bit)&1) != 0 && saved.state) out = out.with(CpuFeature::name);
#include "compiler/target/features.def"
  return out;
}

std::string read_model() {
  const Registers leaf_0 = cpuid(0);
  const unsigned signature = cpuid(1).eax;
  std::string out;
  for (unsigned word : {leaf_0.ebx, leaf_0.edx, leaf_0.ecx}) {
    for (int i = 0; i < 4; ++i) out += static_cast<char>(word >> (8 * i) & 0xFF);
  }
  const unsigned base = signature >> 8 & 0xF;
  const unsigned family = base == 0xF ? base + (signature >> 20 & 0xFF) : base;
  const unsigned model = (signature >> 4 & 0xF) | (base == 0x6 || base == 0xF ? signature >> 12 & 0xF0 : 0);
  for (unsigned number : {family, model, signature & 0xF}) out += "-" + std::to_string(number);
  return out;
}

#else

CpuFeatureSet read_features() { return {}; }
std::string read_model() { return "unknown"; }

#endif

}  // namespace

std::string CpuFeatureSet::text() const {
  std::string out;
#define WEFT_CPU_FEATURE(name, leaf, reg, bit, state) \
  if (has(CpuFeature::name)) out += out.empty() ? #name : ", " #name;
#include "compiler/target/features.def"
  return out;
}

CpuFeatureSet host_cpu_features() {
  static const CpuFeatureSet features = read_features();
  return features;
}

std::string host_cpu_model() {
  static const std::string model = read_model();
  return model;
}

}  // namespace weft
