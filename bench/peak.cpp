#include "runtime/llvm/peak.h"

#include <cstdio>

/// The FMA loop's FLOP/s over so many threads, now; below 0 where it cannot be measured, after saying why.
extern "C" __attribute__((visibility("default"))) double weft_peak_flops(int threads) {
  static const auto meter = []() -> weft::Result<weft::llvm::PeakMeter> {
    WEFT_TRY(const auto library, weft::llvm::Library::open());
    return weft::llvm::PeakMeter::create(*library, weft::host_target());
  }();
  if (meter) return meter->flops_per_second(threads);
  std::fprintf(stderr, "%s\n", meter.error().message.c_str());
  return -1;
}
