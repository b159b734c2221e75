#include "runtime/llvm/peak.h"

#include "compiler/base/text_writer.h"
#include "runtime/llvm/compile.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

namespace weft::llvm {
namespace {

using Clock = std::chrono::steady_clock;

/// Enough to cover the latency of two units (5 cycles × 2, or 8 for a multiplication and an addition), few
/// enough for 16 registers beside the two factors.
constexpr int kChains = 12;
constexpr int kUnroll = 4;
constexpr int kLargestLanes = 16;
constexpr std::int64_t kChunk = 2000;  ///< iterations between two looks at the clock; some 50 µs

void write_step(TextWriter& out, const Target& target, const std::string& vector, int chain, const std::string& from,
                const std::string& to) {
  if (target.has_fma) {
    out.line("%{to}.{i} = call {v} @llvm.fma.v{n}f32({v} %{from}.{i}, {v} %scale, {v} %shift)", fmt::arg("to", to),
             fmt::arg("from", from), fmt::arg("i", chain), fmt::arg("v", vector), fmt::arg("n", target.lanes()));
    return;
  }
  out.line("%{}.{}.product = fmul {} %{}.{}, %scale", to, chain, vector, from, chain);
  out.line("%{}.{} = fadd {} %{}.{}.product, %shift", to, chain, vector, to, chain);
}

}  // namespace

std::string PeakMeter::ir_text(const Target& target) {
  const std::string vector = fmt::format("<{} x float>", target.lanes());
  TextWriter out;
  if (target.has_fma) {
    out.line("declare {v} @llvm.fma.v{n}f32({v}, {v}, {v})", fmt::arg("v", vector), fmt::arg("n", target.lanes()));
  }
  out.line("define void @peak(ptr %out, ptr %factors, i64 %iterations) nounwind {{");
  out.line("entry:");
  out.indent();
  out.line("%scale = load {}, ptr %factors, align 4", vector);
  out.line("%shift.at = getelementptr {}, ptr %factors, i64 1", vector);
  out.line("%shift = load {}, ptr %shift.at, align 4", vector);
  for (int i = 0; i < kChains; ++i) {
    out.line("%start.at.{} = getelementptr {}, ptr %out, i64 {}", i, vector, i);
    out.line("%start.{} = load {}, ptr %start.at.{}, align 4", i, vector, i);
  }
  out.line("br label %loop");
  out.dedent();
  out.line("loop:");
  out.indent();
  out.line("%i = phi i64 [ 0, %entry ], [ %i.next, %loop ]");
  for (int i = 0; i < kChains; ++i) {
    out.line("%step0.{i} = phi {v} [ %start.{i}, %entry ], [ %step{last}.{i}, %loop ]", fmt::arg("i", i),
             fmt::arg("v", vector), fmt::arg("last", kUnroll));
  }
  for (int step = 0; step < kUnroll; ++step) {
    for (int i = 0; i < kChains; ++i) {
      write_step(out, target, vector, i, fmt::format("step{}", step), fmt::format("step{}", step + 1));
    }
  }
  out.line("%i.next = add nuw nsw i64 %i, 1");
  out.line("%more = icmp slt i64 %i.next, %iterations");
  out.line("br i1 %more, label %loop, label %done");
  out.dedent();
  out.line("done:");
  out.indent();
  for (int i = 0; i < kChains; ++i) out.line("store {} %step{}.{}, ptr %start.at.{}, align 4", vector, kUnroll, i, i);
  out.line("ret void");
  out.dedent();
  out.line("}}");
  return std::move(out).take();
}

Result<PeakMeter> PeakMeter::create(const Library& library, const Target& target) {
  if (std::string reason; target.kind != TargetKind::cpu || !host_can_execute(target, &reason)) {
    return user_error(fmt::format("the peak of {} cannot be measured here: {}", target.name,
                                  reason.empty() ? "it is not a CPU" : reason));
  }
  WEFT_TRY(const std::string bytes, compile(library, ir_text(target), target));
  PeakMeter out;
  WEFT_TRY(out.object_, object::LoadedObject::load(bytes, "the peak loop"));
  out.loop_ = reinterpret_cast<Loop>(out.object_->symbol("peak"));
  if (out.loop_ == nullptr) return internal_error("the peak loop lost its symbol");
  out.flops_per_iteration_ = 2.0 * target.lanes() * kChains * kUnroll;
  return out;
}

double PeakMeter::measure(int threads, std::chrono::microseconds duration) const {
  std::atomic<int> waiting{threads};
  std::vector<double> rates(static_cast<std::size_t>(threads));
  const auto work = [&](std::size_t index) {
    alignas(64) std::array<float, kLargestLanes * kChains> values{};
    alignas(64) std::array<float, kLargestLanes * 2> factors;
    // Values converge to 1 from 0: never denormal, never infinite.
    factors.fill(0.5F);
    loop_(values.data(), factors.data(), kChunk);  // wide units wake up, clocks settle
    waiting.fetch_sub(1);
    while (waiting.load() > 0) std::this_thread::yield();
    const auto begin = Clock::now();
    auto end = begin;
    double iterations = 0;
    for (; end - begin < duration; end = Clock::now()) {
      loop_(values.data(), factors.data(), kChunk);
      iterations += static_cast<double>(kChunk);
    }
    rates[index] = iterations * flops_per_iteration_ / std::chrono::duration<double>(end - begin).count();
  };
  std::vector<std::thread> others;
  others.reserve(rates.size());
  try {
    for (std::size_t i = 1; i < rates.size(); ++i) others.emplace_back(work, i);
  } catch (const std::system_error&) {
    waiting.fetch_sub(threads - 1 - static_cast<int>(others.size()));  // the system gives no more
  }
  work(0);
  for (std::thread& other : others) other.join();
  double sum = 0;
  for (double rate : rates) sum += rate;
  return sum;
}

double PeakMeter::flops_per_second(int threads, std::chrono::microseconds duration, int repeats) const {
  std::vector<double> samples;
  for (int i = 0; i < std::max(1, repeats); ++i) samples.push_back(measure(std::max(1, threads), duration));
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

}  // namespace weft::llvm
