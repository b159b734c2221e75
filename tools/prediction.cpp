#include "tools/prediction.h"

#include "compiler/planner/cost.h"
#include "tools/compiled.h"

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

/// The loop over keys at `share` of the peak, or memory, whichever needs longer.
Prediction roofline(const Workload& load, double peak, double share, double bytes_per_s, std::string assumed) {
  const double seconds = std::max(load.executed_flops / (peak * share), load.bytes / bytes_per_s);
  return {.ms = 1e3 * seconds,
          .share_of_peak = seconds > 0 ? load.flops / seconds / peak : 0,
          .loop_share = share,
          .from = "model",
          .assumed = std::move(assumed)};
}

Prediction predict_cpu(const Workload& load, const Target& target) {
  const double cores = std::max(1U, std::thread::hardware_concurrency());
  const double hertz = nominal_hertz();
  const double peak = cores * hertz * target.lanes() * 2 * (target.has_fma ? 2 : 1);
  return roofline(
      load, peak, 1, kAssumedBytesPerSecond,
      fmt::format("{:.0f} cores at {:.2f} GHz, two {}-bit {} a cycle, {:.0f} GB/s assumed", cores, hertz / 1e9,
                  target.vector_bits, target.has_fma ? "FMA" : "operations", kAssumedBytesPerSecond / 1e9));
}

Prediction predict_gpu(const Workload& load, const Planned& planned, const Compiled& compiled) {
  const auto& card = planned.target.card;
  const double each = planner::peak_per_sm(planned.plan, planned.target);
  const auto& report = compiled.machine_code;
  const bool seen = report && report->trusted && report->share_of_peak;
  const double share = seen ? *report->share_of_peak : planner::share_of_peak(planned.plan, planned.target);
  auto out = roofline(load, card.sms * card.hertz * each * 2, share, card.bytes_per_s,
                      fmt::format("a {}, {} SMs of {:.0f} FMA a clock at {:.2f} GHz, {:.0f} GB/s; full blocks of keys "
                                  "at {:.3f} of that, partial ones too, and no SM idle",
                                  card.name, card.sms, each, card.hertz / 1e9, card.bytes_per_s / 1e9, share));
  if (seen) out.from = "sass";
  return out;
}

int rounded_up(int value, int step) { return (value + step - 1) / step * step; }

}  // namespace

Prediction predict(const Workload& load, const Planned& planned, const Compiled& compiled) {
  return planned.target.kind == TargetKind::cuda ? predict_gpu(load, planned, compiled)
                                                 : predict_cpu(load, planned.target);
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
