#pragma once

#include <cstdint>
#include <string>

/// What an x86-64 processor offers, as a set. The list is features.def.
namespace weft {

enum class CpuFeature : std::uint8_t {
#define WEFT_CPU_FEATURE(name, leaf, reg, bit, state) name,
#include "compiler/target/features.def"
};

class CpuFeatureSet {
 public:
  constexpr CpuFeatureSet() = default;

  constexpr CpuFeatureSet with(CpuFeature feature) const {
    CpuFeatureSet out = *this;
    out.bits_ |= std::uint64_t{1} << static_cast<unsigned>(feature);
    return out;
  }
  template <typename... Rest>
  constexpr CpuFeatureSet with(CpuFeature feature, Rest... rest) const {
    return with(feature).with(rest...);
  }
  constexpr bool has(CpuFeature feature) const { return (bits_ >> static_cast<unsigned>(feature) & 1) != 0; }
  constexpr bool empty() const { return bits_ == 0; }

  /// Those of this set that `other` lacks.
  constexpr CpuFeatureSet minus(CpuFeatureSet other) const {
    CpuFeatureSet out;
    out.bits_ = bits_ & ~other.bits_;
    return out;
  }

  /// `avx2, fma`, in the order of features.def.
  std::string text() const;

 private:
  std::uint64_t bits_ = 0;
};

/// What this machine's processor has and its operating system has switched on. Read once a process; empty on
/// a machine that is not x86-64.
CpuFeatureSet host_cpu_features();

/// Which processor this is, in a word: `GenuineIntel-6-207-2` (vendor, family, model, stepping); `unknown` where it is
/// no x86-64.
std::string host_cpu_model();

}  // namespace weft
