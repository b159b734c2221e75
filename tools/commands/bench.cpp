#include "laboratory/explain/workload.h"
#include "runtime/engine/destination.h"
#include "runtime/engine/reference.h"
#include "runtime/engine/tuned.h"
#include "runtime/llvm/peak.h"
#include "tools/commands/commands.h"
#include "tools/gradient_operands.h"
#include "tools/json.h"
#include "tools/operands.h"
#include "tools/pattern_file.h"
#include "tools/progress.h"
#include "tools/samples.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace weft::tools {

namespace {

constexpr std::size_t kSamples = 9, kFewestSamples = 3;
constexpr double kSecondsPerRow = 15;
constexpr const char* kDense = "pattern dense { }";

struct Samples {
  std::vector<double> ms, share;  ///< share of the peak measured before and after each
  double peak = 0;                ///< median FLOP/s of the FMA loop
};

struct Row {
  std::string pattern;
  ir::Shape shape;
  std::string dtype;
  int threads = 1;
  bool backward = false;
  Samples samples = {};
  explain::Workload load = {};
  std::int64_t peak_bytes = 0;
  CacheOrigin origin = CacheOrigin::miss;
  double median_ms() const { return median(samples.ms); }
  double flops_per_s() const { return load.flops / median_ms() * 1e3; }
  double share() const { return median(samples.share); }
  /// Why the numbers mean little; empty: they mean something.
  std::string doubt() const {
    // Products alone would need the whole peak: what is more was measured while something else ran.
    // Pairs that several branches keep are computed once, and pairs of bf16 take one product.
    const double once = load.flops > 0 ? std::min(1.0, load.executed_flops / load.flops) : 0;
    if (dtype != "bf16" && share() * once > 1.02) {
      return fmt::format("{:.0f} % of the peak are impossible: the machine was busy while the peak was measured",
                         100 * share());
    }
    if (spread(samples.ms) <= kNoisy) return {};
    return fmt::format("half of the samples differ by {:.0f} % of the median: the machine was busy",
                       100 * spread(samples.ms));
  }
};

/// Launches next to measurements of the peak: clocks and neighbours change from second to second.
Result<Samples> sample(const Kernel& kernel, const RunArgs& args, const llvm::PeakMeter& meter, int threads,
                       double flops, const std::string& what, const Console& console) {
  using Clock = std::chrono::steady_clock;
  WEFT_CHECK(kernel.run(args));  // pages, caches, clocks
  Samples samples = {};
  std::vector<double> peaks = {meter.flops_per_second(threads)};
  Progress progress(console, what);
  const auto begin = Clock::now();
  while (samples.ms.size() < kSamples) {
    const auto start = Clock::now();
    WEFT_CHECK(kernel.run(args));
    const double ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
    peaks.push_back(meter.flops_per_second(threads));
    const double around = (peaks[peaks.size() - 2] + peaks.back()) / 2;
    samples.ms.push_back(ms);
    samples.share.push_back(flops / (ms / 1e3) / around);
    progress.update(samples.ms.size(), kSamples);
    const bool spent = std::chrono::duration<double>(Clock::now() - begin).count() > kSecondsPerRow;
    if (spent && samples.ms.size() >= kFewestSamples) break;
  }
  samples.peak = median(peaks);
  return samples;
}

/// What all rows of one command share.
struct Bench {
  const Options& options;
  const Console& console;
  const Engine& engine;
  const llvm::PeakMeter& meter;
  const Target& target;
  int threads;
};

Result<Row> bench_one(const Bench& bench, const PatternFile& file, std::int64_t tokens, const Console& remarks) {
  const auto sizes = default_sizes(bench.options, file.pattern, remarks);
  WEFT_TRY(auto operands, random_operands(bench.options, sizes, tokens, bench.options.keys.value_or(tokens)));
  WEFT_CHECK(add_inputs(operands, bench.options, file.pattern));
  WEFT_CHECK(add_offset(operands, bench.options));
  auto compile = with_sizes(file.options, sizes);
  compile.target = bench.target.name;
  WEFT_TRY(const auto planned,
           plan_as_engines_do(file.source, compile, {open_store(bench.options, StoreUse::look)}, bench.target));
  Row row{.pattern = file.pattern.name,
          .shape = operands.shape(),
          .dtype = to_string(sizes.dtype),
          .threads = bench.threads,
          .backward = compile.gradient};
  std::vector<ir::Tensor> inputs;
  for (const auto& array : operands.inputs) inputs.push_back(to_f64(array.view()));
  WEFT_TRY(row.load, explain::workload_of(planned, row.shape, inputs));
  WEFT_TRY(const auto kernel, [&] {
    const Progress progress(bench.console, fmt::format("compiling {}", file.pattern.name));
    return bench.engine.compile(file.source.text, compile);
  }());
  row.origin = kernel.origin();
  WEFT_TRY(const auto scratch, kernel.workspace({.batch = row.shape.batch,
                                                 .n_q = row.shape.n_q,
                                                 .n_k = row.shape.n_k,
                                                 .heads = row.shape.heads,
                                                 .kv_heads = row.shape.kv_heads},
                                                bench.threads));
  row.peak_bytes = operands.bytes() + static_cast<std::int64_t>(scratch);
  operands.poison();
  std::optional<GradientOperands> gradients;
  if (row.backward) {
    WEFT_TRY(gradients, gradients_after_forward(bench.engine, file, compile, operands, bench.options));
    row.peak_bytes = operands.bytes() + gradients->bytes() + static_cast<std::int64_t>(scratch);
  }
  Views views;
  auto args = operands.args(bench.options, views);
  if (gradients) args = gradients->args(args, operands);
  args.threads = bench.threads;
  const auto what = fmt::format("{} at {} tokens", file.pattern.name, tokens);
  WEFT_TRY(row.samples, sample(kernel, args, bench.meter, bench.threads, row.load.flops, what, bench.console));
  return row;
}

void print_header(bool backward, const Console& console) {
  console.print("{:<16} {:>8} {:>10} {:>15} {:>10} {:>10} {:>7} {:>12}\n", backward ? "backward pass of" : "pattern",
                "tokens", "median ms", "quartiles", "GFLOP/s", "peak", "share", "tokens/s");
}

void print_row(const Row& row, const Console& console) {
  const auto& ms = row.samples.ms;
  console.print("{:<16} {:>8} {:>10.3f} {:>15} {:>10.1f} {:>10.1f} {:>6.1f}% {:>12.0f}\n", row.pattern, row.shape.n_q,
                row.median_ms(), fmt::format("{:.2f}..{:.2f}", quartile(ms, 0.25), quartile(ms, 0.75)),
                row.flops_per_s() / 1e9, row.samples.peak / 1e9, 100 * row.share(),
                static_cast<double>(row.shape.batch * row.shape.n_q) / row.median_ms() * 1e3);
}

Json to_json(const Row& row) {
  const auto& s = row.shape;
  return {{"pattern", row.pattern},
          {"pass", row.backward ? "backward" : "forward"},
          {"tokens", s.n_q},
          {"keys", s.n_k},
          {"batch", s.batch},
          {"heads", s.heads},
          {"kv_heads", s.kv_heads},
          {"dim", s.d},
          {"dim_v", s.d_v},
          {"dtype", row.dtype},
          {"threads", row.threads},
          {"median_ms", row.median_ms()},
          {"min_ms", *std::min_element(row.samples.ms.begin(), row.samples.ms.end())},
          {"quartiles_ms", {quartile(row.samples.ms, 0.25), quartile(row.samples.ms, 0.75)}},
          {"samples", row.samples.ms.size()},
          {"spread", spread(row.samples.ms)},
          {"noisy", !row.doubt().empty()},
          {"pairs", row.load.work.pairs},
          {"flops", row.load.flops},
          {"executed_flops", row.load.executed_flops},
          {"flops_per_s", row.flops_per_s()},
          {"peak_flops_per_s", row.samples.peak},
          {"share_of_peak", row.share()},
          {"tokens_per_s", static_cast<double>(s.batch * s.n_q) / row.median_ms() * 1e3},
          {"peak_bytes", row.peak_bytes},
          {"plan_us", row.load.plan_us},
          {"cache", to_string(row.origin)}};
}

/// The dense kernel of the same sizes, to put a pattern's time beside.
Result<PatternFile> dense_like(const PatternFile& file, const Sizes& sizes) {
  PatternFile dense{.source = {.name = "<dense>", .text = kDense}, .options = {}, .pattern = {}};
  dense.options = with_sizes({}, sizes);
  dense.options.target = file.options.target;
  dense.options.gradient = file.options.gradient;
  WEFT_TRY(auto front, read_pattern(dense.source, dense.options));
  dense.pattern = std::move(front.pattern);
  return dense;
}

}  // namespace

int command_bench(const Options& options, const Console& console) {
  const auto destination = find_destination(options.target.empty() ? "cpu" : options.target);
  if (!destination) return console.fail(destination.error());
  const auto* const target = &destination->target;
  if (destination->kind != Destination::Kind::cpu)
    return console.fail(environment_error("bench measures CPU kernels only in this version"));
  if (options.target.empty())
    console.remark("only CPU kernels are measured in this version: measuring {}", target->name);
  const auto library = llvm::Library::open(options.llvm);
  if (!library) return console.fail(library.error());
  const auto meter = llvm::PeakMeter::create(**library, *target);
  if (!meter) return console.fail(meter.error());
  const int threads = options.threads ? static_cast<int>(*options.threads)
                                      : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  auto opened = engine_options(options, console);
  opened.threads = threads;
  const Engine engine(opened);
  const Bench bench{options, console, engine, *meter, *target, threads};
  Options quiet = options;
  quiet.quiet = true;
  const auto lengths = options.tokens.empty() ? std::vector<std::int64_t>{4096, 16384} : options.tokens;

  Json results = Json::array();
  if (!console.json()) print_header(options.gradient, console);
  const auto show = [&](const Row& row) {
    if (console.json())
      results.push_back(to_json(row));
    else
      print_row(row, console);
    finish(kDone);
    if (const auto doubt = row.doubt(); !doubt.empty())
      console.warn("{} at {} tokens: {}", row.pattern, row.shape.n_q, doubt);
  };
  for (const auto& path : options.files) {
    Options one = options;
    one.files = {path};
    const auto [file, status] = open_pattern(one, console);
    if (!file) return status;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      const auto row = bench_one(bench, *file, lengths[i], i == 0 ? console : Console(quiet));
      if (!row) return console.fail(row.error(), &file->source);
      show(*row);
      if (options.against.empty()) continue;
      const auto dense = dense_like(*file, default_sizes(options, file->pattern, Console(quiet)));
      if (!dense) return console.fail(dense.error());
      const auto other = bench_one(bench, *dense, lengths[i], Console(quiet));
      if (!other) return console.fail(other.error(), &dense->source);
      show(*other);
    }
  }
  for (const auto& warning : engine.take_warnings()) console.warn("{}", warning);
  if (console.json()) console.print("{}\n", json_text(Json{{"target", target->name}, {"results", results}}));
  return kDone;
}

}  // namespace weft::tools
