#include "compiler/target/bf16_dot.h"

#include "compiler/target/cpu_features.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <vector>

namespace weft {

std::optional<double> bf16_dot_rate_of(std::span<const Bf16DotTurn> turns) {
  std::vector<Bf16DotTurn> calm(turns.begin(), turns.end());
  std::erase_if(calm, [](const Bf16DotTurn& turn) { return !(turn.single > 0 && turn.pairs > 0); });
  if (calm.empty()) return std::nullopt;
  std::sort(calm.begin(), calm.end(), [](const Bf16DotTurn& one, const Bf16DotTurn& other) {
    return one.single + one.pairs < other.single + other.pairs;
  });
  calm.resize((calm.size() + 3) / 4);
  const auto rate = [](const Bf16DotTurn& turn) { return 2 * turn.single / turn.pairs; };
  const auto middle = calm.begin() + static_cast<std::ptrdiff_t>(calm.size() / 2);
  std::nth_element(calm.begin(), middle, calm.end(),
                   [&](const Bf16DotTurn& one, const Bf16DotTurn& other) { return rate(one) < rate(other); });
  return rate(*middle);
}

#if defined(__x86_64__)

namespace {

using Clock = std::chrono::steady_clock;

/// Some 15 µs a loop: often whole between two interruptions, and long beside a look at the clock.
constexpr long kTurns = 1000;
/// Longer than a neighbour's slice of the core, and than the time that wide units need to wake up.
constexpr int kRounds = 300;

// Chains that do not wait for each other, more than the latency of two units asks for; sums and factors are 0. As
// assembly, because what a compiler makes of a loop differs from build to build, and the ratio must not.
#define WEFT_CHAINS(instruction)                             \
  "vpxord %%zmm14, %%zmm14, %%zmm14\n\t"                     \
  "vpxord %%zmm15, %%zmm15, %%zmm15\n\t"                     \
  ".irp sum,0,1,2,3,4,5,6,7,8,9,10,11,12,13\n\t"             \
  "vpxord %%zmm\\sum, %%zmm\\sum, %%zmm\\sum\n\t"            \
  ".endr\n"                                                  \
  "1:\n\t"                                                   \
  ".rept 4\n\t"                                              \
  ".irp sum,0,1,2,3,4,5,6,7,8,9,10,11,12,13\n\t" instruction \
  " %%zmm14, %%zmm15, %%zmm\\sum\n\t"                        \
  ".endr\n\t"                                                \
  ".endr\n\t"                                                \
  "dec %0\n\t"                                               \
  "jnz 1b\n\t"                                               \
  "vzeroupper"

#define WEFT_SUMS                                                                                                  \
  "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", \
      "xmm13", "xmm14", "xmm15"

__attribute__((target("avx512f"))) void multiply_f32() {
  long turns = kTurns;
  __asm__ volatile(WEFT_CHAINS("vfmadd231ps") : "+r"(turns) : : WEFT_SUMS);
}

__attribute__((target("avx512f,avx512bf16"))) void multiply_pairs() {
  long turns = kTurns;
  __asm__ volatile(WEFT_CHAINS("vdpbf16ps") : "+r"(turns) : : WEFT_SUMS);
}

double seconds_of(void (*loop)()) {
  const auto begin = Clock::now();
  loop();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

std::optional<double> measure_bf16_dot_rate() {
  constexpr auto kNeeds = CpuFeatureSet().with(CpuFeature::avx512f, CpuFeature::avx512bf16);
  if (!kNeeds.minus(host_cpu_features()).empty()) return std::nullopt;
  std::array<Bf16DotTurn, kRounds> turns{};
  for (auto& turn : turns) turn = {.single = seconds_of(multiply_f32), .pairs = seconds_of(multiply_pairs)};
  return bf16_dot_rate_of(turns);
}

#else

std::optional<double> measure_bf16_dot_rate() { return std::nullopt; }

#endif

}  // namespace weft
