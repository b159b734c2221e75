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
constexpr Bars kForward = {30, 60}, kPair = {80, 110}, kFew = {20, 40};

/// A pattern in one type.
struct Request {
  const ir::Pattern* pattern;
  ir::DType dtype;
};

struct Made {
  std::string text;
  double ms = 0;  ///< to plan and emit it
};

/// What of a pattern a row compiles.
enum class What { forward, with_gradient, few_queries };

/// Its texts. User error where the pattern has none of that kind.
Result<std::vector<Made>> emitted(const Request& request, What what, const Target& target) {
  std::vector<Made> out;
  for (const bool gradient : {false, true}) {
    if (gradient && what != What::with_gradient) break;
    const Stopwatch clock;
    const ir::Bind bind{.d = kDim, .d_v = kDim, .dtype = request.dtype, .gradient = gradient};
    WEFT_TRY(const auto plan, planner::plan(*request.pattern, bind, target));
    const auto regime = what == What::few_queries ? ir::Regime::few_queries : ir::Regime::many_queries;
    out.push_back({.text = codegen::cpu::emit(plan, target, regime).text, .ms = clock.ms()});
  }
  return out;
}

/// Milliseconds of each different text, or pair of them. Patterns that share one are one.
Result<std::vector<double>> make_all(const std::vector<Request>& requests, What what, const llvm::Library& library,
                                     const Target& target, const llvm::Options& options) {
  std::vector<double> out;
  std::set<std::string> known;
  for (const Request& request : requests) {
    const auto made = emitted(request, what, target);
    if (!made.ok() && made.error().diagnostics.empty()) return made.error();
    if (!made.ok()) continue;  // a pattern without gradients
    std::string all;
    for (const Made& one : *made) all += one.text;
    if (!known.insert(all).second) continue;
    double ms = 0;
    for (const Made& one : *made) {
      const Stopwatch clock;
      WEFT_CHECK(llvm::compile(library, one.text, target, options));
      ms += one.ms + clock.ms();
    }
    out.push_back(ms);
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
      const auto made = emitted({&pattern, dtype}, What::forward, target);
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
  WEFT_TRY(const auto one_by_one, make_all(requests, What::forward, *library, target, {}));
  bool kept = print_row("one after the other", kForward, one_by_one);
  const auto parts = llvm::part_counts();
  WEFT_TRY(const auto alone, make_all(requests, What::forward, *library, target, {.reuse = false}));
  kept = print_row("each alone", kForward, alone) && kept;
  WEFT_TRY(const auto pairs, make_all(requests, What::with_gradient, *library, target, {.reuse = false}));
  kept = print_row("with its gradient, alone", kPair, pairs) && kept;
  WEFT_TRY(const auto few, make_all(requests, What::few_queries, *library, target, {.reuse = false}));
  kept = print_row("for few queries, beside it", kFew, few) && kept;
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
