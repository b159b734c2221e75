#include "compiler/ir/launchable.h"
#include "kernels_cache/bundle/reader.h"
#include "runtime/cuda/timer.h"
#include "runtime/engine/cuda_executor.h"
#include "runtime/engine/destination.h"
#include "runtime/engine/emulate_executor.h"
#include "runtime/engine/launch_checks.h"
#include "tools/commands/commands.h"
#include "tools/commands/run_report.h"
#include "tools/comparison.h"
#include "tools/device_operands.h"
#include "tools/files.h"
#include "tools/operands.h"
#include "tools/pattern_file.h"
#include "tools/progress.h"
#include "tools/ring_job.h"
#include "tools/tensor_files.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>

namespace weft::tools {

namespace {

using Clock = std::chrono::steady_clock;

/// Tokens of a random launch: the options', else what the pattern fixes.
std::optional<std::int64_t> tokens_of(const Options& options, const ir::Pattern& pattern) {
  if (!options.tokens.empty()) return options.tokens[0];
  if (pattern.tokens.kind == ir::Tokens::Kind::exact) return pattern.tokens.count;
  if (!pattern.grid.empty()) return ir::Tensor::count(pattern.grid);
  return std::nullopt;
}

/// What this command line asks for that this version, or nobody, can do. 0: nothing.
int refuse(const Options& options, const Console& console) {
  const bool wants_results = options.check || !options.output.empty() || !options.lse.empty() ||
                             !options.lists.empty() || !options.dq.empty() || !options.dk.empty() ||
                             !options.dv.empty() || !options.dinput.empty();
  if (options.prepare && wants_results)
    return console.usage("--prepare runs nothing: there is nothing to check or to write");
  if (const auto wrong = wrong_gradients(options); !wrong.empty()) return console.usage(wrong);
  if (const auto wrong = wrong_with_ring(options); !wrong.empty()) return console.usage(wrong);
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
  if (!options.grad.empty()) {
    auto gradients = gradient_operands(made.operands, options, made.file.pattern);
    if (!gradients) return console.fail(gradients.error());
    made.gradients = std::move(*gradients);
  }
  job = std::move(made);
  return kDone;
}

bool is_empty(const ir::Shape& shape) {
  return std::min({shape.batch, shape.n_q, shape.n_k, shape.heads, shape.kv_heads}) < 1;
}

/// Of what every launch would say, that which needs no kernel: compiling one may take seconds.
Status check_fit(const Job& job) {
  const auto shape = job.operands.shape();
  const bool has_offsets = shape.offset.size() <= 1 || shape.offset.size() == static_cast<std::size_t>(shape.batch);
  if (is_empty(shape) || !has_offsets) return done;  // the launch says so
  WEFT_CHECK(check_sizes(job.file.pattern, shape));
  return ir::check_meaning(job.file.pattern, shape);
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

/// Where LSE goes: of the whole pattern wherever it is wanted or can be checked, of the branches where asked. A
/// backward pass reads the one that the combine mode has.
Status add_lse(Job& job, const Options& options) {
  const auto shape = job.operands.shape();
  if (!ir::has_lse(job.file.pattern)) {
    if (options.lse.empty()) return done;
    return user_error("--lse: 'weights sigmoid' divides by no sum and has no LSE");
  }
  const auto branches = static_cast<std::int64_t>(job.file.pattern.branches.size());
  const bool own = !ir::per_branch(job.file.pattern.combine), grad = !options.grad.empty();
  if (own && (options.check || grad || !options.lse.empty()))
    job.operands.lse = Array(DType::f32, {shape.batch, shape.heads, shape.rows_computed()});
  if ((!options.lse.empty() && (options.lse_per_branch || !own)) || (grad && !own)) {
    job.operands.branch_lse = Array(DType::f32, {branches, shape.batch, shape.heads, shape.rows_computed()});
  }
  return done;
}

RunShape run_shape(const Job& job) {
  const auto s = job.operands.shape();
  return {s.batch, s.rows_computed(), s.n_k, s.heads, s.kv_heads, job.operands.slice};
}

/// Where the choices of `random` and `top` go.
Status add_lists(Job& job, const Options& options, const Kernel& kernel) {
  if (!options.check && options.lists.empty()) return done;
  WEFT_TRY(job.lists, kernel.lists(run_shape(job), job.operands.offset));
  if (job.lists.empty() && !options.lists.empty()) {
    return user_error(
        fmt::format("{} has no 'random' and no 'top': there are no lists for --lists", job.file.pattern.name));
  }
  for (const auto& list : job.lists) {
    job.operands.lists.push_back(Array(DType::i32, {list.extent.begin(), list.extent.end()}));
  }
  return done;
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

/// See launch_on.
Result<double> launch_backward_on(const std::shared_ptr<const cuda::Device>& device, const Kernel& kernel, Job& job,
                                  GradientOperands& gradients, const RunArgs& host, Views& views) {
  gradients.poison();
  WEFT_TRY(const auto forward, DeviceOperands::copy_in(device, job.operands));
  WEFT_TRY(auto copies, DeviceGradients::copy_in(device, gradients));
  auto args = copies.args(forward.args(host, views));
  args.lists = {};
  WEFT_TRY(const auto timer, cuda::Timer::make(device));
  WEFT_TRY(const double best, best_of([&]() -> Result<double> {
             WEFT_CHECK(copies.reset(gradients));
             WEFT_CHECK(timer.start(nullptr));
             WEFT_CHECK(kernel.run(args));
             return timer.stop(nullptr);
           }));
  WEFT_CHECK(copies.copy_out(gradients));
  return best;
}

/// The backward pass of what the forward left. Its choice of keys is not asked for: the check takes the forward's.
Result<double> launch_backward(const Kernel& kernel, Job& job, GradientOperands& gradients, const Options& options) {
  Views views;
  auto args = gradients.args(job.operands.args(options, views), job.operands);
  args.lists = {};
  if (const auto device = device_of(kernel)) return launch_backward_on(device, kernel, job, gradients, args, views);
  return best_of([&]() -> Result<double> {
    gradients.poison();
    const auto start = Clock::now();
    WEFT_CHECK(kernel.run(args));
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  });
}

/// Of the gradients at hand; where the check looks at some rows only, of those that a dO has which is 0 in the others.
Result<std::vector<GradientError>> check_backward(const Kernel& kernel, Job& job, const Comparison& forward,
                                                  const Options& options, const Console& console) {
  GradientOperands some;
  GradientOperands* checked = &*job.gradients;
  std::optional<std::vector<std::int64_t>> rows;
  if (forward.sampled) {
    rows = checked_rows(job.operands.shape(), options.seed.value_or(0)).rows;
    some = *job.gradients;
    some.keep_rows(*rows, job.operands);
    WEFT_TRY([[maybe_unused]] const double ms, launch_backward(kernel, job, some, options));
    checked = &some;
  }
  Views views;
  const auto args = checked->args(job.operands.args(options, views), job.operands);
  return compare_gradients(job.file.pattern, args, job.operands.q.dtype, forward, rows, console);
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
  return job.gradients ? write_gradients(*job.gradients, job.operands, options) : done;
}

void say_times(const char* what, const Kernel& kernel, const Console& console) {
  const auto& times = kernel.times();
  console.remark("{}planned in {:.2f} ms, emitted in {:.2f} ms, compiled in {:.1f} ms, loaded in {:.2f} ms", what,
                 times.plan_ms, times.emit_ms, times.compile_ms, times.load_ms);
}

/// For -v: where the time before the launches went, and what an emulated forward did.
Status say_more(const RunReport& ran, Operands& operands, const Options& options, const Console& console) {
  const auto& kernel = ran.forward.kernel;
  say_times("", kernel, console);
  if (ran.backward) say_times("gradients: ", ran.backward->kernel, console);
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

/// Both passes on the ranks of a ring.
Status run_ring_passes(Job& job, const std::vector<Pass>& passes, const RingOf& ring,
                       std::unique_ptr<Transport> transport, const Options& options, RunReport& report) {
  // What the other ranks of a job have of the outputs is nobody's, and takes no room as long as it is not touched.
  const bool has_outputs = !transport || transport->rank() == 0;
  if (has_outputs) job.operands.poison();
  Views views;
  RingPasses on_ranks{.forward = passes[0].kernel, .whole = job.operands.args(options, views)};
  if (passes.size() > 1) {
    if (has_outputs) job.gradients->poison();
    on_ranks.backward = &passes[1].kernel;
    on_ranks.gradients = job.gradients->args(on_ranks.whole, job.operands);
  }
  const auto timeout = options.ring_timeout.value_or(kRingTimeoutMs);
  WEFT_TRY(report.ring, transport ? run_in_ring(on_ranks, ring, timeout, std::move(transport))
                                  : run_on_ring(on_ranks, ring, timeout));
  report.forward.ms = report.ring->ms;
  return done;
}

/// Of gradients that came from a ring: are they what one device computes?
Status check_ring_gradients(const Kernel& kernel, Job& job, const Options& options) {
  auto alone = *job.gradients;
  WEFT_TRY([[maybe_unused]] const double ms, launch_backward(kernel, job, alone, options));
  for (const auto& [name, of_ring, of_one] : {std::tuple{"dq", &job.gradients->dq, &alone.dq},
                                              {"dk", &job.gradients->dk, &alone.dk},
                                              {"dv", &job.gradients->dv, &alone.dv}}) {
    if (of_ring->bytes != of_one->bytes)
      return internal_error(fmt::format("{} of the ring has not the bits of one device", name));
  }
  return done;
}

/// The forward, what it is checked by, and then the backward: of the forward's results.
Result<RunReport> run_passes(Job& job, const std::vector<Pass>& passes, const std::optional<RingOf>& ring,
                             std::unique_ptr<Transport> transport, const Options& options, const Console& console) {
  RunReport report{.forward = passes[0]};
  const Kernel& forward = passes[0].kernel;
  WEFT_CHECK([&]() -> Status {
    const Progress progress(console, fmt::format("running {}", job.file.pattern.name));
    if (ring) return run_ring_passes(job, passes, *ring, std::move(transport), options, report);
    WEFT_TRY(report.forward.ms, launch(forward, job.operands, options));
    return done;
  }());
  if (!report.has_results()) return report;
  if (options.check) {
    Views views;
    const auto args = job.operands.args(options, views);
    WEFT_TRY(report.check,
             compare_with_interpreter(job.file.pattern, args, job.operands.q.dtype, options.seed.value_or(0), console));
  }
  if (passes.size() == 1) return report;
  report.backward = passes[1];
  const Kernel* const backward = &passes[1].kernel;
  WEFT_TRY(report.backward->ms, [&]() -> Result<double> {
    if (ring) return report.ring->backward_ms;
    const Progress progress(console, fmt::format("running gradients of {}", job.file.pattern.name));
    return launch_backward(*backward, job, *job.gradients, options);
  }());
  if (ring && report.check) WEFT_CHECK(check_ring_gradients(*backward, job, options));
  if (report.check) {
    WEFT_TRY(report.gradients, check_backward(*backward, job, *report.check, options, console));
  }
  return report;
}

/// A kernel for the job's shape, and what launches need beside it.
Result<Pass> make_pass(const Engine& engine, const Job& job, CompileOptions compile, const Options& options,
                       const Console& console) {
  const Progress progress(console, fmt::format("compiling {}{} for {}", compile.gradient ? "gradients of " : "",
                                               job.file.pattern.name, compile.target));
  // Ranks of a ring have shapes of their own.
  if (options.ring.empty() && !is_empty(job.operands.shape())) compile.shape = run_shape(job);
  WEFT_TRY(auto kernel, engine.compile(job.file.source.text, compile));
  auto prepared = kernel.prepare(run_shape(job));
  // What is wrong with the tensors is the launch's to say, which knows their names.
  if (!prepared && (options.prepare || prepared.error().kind != ErrorKind::user)) return std::move(prepared).error();
  return Pass{.kernel = std::move(kernel), .prepared = prepared ? *prepared : BuildTimes()};
}

/// Results that are wrong are a defect of Weft.
int verdict(const RunReport& report, const Console& console) {
  if (!report.check) return kDone;
  if (!report.check->wrong_choice.empty()) {
    return console.fail(internal_error("the kernel chose wrong keys: " + report.check->wrong_choice));
  }
  if (!report.check->ok) return console.fail(internal_error("the kernel's result is outside its bound"));
  if (!report.gradients_ok()) return console.fail(internal_error("the kernel's gradients are outside their bounds"));
  return kDone;
}

}  // namespace

namespace {

int run(const Options& options, std::unique_ptr<Transport> transport, const Console& console) {
  if (const int status = refuse(options, console); status != kDone) return status;
  std::optional<Job> prepared;
  if (const int status = prepare(options, console, prepared); !prepared) return status;
  auto& job = *prepared;
  const auto ring = ring_of(options, job.file.pattern);
  if (!ring) return console.fail(ring.error());
  if (job.file.pattern.ring && !*ring)
    console.remark("{}: running on one device; --ring R splits the tokens over R ranks", job.file.pattern.name);
  if (const auto fits = check_fit(job); !fits) return console.fail(job.operands.with_files(fits.error()));
  if (const auto added = add_lse(job, options); !added) return console.fail(added.error());

  auto compile = compile_for(job);
  if (options.target.empty()) {
    const bool gpu = !*ring && has_usable_gpu();
    compile.target = gpu ? "cuda" : "cpu";
    console.remark("{}", gpu ? "running on GPU 0" : *ring ? "running on the CPU" : "no usable GPU: running on the CPU");
  }
  if (compile.target != "interpreter" && job.sizes.dtype == DType::f64) {
    return console.fail(doubles(job, compile.target));
  }
  remark_on_layout(job, console);
  auto sources = sources_of_kernels(options, console);
  if (!sources) return console.fail(sources.error());
  const Engine engine(std::move(*sources));
  std::vector<Pass> passes;
  for (const bool gradient : {false, true}) {
    if (gradient && !job.gradients) break;
    compile.gradient = gradient;
    auto made = make_pass(engine, job, compile, options, console);
    for (const auto& warning : engine.take_warnings()) console.warn("{}", warning);
    if (!made) return console.fail(made.error(), &job.file.source);
    passes.push_back(std::move(*made));
  }
  if (options.prepare) {
    print_prepared(job, passes, console);
    return kDone;
  }
  if (*ring) {
    // What is chosen is chosen alike on all ranks; nobody has the lists of all rows.
  } else if (auto added = add_lists(job, options, passes[0].kernel); !added) {
    return console.fail(added.error());
  }
  auto report = run_passes(job, passes, *ring, std::move(transport), options, console);
  if (!report) return console.fail(job.operands.with_files(report.error()));
  if (!report->has_results()) return kDone;
  if (auto written = write_outputs(job, options); !written) return console.fail(written.error());
  if (console.verbose()) {
    if (auto said = say_more(*report, job.operands, options, console); !said) return console.fail(said.error());
  }
  print_report(job, *report, options, console);
  return verdict(*report, console);
}

}  // namespace

int command_run(const Options& options, const Console& console) {
  return is_mpi_ring(options) ? run_in_job(options, console, run) : run(options, nullptr, console);
}

}  // namespace weft::tools
