/// How long kernels for this machine's CPU take to be made where no store has them: every pattern of the corpus and
/// each type, planned, emitted and compiled on all cores; alone, and one after the other in a process, which compiles
/// parts that kernels share once.

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

constexpr double kMedianBar = 30, kWorstBar = 60;  // ms
constexpr std::int64_t kDim = 64;

/// A pattern in one type.
struct Request {
  const ir::Pattern* pattern;
  ir::DType dtype;
};

struct Made {
  std::string text;
  double ms = 0;  ///< to plan and emit it
};

Result<Made> emitted(const Request& request, const Target& target) {
  const Stopwatch clock;
  WEFT_TRY(const auto plan, planner::plan(*request.pattern, {.d = kDim, .d_v = kDim, .dtype = request.dtype}, target));
  return Made{.text = codegen::cpu::emit(plan, target).text, .ms = clock.ms()};
}

/// Milliseconds of each different text. Patterns that share one are one.
Result<std::vector<double>> make_all(const std::vector<Request>& requests, const llvm::Library& library,
                                     const Target& target, const llvm::Options& options) {
  std::vector<double> out;
  std::set<std::string> known;
  for (const Request& request : requests) {
    WEFT_TRY(const auto made, emitted(request, target));
    if (!known.insert(made.text).second) continue;
    const Stopwatch clock;
    WEFT_CHECK(llvm::compile(library, made.text, target, options));
    out.push_back(made.ms + clock.ms());
  }
  return out;
}

bool print_row(const std::string& what, std::vector<double> ms) {
  std::sort(ms.begin(), ms.end());
  const auto at = [&](double part) { return ms[static_cast<std::size_t>(part * static_cast<double>(ms.size() - 1))]; };
  const bool kept = at(0.5) <= kMedianBar && ms.back() <= kWorstBar;
  fmt::print("{:<28} {:>7} {:>7.1f} {:>7.1f} {:>7.1f}  {}\n", what, ms.size(), at(0.5), at(0.95), ms.back(),
             kept ? "" : "not kept");
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
      const auto made = emitted({&pattern, dtype}, target);
      if (made.ok()) {
        requests.push_back({&pattern, dtype});
      } else if (made.error().diagnostics.empty()) {
        return made.error();
      }  // else not in kernels yet
    }
  }
  if (requests.empty()) return environment_error("there are no patterns in " WEFT_SOURCE_DIR);
  fmt::print("LLVM {}, {}, {} cores; bars: median {:.0f} ms, worst {:.0f}\n{:<28} {:>7} {:>7} {:>7} {:>7}\n",
             library->version().text(), target.name, core_count(), kMedianBar, kWorstBar, "ms", "kernels", "median",
             "p95", "worst");
  // What the process has not compiled comes first.
  WEFT_TRY(const auto one_by_one, make_all(requests, *library, target, {}));
  bool kept = print_row("one after the other", one_by_one);
  const auto parts = llvm::part_counts();
  WEFT_TRY(const auto alone, make_all(requests, *library, target, {.reuse = false}));
  kept = print_row("each alone", alone) && kept;
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
