/// How long kernels for this machine's CPU take to be made where no store has them: every pattern of the corpus and
/// each type, planned, emitted and compiled on all cores; alone, with the gradient's kernel, and one after the other in
/// a process, which compiles parts that kernels share once.

#include "bench/corpus.h"
#include "codegen/cpu/emit.h"
#include "compiler/base/parallel.h"
#include "compiler/planner/planner.h"
#include "runtime/engine/stopwatch.h"
#include "runtime/llvm/compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace weft::bench {
namespace {

constexpr std::int64_t kDim = 64;

/// What the times of a row are held against, in milliseconds.
struct Bars {
  double median, worst;
};
constexpr Bars kForward = {30, 60}, kPair = {80, 110};

/// A pattern in one type.
struct Request {
  const ir::Pattern* pattern;
  ir::DType dtype;
};

struct Made {
  std::string text;
  double ms = 0;  ///< to plan and emit it
};

Result<Made> emitted(const Request& request, bool gradient, const Target& target) {
  const Stopwatch clock;
  const ir::Bind bind{.d = kDim, .d_v = kDim, .dtype = request.dtype, .gradient = gradient};
  WEFT_TRY(const auto plan, planner::plan(*request.pattern, bind, target));
  return Made{.text = codegen::cpu::emit(plan, target).text, .ms = clock.ms()};
}

/// Milliseconds of each different text, or pair of them. Patterns that share one are one.
Result<std::vector<double>> make_all(const std::vector<Request>& requests, bool pairs, const llvm::Library& library,
                                     const Target& target, const llvm::Options& options) {
  std::vector<double> out;
  std::set<std::string> known;
  for (const Request& request : requests) {
    WEFT_TRY(const auto forward, emitted(request, false, target));
    Made backward;
    if (pairs) {
      auto made = emitted(request, true, target);
      if (!made.ok() && made.error().diagnostics.empty()) return made.error();
      if (!made.ok()) continue;  // a pattern without gradients
      backward = *std::move(made);
    }
    if (!known.insert(forward.text + backward.text).second) continue;
    const Stopwatch clock;
    WEFT_CHECK(llvm::compile(library, forward.text, target, options));
    if (pairs) WEFT_CHECK(llvm::compile(library, backward.text, target, options));
    out.push_back(forward.ms + backward.ms + clock.ms());
  }
  return out;
}

bool print_row(const std::string& what, const Bars& bars, std::vector<double> ms) {
  std::sort(ms.begin(), ms.end());
  const auto at = [&](double part) { return ms[static_cast<std::size_t>(part * static_cast<double>(ms.size() - 1))]; };
  const bool kept = at(0.5) <= bars.median && ms.back() <= bars.worst;
  fmt::print("{:<28} {:>7} {:>7.1f} {:>7.1f} {:>7.1f} {:>10} {}\n", what, ms.size(), at(0.5), at(0.95), ms.back(),
             fmt::format("{:.0f}, {:.0f}", bars.median, bars.worst), kept ? "" : "not kept");
  std::fflush(stdout);
  return kept;
}

Result<bool> run() {
  WEFT_TRY(const auto patterns, corpus(WEFT_SOURCE_DIR));
  WEFT_TRY(const auto library, llvm::Library::open());
  const Target target = host_target();
  std::vector<Request> requests;
  for (const auto dtype : {ir::DType::f32, ir::DType::f16, ir::DType::bf16}) {
    for (const auto& pattern : patterns) {
      const auto made = emitted({&pattern, dtype}, false, target);
      if (made.ok()) {
        requests.push_back({&pattern, dtype});
      } else if (made.error().diagnostics.empty()) {
        return made.error();
      }  // else not in kernels yet
    }
  }
  if (requests.empty()) return environment_error("there are no patterns in " WEFT_SOURCE_DIR);
  fmt::print("LLVM {}, {}, {} cores\n{:<28} {:>7} {:>7} {:>7} {:>7} {:>10}\n", library->version().text(), target.name,
             core_count(), "ms", "kernels", "median", "p95", "worst", "bars");
  // What the process has not compiled comes first.
  WEFT_TRY(const auto one_by_one, make_all(requests, false, *library, target, {}));
  bool kept = print_row("one after the other", kForward, one_by_one);
  const auto parts = llvm::part_counts();
  WEFT_TRY(const auto alone, make_all(requests, false, *library, target, {.reuse = false}));
  kept = print_row("each alone", kForward, alone) && kept;
  WEFT_TRY(const auto pairs, make_all(requests, true, *library, target, {.reuse = false}));
  kept = print_row("with its gradient, alone", kPair, pairs) && kept;
  fmt::print("one after the other, {} of {} parts were there\n", parts.reused, parts.reused + parts.compiled);
  return kept;
}

}  // namespace
}  // namespace weft::bench

int main() {
  const auto kept = weft::bench::run();
  if (kept) return *kept ? 0 : 1;
  fmt::print(stderr, "{}\n", kept.error().message);
  return 3;
}
