/// How long kernels for GPUs take to be made where no store has them, and how large they become: every pattern of the
/// corpus, for each architecture, dim and type. Needs NVRTC and no GPU.

#include "runtime/nvrtc/compile.h"
#include "bench/corpus.h"
#include "codegen/cuda/emit.h"
#include "compiler/planner/planner.h"
#include "runtime/engine/stopwatch.h"
#include "runtime/nvrtc/cubin.h"
#include "runtime/nvrtc/search.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <map>
#include <string_view>

namespace weft::bench {
namespace {

constexpr const char* kHelp =
    "weft-bench-compile [--arch 61,80] [--dim 64,128] [--dtype f32,f16,bf16] [--times N] [--quick] [--few]\n"
    "  --times N  compile each text N times and count the quickest\n"
    "  --quick    every fifth pattern only\n"
    "  --few      the texts that launches of few queries need\n";
constexpr std::size_t kQuickly = 5;
constexpr double kBar = 500;  ///< ms, 95 of 100 kernels
/// ms, every kernel, for the architecture that has least to compile for: Pascal.
double strict_bar(std::int64_t d) { return d <= 64 ? 300 : 400; }
constexpr std::string_view kStrict = "sm_61";
constexpr double kPlanBar = 1;  ///< ms, every plan

struct Options {
  std::vector<std::string> arches = {"61", "70", "75", "80", "86", "89", "90"}, dims = {"64", "128"},
                           dtypes = {"f32", "f16", "bf16"};
  int times = 1;
  bool quick = false, few = false;
};

std::vector<std::string> words(std::string_view list) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at <= list.size();) {
    const auto comma = std::min(list.find(',', at), list.size());
    out.emplace_back(list.substr(at, comma - at));
    at = comma + 1;
  }
  return out;
}

Result<Options> options_of(int count, char** given) {
  Options out;
  for (int i = 1; i < count; ++i) {
    const std::string_view option = given[i];
    if (option == "--quick" || option == "--few") {
      (option == "--few" ? out.few : out.quick) = true;
      continue;
    }
    auto* const list = option == "--arch"    ? &out.arches
                       : option == "--dim"   ? &out.dims
                       : option == "--dtype" ? &out.dtypes
                                             : nullptr;
    if ((list == nullptr && option != "--times") || i + 1 == count) return user_error(kHelp);
    ++i;
    if (list != nullptr)
      *list = words(given[i]);
    else
      out.times = std::max(1, std::atoi(given[i]));
  }
  return out;
}

Result<ir::DType> dtype_of(const std::string& name) {
  for (auto type : {ir::DType::f32, ir::DType::f16, ir::DType::bf16}) {
    if (name == ir::to_string(type)) return type;
  }
  return user_error(fmt::format("unknown dtype '{}'\n{}", name, kHelp));
}

double cpu_ms() {
  timespec now = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

/// What NVRTC makes of one text.
struct Compiled {
  double ms = 0;  ///< of a core: NVRTC keeps one busy, and neighbours may take turns on it
  std::int64_t code_bytes = 0;
  int registers = 0, spill_bytes = 0;
};

/// One pattern for one architecture, dim and type.
struct Kernel {
  std::string name;
  double plan_ms = 0, emit_ms = 0;
  std::size_t text_bytes = 0;
  Compiled compiled = {};
  double ms() const { return plan_ms + emit_ms + compiled.ms; }
};

/// The sum of what NVRTC took, by the clock and of a core.
struct Spent {
  double wall_ms = 0, cpu_ms = 0;
};

Result<Compiled> compile(const Target& target, const std::string& text, const std::string& name, int times,
                         Spent& spent) {
  WEFT_TRY(const auto library, nvrtc::locate(target));
  Compiled out;
  for (int i = 0; i < times; ++i) {
    const Stopwatch clock;
    const double cpu = cpu_ms();
    WEFT_TRY(const auto binary, nvrtc::compile(*library, text, target, {.pattern = name}));
    const double ms = cpu_ms() - cpu;
    spent.wall_ms += clock.ms();
    spent.cpu_ms += ms;
    out.ms = i == 0 ? ms : std::min(out.ms, ms);
    out.code_bytes = nvrtc::code_bytes(binary.cubin);
    out.registers = binary.registers();
    out.spill_bytes = binary.spill_bytes();
  }
  return out;
}

/// Progress on a terminal, and nothing elsewhere.
void show_progress(const std::string& what) {
  static const bool terminal = ::isatty(STDERR_FILENO) == 1;
  if (terminal) fmt::print(stderr, "\r\033[K{}", what);
}

/// All patterns that kernels compute. Those that share a text take the same time, which is measured once.
Result<std::vector<Kernel>> make_all(const std::vector<ir::Pattern>& patterns, const Target& target, std::int64_t d,
                                     ir::DType dtype, const Options& options, Spent& spent) {
  std::vector<Kernel> out;
  std::map<std::string, Compiled> known;
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    if (options.quick && i % kQuickly != 0) continue;
    const std::string name = fmt::format("{} {}", patterns[i].name, ir::to_string(dtype));
    show_progress(fmt::format("{} dim {}: {}", target.name, d, name));
    const Stopwatch planning;
    const auto plan = planner::plan(patterns[i], {.d = d, .d_v = d, .dtype = dtype}, target);
    if (!plan.ok() && !plan.error().diagnostics.empty()) continue;  // not in kernels yet
    if (!plan.ok()) return plan.error();
    Kernel made{.name = name, .plan_ms = planning.ms()};
    const Stopwatch emitting;
    const auto regime = options.few ? ir::Regime::few_queries : ir::Regime::many_queries;
    const auto source = codegen::cuda::emit(*plan, target, regime);
    made.emit_ms = emitting.ms();
    made.text_bytes = source.text.size();
    auto at = known.find(source.text);
    if (at == known.end()) {
      WEFT_TRY(const auto compiled, compile(target, source.text, name, options.times, spent));
      at = known.emplace(source.text, compiled).first;
    }
    made.compiled = at->second;
    out.push_back(std::move(made));
  }
  show_progress("");
  return out;
}

template <typename Of>
double share(const std::vector<Kernel>& kernels, double part, Of of) {
  std::vector<double> values;
  for (const auto& k : kernels) values.push_back(of(k));
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(part * static_cast<double>(values.size() - 1) + 0.5)];
}

void print_header() {
  fmt::print("{:<12} {:>7} {:>7} {:>7} {:>7} {:>8} {:>8} {:>8} {:>8} {:>6} {:>6}  {}\n", "ms", "kernels", "median",
             "p95", "worst", "plan", "emit", "text KB", "code KB", "regs", "spills", "which is the worst");
}

void print_row(const std::string& what, const std::vector<Kernel>& kernels) {
  const auto most = [&](auto of) { return share(kernels, 1, of); };
  const auto ms = [](const Kernel& k) { return k.ms(); };
  const auto worst =
      std::max_element(kernels.begin(), kernels.end(), [&](const Kernel& a, const Kernel& b) { return ms(a) < ms(b); });
  fmt::print("{:<12} {:>7} {:>7.0f} {:>7.0f} {:>7.0f} {:>8.2f} {:>8.2f} {:>8.1f} {:>8.1f} {:>6.0f} {:>6.0f}  {}\n",
             what, kernels.size(), share(kernels, 0.5, ms), share(kernels, 0.95, ms), worst->ms(),
             most([](const Kernel& k) { return k.plan_ms; }), most([](const Kernel& k) { return k.emit_ms; }),
             most([](const Kernel& k) { return static_cast<double>(k.text_bytes) / 1e3; }),
             most([](const Kernel& k) { return static_cast<double>(k.compiled.code_bytes) / 1e3; }),
             most([](const Kernel& k) { return k.compiled.registers; }),
             most([](const Kernel& k) { return k.compiled.spill_bytes; }), worst->name);
}

std::vector<std::string> missed(const std::string& what, const Target& target, std::int64_t d,
                                const std::vector<Kernel>& kernels) {
  std::vector<std::string> out;
  const auto ms = [](const Kernel& k) { return k.ms(); };
  if (target.name == kStrict && share(kernels, 1, ms) > strict_bar(d))
    out.push_back(fmt::format(
        "{}: {} of {} kernels take more than {:.0f} ms, the worst {:.0f}", what,
        std::count_if(kernels.begin(), kernels.end(), [&](const Kernel& k) { return k.ms() > strict_bar(d); }),
        kernels.size(), strict_bar(d), share(kernels, 1, ms)));
  for (const auto& k : kernels) {
    if (k.compiled.spill_bytes > 0)
      out.push_back(fmt::format("{}: {} spills {} bytes", what, k.name, k.compiled.spill_bytes));
  }
  return out;
}

/// What the first kernel of a process costs beyond the later ones.
Status print_first(const ir::Pattern& pattern, const Target& target) {
  const Stopwatch opening;
  WEFT_TRY(const auto library, nvrtc::locate(target));
  const double open_ms = opening.ms();
  WEFT_TRY(const auto plan, planner::plan(pattern, {.d = 64, .d_v = 64, .dtype = ir::DType::f16}, target));
  const auto text = codegen::cuda::emit(plan, target).text;
  Spent spent;
  WEFT_TRY(const auto first, compile(target, text, pattern.name, 1, spent));
  WEFT_TRY(const auto again, compile(target, text, pattern.name, 1, spent));
  fmt::print(
      "NVRTC {} ({}): found and opened in {:.0f} ms; the first kernel ({}, {}) takes {:.0f} ms, again {:.0f}\n\n",
      library->version().text(), library->path(), open_ms, pattern.name, target.name, first.ms, again.ms);
  return done;
}

struct Total {
  std::vector<Kernel> kernels;
  std::vector<std::string> missed;
  Spent spent;
};

Status measure(const std::vector<ir::Pattern>& patterns, const Target& target, std::int64_t d, const Options& options,
               Total& total) {
  std::vector<Kernel> kernels;
  for (const auto& name : options.dtypes) {
    WEFT_TRY(const auto dtype, dtype_of(name));
    WEFT_TRY(auto some, make_all(patterns, target, d, dtype, options, total.spent));
    std::move(some.begin(), some.end(), std::back_inserter(kernels));
  }
  if (kernels.empty()) return environment_error("no pattern of the corpus could be planned");
  const auto what = fmt::format("{} d {}", target.name, d);
  print_row(what, kernels);
  std::fflush(stdout);
  for (auto& sentence : missed(what, target, d, kernels)) total.missed.push_back(std::move(sentence));
  std::move(kernels.begin(), kernels.end(), std::back_inserter(total.kernels));
  return done;
}

/// Over the whole corpus, and every bar that was missed.
void print_total(Total& total) {
  print_row("all", total.kernels);
  const double p95 = share(total.kernels, 0.95, [](const Kernel& k) { return k.ms(); });
  if (p95 > kBar) total.missed.push_back(fmt::format("all: 95 of 100 kernels take {:.0f} ms, not {:.0f}", p95, kBar));
  const auto plan_ms = [](const Kernel& k) { return k.plan_ms; };
  const auto longest = std::max_element(total.kernels.begin(), total.kernels.end(),
                                        [](const Kernel& a, const Kernel& b) { return a.plan_ms < b.plan_ms; });
  fmt::print("\nplanning: median {:.2f} ms, longest {:.2f} ({})\n", share(total.kernels, 0.5, plan_ms),
             longest->plan_ms, longest->name);
  if (longest->plan_ms > kPlanBar)
    total.missed.push_back(fmt::format("planning: {} of {} plans take more than {:.0f} ms",
                                       std::count_if(total.kernels.begin(), total.kernels.end(),
                                                     [&](const Kernel& k) { return k.plan_ms > kPlanBar; }),
                                       total.kernels.size(), kPlanBar));
  fmt::print("NVRTC had {:.0f} % of a core; its times are those of a whole one\n",
             100 * total.spent.cpu_ms / total.spent.wall_ms);
  for (const auto& sentence : total.missed) fmt::print("missed: {}\n", sentence);
}

Result<bool> run(int count, char** given) {
  WEFT_TRY(const auto options, options_of(count, given));
  WEFT_TRY(const auto patterns, corpus(WEFT_SOURCE_DIR));
  if (patterns.empty()) return environment_error("there are no patterns in " WEFT_SOURCE_DIR);
  Total total;
  for (const auto& arch : options.arches) {
    WEFT_TRY(const auto target, find_target("sm_" + arch));
    if (arch == options.arches.front()) {
      WEFT_CHECK(print_first(patterns.front(), target));
      print_header();
    }
    for (const auto& dim : options.dims) WEFT_CHECK(measure(patterns, target, std::atoi(dim.c_str()), options, total));
  }
  print_total(total);
  return total.missed.empty();
}

}  // namespace
}  // namespace weft::bench

int main(int count, char** given) {
  const auto kept = weft::bench::run(count, given);
  if (kept) return *kept ? 0 : 1;
  fmt::print(stderr, "{}\n", kept.error().message);
  return kept.error().kind == weft::ErrorKind::user ? 2 : 3;
}
