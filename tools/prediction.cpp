#include "tools/prediction.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <thread>

namespace weft::tools {

namespace {

constexpr double kAssumedBytesPerSecond = 20e9;  // of a CPU's memory

double nominal_hertz() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("cpu MHz")) return 1e6 * std::strtod(line.c_str() + line.find(':') + 1, nullptr);
  }
  return 2.5e9;
}

Prediction roofline(const Workload& load, double peak, double bytes_per_s, std::string from) {
  const double seconds = std::max(load.executed_flops / peak, load.bytes / bytes_per_s);
  return {.ms = 1e3 * seconds,
          .share_of_peak = seconds > 0 ? load.flops / seconds / peak : 0,
          .from = "roofline: " + std::move(from)};
}

Prediction predict_cpu(const Workload& load, const Target& target) {
  const double cores = std::max(1U, std::thread::hardware_concurrency());
  const double hertz = nominal_hertz();
  const double peak = cores * hertz * target.lanes() * 2 * (target.has_fma ? 2 : 1);
  return roofline(
      load, peak, kAssumedBytesPerSecond,
      fmt::format("{:.0f} cores at {:.2f} GHz, two {}-bit {} a cycle, {:.0f} GB/s assumed", cores, hertz / 1e9,
                  target.vector_bits, target.has_fma ? "FMA" : "operations", kAssumedBytesPerSecond / 1e9));
}

Prediction predict_gpu(const Workload& load, const Target& target) {
  const auto& card = target.card;
  const double peak = card.sms * card.hertz * target.f32_lanes_per_sm * 2;
  return roofline(load, peak, card.bytes_per_s,
                  fmt::format("a {}, {} SMs of {} f32 lanes at {:.2f} GHz, {:.0f} GB/s", card.name, card.sms,
                              target.f32_lanes_per_sm, card.hertz / 1e9, card.bytes_per_s / 1e9));
}

int rounded_up(int value, int step) { return (value + step - 1) / step * step; }

}  // namespace

Prediction predict(const Workload& load, const Target& target) {
  return target.kind == TargetKind::cuda ? predict_gpu(load, target) : predict_cpu(load, target);
}

int blocks_per_sm(const Target& target, int threads, int registers, std::int64_t shared_bytes) {
  constexpr int kWarp = 32, kRegistersAtATime = 256;
  // From the generation with asynchronous copies on, the system keeps 1 KB of each block's shared memory.
  const auto shared = shared_bytes + (target.has_async_copy ? 1024 : 0);
  const int warps = rounded_up(threads, kWarp) / kWarp;
  const int per_block = warps * rounded_up(registers * kWarp, kRegistersAtATime);
  auto most = std::min<std::int64_t>(target.blocks_per_sm, target.threads_per_sm / std::max(threads, 1));
  most = std::min<std::int64_t>(most, target.registers_per_sm / std::max(per_block, 1));
  return static_cast<int>(std::min(most, target.shared_per_sm / std::max<std::int64_t>(shared, 1)));
}

}  // namespace weft::tools
