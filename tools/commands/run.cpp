#include "kernels_cache/bundle/reader.h"
#include "runtime/cuda/timer.h"
#include "runtime/engine/cuda_executor.h"
#include "runtime/engine/destination.h"
#include "runtime/engine/emulate_executor.h"
#include "tools/commands/commands.h"
#include "tools/comparison.h"
#include "tools/device_operands.h"
#include "tools/files.h"
#include "tools/json.h"
#include "tools/operands.h"
#include "tools/pattern_file.h"
#include "tools/progress.h"
#include "tools/tensor_files.h"

#include <chrono>
#include <thread>

namespace weft::tools {

namespace {

using Clock = std::chrono::steady_clock;

struct Job {
  PatternFile file;
  Operands operands = {};
  Sizes sizes = {};
  std::vector<ChosenList> lists = {};  ///< that are asked for, or checked
};

/// Tokens of a random launch: the options', else what the pattern fixes.
std::optional<std::int64_t> tokens_of(const Options& options, const ir::Pattern& pattern) {
  if (!options.tokens.empty()) return options.tokens[0];
  if (pattern.tokens.kind == ir::Tokens::Kind::exact) return pattern.tokens.count;
  if (!pattern.grid.empty()) return ir::Tensor::count(pattern.grid);
  return std::nullopt;
}

/// What this command line asks for that this version, or nobody, can do. 0: nothing.
int refuse(const Options& options, const Console& console) {
  if (!options.grad.empty() || !options.dq.empty() || !options.dk.empty() || !options.dv.empty() ||
      !options.dinput.empty()) {
    return console.fail(
        environment_error("gradients (--grad) are not available in this version: only the forward pass is"));
  }
  if (has_tensors(options) && (options.q.empty() || options.k.empty() || options.v.empty())) {
    return console.usage("--q, --k and --v go together");
  }
  if (has_tensors(options) && (!options.tokens.empty() || options.keys || options.batch)) {
    return console.usage("--tokens, --keys and --batch are for random tensors; these come from files");
  }
  return kDone;
}

/// The tensors, and what they fix. Errors have been printed when `job` is empty.
int prepare(const Options& options, const Console& console, std::optional<Job>& job) {
  auto [file, status] = open_pattern(options, console);
  if (!file) return status;
  Job made{.file = std::move(*file)};
  if (has_tensors(options)) {
    auto operands = read_operands(options);
    if (!operands) return console.fail(operands.error());
    made.operands = std::move(*operands);
    made.sizes = sizes_of(made.operands);
  } else {
    const auto tokens = tokens_of(options, made.file.pattern);
    if (!tokens) return console.usage("give tensors (--q --k --v), or --tokens N for random ones");
    made.sizes = default_sizes(options, made.file.pattern, console);
    auto operands = random_operands(options, made.sizes, *tokens, options.keys.value_or(*tokens));
    if (!operands) return console.fail(operands.error());
    made.operands = std::move(*operands);
  }
  if (auto added = add_inputs(made.operands, options, made.file.pattern); !added) return console.fail(added.error());
  if (auto added = add_offset(made.operands, options); !added) return console.fail(added.error());
  if (auto cut = cut_rows(made.operands, options); !cut) return console.fail(cut.error());
  job = std::move(made);
  return kDone;
}

/// Where kernels come from. A bundle that is named on the command line must be one: an engine would only warn.
Result<EngineOptions> sources_of_kernels(const Options& options, const Console& console) {
  auto to = engine_options(options, console);
  bundle::Trust trust;
  if (!options.public_key.empty()) {
    WEFT_TRY(to.bundle_key, read_text(options.public_key));
    WEFT_TRY(trust.key, named(bundle::read_public_key(to.bundle_key), options.public_key));
  }
  for (const auto& path : options.bundles) {
    WEFT_TRY(const auto opened, bundle::Bundle::open(path, trust));
    static_cast<void>(opened);
  }
  to.bundles = options.bundles;
  to.record = options.record;
  // Then nothing else is used; a store that is named all the same is.
  if (!options.bundles.empty() && options.no_compile && options.cache_dir.empty()) to.no_cache = true;
  return to;
}

bool has_own_lse(const ir::Pattern& pattern) {
  return pattern.combine != ir::Combine::sum && pattern.combine != ir::Combine::mean;
}

/// Files of NumPy's default type, for kernels that do not take it.
Error doubles(const Job& job, const std::string& target) {
  auto error = user_error(fmt::format("{}: q is <f8 (float64, NumPy's default); {} takes f32, f16 and bf16",
                                      job.operands.files.at("q"), target));
  for (const auto* name : {"q", "k", "v"}) error.notes.push_back(cure(job.operands.files.at(name), DType::f32));
  error.notes.emplace_back("--target interpreter computes in f64");
  return error;
}

/// [B, H, n, d] taken for [B, n, H, d] runs, and computes something else. Many more heads than tokens are rare.
void remark_on_layout(const Job& job, const Console& console) {
  const auto shape = job.operands.shape();
  if (!job.operands.files.contains("q") || job.file.pattern.heads || shape.n_q != shape.n_k) return;
  if (shape.heads <= shape.n_q || shape.heads < 32) return;
  console.remark("q has {} heads and {} tokens: if its axes are {}, say --layout {}", shape.heads, shape.n_q,
                 job.operands.heads_first ? "[B, n, H, d]" : "[B, H, n, d]",
                 job.operands.heads_first ? "bnhd" : "bhnd");
}

/// Where LSE goes: of the whole pattern wherever it is wanted or can be checked, of the branches where asked.
void add_lse(Job& job, const Options& options) {
  const auto shape = job.operands.shape();
  const auto branches = static_cast<std::int64_t>(job.file.pattern.branches.size());
  const bool own = has_own_lse(job.file.pattern);
  if (own && (options.check || !options.lse.empty()))
    job.operands.lse = Array(DType::f32, {shape.batch, shape.heads, shape.rows_computed()});
  if (!options.lse.empty() && (options.lse_per_branch || !own)) {
    job.operands.branch_lse = Array(DType::f32, {branches, shape.batch, shape.heads, shape.rows_computed()});
  }
}

/// Where the choices of `random` and `top` go.
Status add_lists(Job& job, const Options& options, const Kernel& kernel) {
  if (!options.check && options.lists.empty()) return done;
  const auto s = job.operands.shape();
  WEFT_TRY(job.lists, kernel.lists({s.batch, s.rows_computed(), s.n_k, s.heads, s.kv_heads, job.operands.slice},
                                   job.operands.offset));
  if (job.lists.empty() && !options.lists.empty()) {
    return user_error(
        fmt::format("{} has no 'random' and no 'top': there are no lists for --lists", job.file.pattern.name));
  }
  for (const auto& list : job.lists) {
    job.operands.lists.push_back(Array(DType::i32, {list.extent.begin(), list.extent.end()}));
  }
  return done;
}

std::string list_file(const Options& options, std::size_t number) {
  return fmt::format("{}.{}.npy", options.lists, number);
}

/// What the kernel is compiled for: dims and dtype of the tensors where pattern and options leave them open. What
/// they contradict is the launch's to say, which knows the tensors.
CompileOptions compile_for(const Job& job) {
  auto compile = job.file.options;
  const auto& pattern = job.file.pattern;
  if (!pattern.dim) compile.dim = job.sizes.dim;
  if (!pattern.dim_v) compile.dim_v = job.sizes.dim_v;
  if (!pattern.dtype) compile.dtype = job.sizes.dtype;
  compile.branch_lse = !job.operands.branch_lse.bytes.empty();
  return compile;
}

/// Milliseconds of the best of a few launches: the first one also pays for fresh pages.
template <typename Once>
Result<double> best_of(const Once& once) {
  double best = 0, spent = 0;
  for (int i = 0; i < 5 && (i == 0 || spent < 200); ++i) {
    WEFT_TRY(const double ms, once());
    best = i == 0 ? ms : std::min(best, ms);
    spent += ms;
  }
  return best;
}

Result<double> launch_here(const Kernel& kernel, Operands& operands, const RunArgs& args) {
  return best_of([&]() -> Result<double> {
    operands.poison();
    const auto start = Clock::now();
    WEFT_CHECK(kernel.run(args));
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  });
}

/// Time on the device alone: copying is the command's, not the kernel's.
Result<double> launch_on(const std::shared_ptr<const cuda::Device>& device, const Kernel& kernel, Operands& operands,
                         const RunArgs& host, Views& views) {
  operands.poison();
  WEFT_TRY(const auto copies, DeviceOperands::copy_in(device, operands));
  const auto args = copies.args(host, views);
  WEFT_TRY(const auto timer, cuda::Timer::make(device));
  WEFT_TRY(const double best, best_of([&]() -> Result<double> {
             WEFT_CHECK(copies.reset(operands));
             WEFT_CHECK(timer.start(nullptr));
             WEFT_CHECK(kernel.run(args));
             return timer.stop(nullptr);
           }));
  WEFT_CHECK(copies.copy_out(operands));
  return best;
}

Result<double> launch(const Kernel& kernel, Operands& operands, const Options& options) {
  Views views;
  const auto args = operands.args(options, views);
  const auto device = device_of(kernel);
  return device ? launch_on(device, kernel, operands, args, views) : launch_here(kernel, operands, args);
}

Status write_outputs(const Job& job, const Options& options) {
  if (!options.output.empty()) WEFT_CHECK(write_array(options.output, job.operands.out));
  if (!options.lse.empty()) {
    const auto& branches = job.operands.branch_lse;
    WEFT_CHECK(write_array(options.lse, branches.bytes.empty() ? job.operands.lse : branches));
  }
  for (std::size_t i = 0; i < job.lists.size() && !options.lists.empty(); ++i) {
    WEFT_CHECK(write_array(list_file(options, i), job.operands.lists[i]));
  }
  return done;
}

std::string origin_text(const Kernel& kernel) {
  if (kernel.target() == "interpreter") return "interpreted in f64, nothing is compiled";
  if (kernel.origin() == CacheOrigin::miss) {
    return fmt::format("cache miss: compiled in {:.1f} ms, loaded in {:.2f} ms", kernel.compile_ms(), kernel.load_ms());
  }
  return fmt::format("cache hit ({}): loaded in {:.2f} ms, nothing compiled", to_string(kernel.origin()),
                     kernel.load_ms());
}

/// For -v: where the time before the launch went, and what an emulated launch did.
Status say_more(const Kernel& kernel, Operands& operands, const Options& options, const Console& console) {
  const auto& times = kernel.times();
  console.remark("planned in {:.2f} ms, emitted in {:.2f} ms, compiled in {:.1f} ms, loaded in {:.2f} ms",
                 times.plan_ms, times.emit_ms, times.compile_ms, times.load_ms);
  if (!kernel.target().starts_with("emulate:")) return done;
  Views views;
  WEFT_TRY(const auto reports, count_emulated(kernel, operands.args(options, views)));
  for (std::size_t phase = 0; phase < reports.size(); ++phase) {
    const auto& report = reports[phase];
    const auto shared = report.shared(), global = report.global();
    console.remark("phase {}: {} blocks, {} barriers, {} FLOP in multiply-adds", phase, report.blocks, report.barriers,
                   report.flops);
    console.remark("  shared memory: {} requests, {} wavefronts, {} of them conflicts", shared.requests, shared.units,
                   shared.conflicts);
    console.remark("  global memory: {} requests, {} sectors for {} bytes", global.requests, global.units,
                   global.bytes);
  }
  return done;
}

void print_check(const Comparison& check, const Console& console) {
  const auto rows = check.sampled ? fmt::format(" on {} rows of each head", check.rows) : std::string();
  console.print("  check   largest error {:.2e}, bound {:.2e}{}: {}\n", check.max_error, check.bound, rows,
                check.ok ? "ok" : "WRONG");
  if (check.lse_bound > 0)
    console.print("          of the LSE    {:.2e}, bound {:.2e}\n", check.lse_max_error, check.lse_bound);
  for (const auto& strange : check.strange) console.print("          of the input: {}\n", strange);
  if (check.clamped.count > 0) {
    console.print("          {} reads beyond the end of an input or a list took the nearest element; the first: {}\n",
                  check.clamped.count, check.clamped.first);
  }
  if (check.lists > 0) {
    console.print("          of the chosen keys: {}\n", check.wrong_choice.empty() ? "ok" : check.wrong_choice);
  }
}

void print_text(const Job& job, const Kernel& kernel, double ms, const std::optional<Comparison>& check,
                const Options& options, const Console& console) {
  const auto shape = job.operands.shape();
  const auto tokens = shape.n_q == shape.n_k ? fmt::format("{} tokens", shape.n_q)
                                             : fmt::format("{} queries, {} keys", shape.n_q, shape.n_k);
  const auto rows =
      shape.is_slice() ? fmt::format(", rows {} to {}", shape.row_begin, shape.row_end() - 1) : std::string();
  console.print("{}: {}{}, {} heads, dim {}, {}, batch {}\n", job.file.pattern.name, tokens, rows, shape.heads, shape.d,
                to_string(job.operands.q.dtype), shape.batch);
  console.print("  kernel  {}\n", origin_text(kernel));
  if (kernel.registers()) {
    console.print("          {} registers, {} bytes spilled, {} bytes of shared memory\n", *kernel.registers(),
                  kernel.spill_bytes().value_or(0), kernel.shared_bytes(shape.heads).value_or(0));
  }
  console.print("  run     {:.3f} ms on {}\n", ms, kernel.target());
  for (std::size_t i = 0; i < job.lists.size() && !options.lists.empty(); ++i) {
    console.print("  list    {}, from row {} on: {}\n", job.lists[i].set, job.lists[i].first_row,
                  list_file(options, i));
  }
  if (check) print_check(*check, console);
}

Json lists_json(const Job& job, const Options& options) {
  auto out = Json::array();
  for (std::size_t i = 0; i < job.lists.size() && !options.lists.empty(); ++i) {
    const auto& list = job.lists[i];
    out.push_back({{"set", list.set},
                   {"block", list.block},
                   {"first_row", list.first_row},
                   {"shape", list.extent},
                   {"file", list_file(options, i)}});
  }
  return out;
}

void print_json(const Job& job, const Kernel& kernel, double ms, const std::optional<Comparison>& check,
                const Options& options, const Console& console) {
  const auto shape = job.operands.shape();
  Json out{{"pattern", job.file.pattern.name},
           {"target", kernel.target()},
           {"batch", shape.batch},
           {"n_q", shape.n_q},
           {"n_k", shape.n_k},
           {"heads", shape.heads},
           {"kv_heads", shape.kv_heads},
           {"dim", shape.d},
           {"dim_v", shape.d_v},
           {"dtype", to_string(job.operands.q.dtype)},
           {"kernel",
            {{"cache", to_string(kernel.origin())},
             {"compile_ms", kernel.compile_ms()},
             {"load_ms", kernel.load_ms()},
             {"plan_ms", kernel.times().plan_ms},
             {"emit_ms", kernel.times().emit_ms},
             {"registers", or_null(kernel.registers())},
             {"spill_bytes", or_null(kernel.spill_bytes())}}},
           {"time_ms", ms}};
  if (shape.is_slice()) out["rows"] = {shape.row_begin, shape.row_end()};
  if (!options.lists.empty()) out["lists"] = lists_json(job, options);
  if (check) {
    const auto number = [](double x) { return std::isfinite(x) ? Json(x) : Json(nullptr); };
    out["check"] = {{"ok", check->ok},
                    {"max_error", number(check->max_error)},
                    {"bound", check->bound},
                    {"lse_max_error", number(check->lse_max_error)},
                    {"lse_bound", check->lse_bound},
                    {"rows", check->rows},
                    {"sampled", check->sampled},
                    {"not_finite", check->strange},
                    {"lists", check->lists},
                    {"clamped", check->clamped.count},
                    {"first_clamped", check->clamped.count > 0 ? Json(check->clamped.first) : Json(nullptr)},
                    {"wrong_choice", check->wrong_choice.empty() ? Json(nullptr) : Json(check->wrong_choice)}};
  }
  console.print("{}\n", json_text(out));
}

}  // namespace

int command_run(const Options& options, const Console& console) {
  if (const int status = refuse(options, console); status != kDone) return status;
  std::optional<Job> prepared;
  if (const int status = prepare(options, console, prepared); !prepared) return status;
  auto& job = *prepared;
  if (job.file.pattern.ring) {
    console.remark("{}: 'ring' is not used here; results are those of one device", job.file.pattern.name);
  }
  add_lse(job, options);

  auto compile = compile_for(job);
  if (options.target.empty()) {
    const bool gpu = has_usable_gpu();
    compile.target = gpu ? "cuda" : "cpu";
    console.remark("{}", gpu ? "running on GPU 0" : "no usable GPU: running on the CPU");
  }
  if (compile.target != "interpreter" && job.sizes.dtype == DType::f64) {
    return console.fail(doubles(job, compile.target));
  }
  remark_on_layout(job, console);
  auto sources = sources_of_kernels(options, console);
  if (!sources) return console.fail(sources.error());
  const Engine engine(std::move(*sources));
  const auto kernel = [&] {
    const Progress progress(console, fmt::format("compiling {} for {}", job.file.pattern.name, compile.target));
    return engine.compile(job.file.source.text, compile);
  }();
  for (const auto& warning : engine.take_warnings()) console.warn("{}", warning);
  if (!kernel) return console.fail(kernel.error(), &job.file.source);
  if (auto added = add_lists(job, options, *kernel); !added) return console.fail(added.error());
  const auto ms = [&] {
    const Progress progress(console, fmt::format("running {}", job.file.pattern.name));
    return launch(*kernel, job.operands, options);
  }();
  if (!ms) return console.fail(job.operands.with_files(ms.error()));

  std::optional<Comparison> check;
  if (options.check) {
    Views views;
    const auto args = job.operands.args(options, views);
    auto compared =
        compare_with_interpreter(job.file.pattern, args, job.operands.q.dtype, options.seed.value_or(0), console);
    if (!compared) return console.fail(compared.error());
    check = *compared;
  }
  if (auto written = write_outputs(job, options); !written) return console.fail(written.error());
  if (console.verbose()) {
    if (auto said = say_more(*kernel, job.operands, options, console); !said) return console.fail(said.error());
  }
  if (console.json())
    print_json(job, *kernel, *ms, check, options, console);
  else
    print_text(job, *kernel, *ms, check, options, console);
  if (check && !check->wrong_choice.empty()) {
    return console.fail(internal_error("the kernel chose wrong keys: " + check->wrong_choice));
  }
  if (check && !check->ok) return console.fail(internal_error("the kernel's result is outside its bound"));
  return kDone;
}

}  // namespace weft::tools
