#include "laboratory/explain/prediction.h"

#include "compiler/base/parallel.h"
#include "compiler/ir/few_rows.h"
#include "laboratory/explain/compiled.h"
#include "runtime/llvm/peak.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <vector>

namespace weft::explain {

namespace {

constexpr double kAssumedBytesPerSecond = 20e9;  // of a CPU's memory

double nominal_hertz() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("cpu MHz")) return 1e6 * std::strtod(line.c_str() + line.find(':') + 1, nullptr);
  }
  return 2.5e9;
}

// What a CPU kernel costs, in FLOPs at the peak: fitted to the patterns of tests/patterns at 16 K tokens, 8 heads, on
// Zen 4; where keys lie apart, between that and Sapphire Rapids.
constexpr double kFullBlocks = 1.15;  // for each executed one, keys of a head one behind the other …
constexpr double kKeysApart = 1.25;  // … or more than a kilobyte apart, so that they fall into few sets of caches …
constexpr double kManyPages = 1.45;  // … and on more pages than the processor finds quickly
constexpr double kCopies = 0.05;     // more where rows are widened
constexpr double kListed = 0.3;      // for each pair of a tile and a key that it lists in a run …
constexpr double kAsked = 1;         // … or asks about alone
constexpr double kRowTile = 0.5e6;   // for each tile of 64 rows and 64 columns: rows in and out, bounds
// For each executed pair, whatever its columns.
constexpr double kDropout = 80, kGather = 50, kElementary = 25, kOperation = 3;

/// What of a score expression is computed pair by pair costs.
double cost_of_score(const ir::Expr& e) {
  using ir::Op;
  if (!ir::reads(e, ir::Variable::s) && !ir::reads(e, ir::Variable::k)) return 0;
  double cost = 0;
  for (const auto& arg : e.args) cost += cost_of_score(*arg);
  if (e.op == Op::variable) return cost;
  const Cost own = facts(e.op).cost;
  return cost + (own == Cost::memory ? kGather : own == Cost::function ? kElementary : kOperation);
}

double cost_of_keys(const ir::Shape& shape, ir::DType dtype, bool heads_first) {
  const std::int64_t apart = shape.kv_heads * shape.d * ir::size_of(dtype);
  if (heads_first || shape.kv_heads == 1 || apart <= 1024) return kFullBlocks;
  constexpr std::int64_t kFoundQuickly = 2048 * 4096;  // bytes: pages that a second-level TLB holds
  return shape.n_k * apart > 2 * kFoundQuickly ? kManyPages : kKeysApart;
}

/// What all cores read of memory in a second, by reading a piece each: the best of a few times.
double measured_bytes_per_second(int cores) {
  using Clock = std::chrono::steady_clock;
  constexpr std::size_t kAllBytes = 256U << 20, kMostOfACore = 32U << 20;
  constexpr int kTimes = 3;
  const std::size_t words = std::min(kMostOfACore, kAllBytes / static_cast<std::size_t>(cores)) / sizeof(std::uint64_t);
  std::vector<std::vector<std::uint64_t>> pieces(static_cast<std::size_t>(cores));
  std::atomic<std::uint64_t> total{0};
  const auto on_all = [&](const auto& work) {
    in_parallel(pieces.size(), pieces.size(), [&](std::size_t i) {
      work(pieces[i]);
      return true;
    });
  };
  on_all([&](auto& piece) { piece.assign(words, 1); });
  double best = 0;
  for (int i = 0; i < kTimes; ++i) {
    const auto begin = Clock::now();
    on_all([&](const auto& piece) {
      std::uint64_t sums[4] = {};
      for (std::size_t at = 0; at + 4 <= piece.size(); at += 4) {
        for (std::size_t n = 0; n < 4; ++n) sums[n] += piece[at + n];
      }
      total += sums[0] + sums[1] + sums[2] + sums[3];
    });
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    best = std::max(best, static_cast<double>(words * sizeof(std::uint64_t) * pieces.size()) / seconds);
  }
  return total != 0 ? best : kAssumedBytesPerSecond;
}

/// FLOP/s of all cores: measured, where this machine can execute the target's code.
double peak_of_cpu(const Target& target, int cores, const std::string& llvm, std::string& assumed) {
  const auto library = llvm::Library::open(llvm);
  if (library) {
    if (const auto meter = llvm::PeakMeter::create(**library, target)) {
      // The best of some: a prediction is of a machine that does nothing else meanwhile.
      double peak = 0;
      for (int i = 0; i < 9; ++i) {
        peak = std::max(peak, meter->flops_per_second(cores, std::chrono::milliseconds(4), 1));
      }
      assumed = fmt::format("{} cores with a peak of {:.0f} GFLOP/s, as just measured", cores, peak / 1e9);
      return peak;
    }
  }
  const double hertz = nominal_hertz();
  assumed = fmt::format("{} cores at {:.2f} GHz, two {}-bit {} a cycle", cores, hertz / 1e9, target.vector_bits,
                        target.has_fma ? "FMA" : "operations");
  return cores * hertz * target.lanes() * 2 * (target.has_fma ? 2 : 1);
}

Prediction predict_cpu(const Workload& load, const Planned& planned, const ir::Shape& shape, bool heads_first,
                       const std::string& llvm) {
  std::string assumed;
  const int cores = static_cast<int>(core_count());
  const double peak = peak_of_cpu(planned.target, cores, llvm, assumed);
  const auto& c = planned.plan.choices;
  const double of_pair = 2 * static_cast<double>(shape.d + shape.d_v);
  // Only products cost less where two numbers share a lane.
  const double products = c.products == 2 ? 1 / planned.target.bf16_dot_rate : 1;
  // Rows that a block copies are apart while they are copied only.
  const bool in_place = planned.bind.dtype == ir::DType::f32;
  const double cost = (in_place ? cost_of_keys(shape, planned.bind.dtype, heads_first) : kFullBlocks) - 1 + products;
  const double tiles = load.work.row_tiles * kRowTile * (c.tile_q / 64.0) * (of_pair / 256);
  const double wide = c.products == 1 && !in_place ? kCopies : 0;
  const double listing = kListed * load.work.listed_in_runs + kAsked * load.work.listed_singly;
  double of_pairs = planned.plan.dropout > 0 ? kDropout : 0;
  if (planned.plan.score) of_pairs += cost_of_score(*planned.plan.score);
  const double flops =
      (cost + wide) * load.executed_flops + of_pairs * load.work.executed + listing * c.tile_q * of_pair + tiles;
  // Rows of Q and O come and go while a tile computes nothing. Few rows read K and V once for little work, which hides
  // none of it.
  const bool few = ir::regime_of(planned.plan, shape.n_q) == ir::Regime::few_queries;
  const double bytes_per_s = few ? measured_bytes_per_second(cores) : kAssumedBytesPerSecond;
  const double reading = load.bytes / bytes_per_s;
  const double apart = few ? cost_of_keys(shape, planned.bind.dtype, heads_first) / kFullBlocks : 1;
  const double seconds = flops / peak + apart * reading;
  return {.ms = 1e3 * seconds,
          .share_of_peak = seconds > 0 ? load.flops / seconds / peak : 0,
          .loop_share = 1 / cost,
          .from = "model",
          .assumed = fmt::format("{}; {} in memory, {:.1f} GB/s{}", assumed,
                                 heads_first ? "heads one behind the other" : "heads side by side", bytes_per_s / 1e9,
                                 few ? ", as just measured" : "")};
}

}  // namespace

std::optional<Prediction> predict(const Workload& load, const Planned& planned, const std::vector<Compiled>& kernels,
                                  const ir::Shape& shape, bool heads_first, const std::string& llvm) {
  const bool on_gpu = planned.target.kind == TargetKind::cuda;
  if (planned.bind.gradient && !on_gpu) return std::nullopt;
  auto out = on_gpu ? predict_gpu(load, planned, kernels, shape) : predict_cpu(load, planned, shape, heads_first, llvm);
  const auto& lists = planned.plan.lists;
  const bool scores =
      std::any_of(lists.begin(), lists.end(), [](const ir::List& l) { return l.kind == ir::List::Kind::top; });
  if (scores) out.assumed += "; without choosing key blocks";
  return out;
}

}  // namespace weft::explain
