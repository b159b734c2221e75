#pragma once

#include "compiler/base/result.h"
#include "compiler/target/target.h"
#include "runtime/llvm/library.h"
#include "runtime/object/loaded_object.h"

#include <chrono>
#include <memory>
#include <string>

namespace weft::llvm {

/// The f32 peak of this machine as it is right now: what a share of peak is a share of. A loop of independent
/// multiply-add chains in registers at the target's vector width (FMA where the target has it, else a
/// multiplication and an addition), so that nothing but the arithmetic units limits it. Clocks and neighbours
/// change from second to second: benchmarks measure it next to every sample.
class PeakMeter {
 public:
  /// User error where this machine cannot execute the target.
  static Result<PeakMeter> create(const Library& library, const Target& target);

  /// Floating-point operations a second over `threads` threads at once, the caller's among them: the median of
  /// `repeats` measurements of `duration` each.
  double flops_per_second(int threads, std::chrono::microseconds duration = std::chrono::milliseconds(4),
                          int repeats = 3) const;

  /// The loop as IR, for readers and tests.
  static std::string ir_text(const Target& target);

 private:
  using Loop = void (*)(float* out, const float* factors, std::int64_t iterations);

  double measure(int threads, std::chrono::microseconds duration) const;

  std::shared_ptr<const object::LoadedObject> object_;
  Loop loop_ = nullptr;
  double flops_per_iteration_ = 0;
};

}  // namespace weft::llvm
