#include "runtime/engine/emulate_executor.h"

#include "runtime/engine/backends.h"
#include "runtime/engine/key_cut.h"
#include "runtime/engine/sizes_at.h"
#include "runtime/engine/steps.h"
#include "runtime/engine/stopwatch.h"
#include "runtime/engine/texts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <thread>

namespace weft {

namespace {

using Regions = std::vector<emulate::Region>;

/// The bytes from a view's first element to its last, whatever the signs of its strides.
template <typename Pointer>
void add_region(Regions& regions, std::string name, const View<Pointer>& view, bool writable) {
  if (view.data == nullptr) return;
  std::int64_t first = 0, last = 0;
  for (std::size_t axis = 0; axis < static_cast<std::size_t>(view.rank); ++axis) {
    const auto reach = (view.extent[axis] - 1) * view.stride[axis];
    (reach < 0 ? first : last) += reach;
  }
  const auto size = static_cast<std::int64_t>(size_of(view.dtype));
  regions.push_back({.begin = static_cast<const std::byte*>(view.data) + first * size,
                     .bytes = (last - first + 1) * size,
                     .writable = writable,
                     .name = std::move(name)});
}

template <typename T>
void add_region(Regions& regions, std::string name, const std::vector<T>& values, bool writable) {
  if (values.empty()) return;
  regions.push_back({.begin = values.data(),
                     .bytes = static_cast<std::int64_t>(values.size() * sizeof values[0]),
                     .writable = writable,
                     .name = std::move(name)});
}

/// All memory that the caller brings.
Regions caller_regions(const ir::Pattern& pattern, const Launch& launch, const RunArgs& args) {
  Regions regions;
  add_region(regions, "q", args.q, false);
  add_region(regions, "k", args.k, false);
  add_region(regions, "v", args.v, false);
  add_region(regions, "out", args.out, !launch.gradient);
  add_region(regions, "lse", args.lse, !launch.gradient);
  add_region(regions, "branch_lse", args.branch_lse, !launch.gradient);
  add_region(regions, "d_out", args.d_out, false);
  add_region(regions, "d_lse", args.d_lse, false);
  add_region(regions, "dq", args.dq, true);
  add_region(regions, "dk", args.dk, true);
  add_region(regions, "dv", args.dv, true);
  add_region(regions, "pages", args.pages, false);
  if (args.dropout_seed_at != nullptr) {
    regions.push_back({.begin = args.dropout_seed_at,
                       .bytes = sizeof *args.dropout_seed_at,
                       .writable = false,
                       .name = "dropout_seed_at"});
  }
  for (const auto& array : arrays_at(args.sizes_at)) {
    regions.push_back({.begin = array.data, .bytes = array.bytes, .writable = false, .name = array.name});
  }
  for (std::size_t i = 0; i < launch.inputs.size(); ++i) {
    add_region(regions, "input " + pattern.inputs[i].name, launch.inputs[i], false);
  }
  for (std::size_t i = 0; i < launch.d_inputs.size(); ++i) {
    add_region(regions, "the gradient of input " + pattern.inputs[i].name, launch.d_inputs[i], true);
  }
  return regions;
}

/// The caller's, and those that no caller wants.
void add_lists(Regions& regions, const Launch& launch, const std::vector<std::int32_t>& ours, bool writable) {
  add_region(regions, "lists", ours, writable);
  for (std::size_t i = 0; i < launch.lists.size(); ++i) {
    add_region(regions, fmt::format("list {}", i), launch.lists[i], writable);
  }
}

Result<std::shared_ptr<const emulate::Program>> build(const codegen::Source& source, bool count) {
  return emulate::Program::build(source.text, source.symbol, {.count = count, .further = source.further()});
}

/// Which kernel of its text a step runs.
std::size_t number_of(ir::Step::Kernel kernel, const codegen::Names& names) {
  const auto further = names.further();
  const auto at = std::find(further.begin(), further.end(), names.of(kernel));
  return at == further.end() ? 0 : static_cast<std::size_t>(at - further.begin()) + 1;
}

Status faultless(const emulate::Report& report, const std::string& name) {
  if (report.faults.empty()) return done;
  auto error = internal_error(fmt::format("the CUDA text of {} is wrong: {}", name, report.faults.front().text));
  for (std::size_t i = 1; i < report.faults.size(); ++i) error.notes.push_back(report.faults[i].text);
  return error;
}

}  // namespace

Result<EmulateExecutor::Program> EmulateExecutor::load(ir::Regime regime) const {
  WEFT_TRY(const auto* const program,
           programs_[static_cast<std::size_t>(regime)].get([&] { return weft::build(kernel_.source(regime), false); }));
  return *program;
}

Result<std::unique_ptr<const EmulateExecutor>> EmulateExecutor::make(const Compilation& kernel,
                                                                     const codegen::Source& source) {
  std::unique_ptr<EmulateExecutor> executor(new EmulateExecutor(kernel));
  executor->workers_ = std::make_shared<const Workers>(1);
  WEFT_CHECK(executor->programs_.front().get([&] { return weft::build(source, false); }));
  return std::unique_ptr<const EmulateExecutor>(std::move(executor));
}

Result<std::unique_ptr<const EmulateExecutor>> EmulateExecutor::make(const Compilation& kernel,
                                                                     const std::vector<ir::Regime>& texts,
                                                                     std::shared_ptr<const Workers> workers,
                                                                     BuildTimes& times) {
  std::unique_ptr<EmulateExecutor> executor(new EmulateExecutor(kernel));
  executor->workers_ = std::move(workers);
  WEFT_CHECK(executor->load_all(texts, &times));
  return std::unique_ptr<const EmulateExecutor>(std::move(executor));
}

Status EmulateExecutor::load_all(const std::vector<ir::Regime>& texts, BuildTimes* times) const {
  return make_texts(*workers_, texts, times, [&](ir::Regime text, BuildTimes& took) -> Status {
    const bool is_new = programs_[static_cast<std::size_t>(text)].find() == nullptr;
    const Stopwatch compiling;
    WEFT_CHECK(load(text));
    if (is_new) took.compile_ms = compiling.ms();
    return done;
  });
}

Result<std::size_t> EmulateExecutor::workspace(const ir::Shape&, int) const { return std::size_t{0}; }

Result<BuildTimes> EmulateExecutor::prepare(const ir::Shape& shape, bool sizes_at) const {
  WEFT_CHECK(check_shape(shape, sizes_at));
  BuildTimes times;
  WEFT_TRY(const auto texts, texts_of_shape(kernel_, shape, sizes_at));
  WEFT_CHECK(load_all(texts, &times));
  return times;
}

Status EmulateExecutor::run(const Launch& launch, const RunArgs& args) const {
  WEFT_TRY(const auto reports, run_on([&](ir::Regime regime) { return load(regime); }, launch, args));
  return done;
}

Result<std::vector<emulate::Report>> EmulateExecutor::run_counted(const Launch& launch, const RunArgs& args) const {
  return run_on([&](ir::Regime regime) { return weft::build(kernel_.source(regime), true); }, launch, args);
}

Result<std::vector<emulate::Report>> EmulateExecutor::run_on(const Load& load, const Launch& launch,
                                                             const RunArgs& args) const {
  WEFT_CHECK(check_shape(launch.shape, launch.sizes_in_memory));
  WEFT_TRY(const auto tables, kernel_.tables(launch.shape.heads));
  const bool together = launch.sizes_in_memory || launch.sequences.size() > 1;
  Job job{.kernel = kernel_, .tables = *tables, .launch = launch, .args = args, .together = together};
  const auto regimes = regimes_for(job);
  WEFT_TRY(job.beside, tables_beside(kernel_, launch.shape.heads, regimes));
  WEFT_TRY(const auto sizes, room_for(kernel_.plan, launch, together));
  const auto entries = static_cast<std::size_t>(launch.shape.batch);
  std::vector<std::int64_t> offsets(together || args.offset.size() > 1 ? entries : 0), chunks(2 * entries);
  std::vector<std::int64_t> of_entries(together ? 2 * entries : 0);
  std::vector<float> carry(sizes.carry / sizeof(float)), list_scratch(sizes.list_scratch / sizeof(float));
  std::vector<float> terms(sizes.terms / sizeof(float));
  std::vector<std::int64_t> input_sums(sizes.input_sums / sizeof(std::int64_t));
  std::vector<std::int32_t> lists(sizes.lists / sizeof(std::int32_t));
  auto beside_lists = caller_regions(kernel_.pattern, launch, args);
  if (launch.cut != nullptr) {
    const auto rows = launch.shape.batch * launch.shape.heads * launch.shape.rows_computed();
    const auto floats = rows * launch.cut->slots * floats_of_state(kernel_.plan);
    beside_lists.push_back({.begin = launch.cut->states,
                            .bytes = floats * static_cast<std::int64_t>(sizeof(float)),
                            .writable = true,
                            .name = "states of chunks"});
  }
  add_region(beside_lists, "carried state", carry, true);
  add_region(beside_lists, "tables", tables->tables.words, false);
  for (const auto& of_regime : job.beside) {
    if (of_regime) add_region(beside_lists, "tables of a further plan", of_regime->tables.words, false);
  }
  add_region(beside_lists, "sums of inputs' gradients", input_sums, true);
  add_region(beside_lists, "terms of queries", terms, true);
  auto finding = beside_lists;
  const auto add_sizes = [&](Regions& to, bool writable) {
    add_region(to, "offsets", offsets, writable);
    add_region(to, "chunks of keys", chunks, writable);
    add_region(to, "sizes of sequences", of_entries, writable);
  };
  add_sizes(finding, true);
  add_sizes(beside_lists, false);
  auto choosing = beside_lists, attending = beside_lists;
  add_lists(choosing, launch, lists, true);
  add_region(choosing, "scratch of the lists", list_scratch, true);
  add_lists(attending, launch, lists, false);

  const auto cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  std::vector<std::size_t> first_report(ir::kRegimes);  // of each regime's phases
  std::size_t phases = 0;
  for (const auto regime : ir::regimes_of(kernel_.plan)) {
    if (ir::is_of_few(regime)) continue;  // they report as the first plan's phases
    first_report[static_cast<std::size_t>(regime)] = phases;
    phases += ir::plan_of(kernel_.plan, regime).phases.size();
  }
  std::vector<emulate::Report> reports(phases);
  // Before anything is written: what the launch runs may yet have to be compiled.
  std::array<Program, ir::kRegimes> programs;
  for (const auto regime : regimes) {
    WEFT_TRY(programs[static_cast<std::size_t>(regime)], load(regime));
  }
  const auto run = [&](const Turn& turn) -> Status {
    const ir::Step& step = turn.step;
    const bool chooses = step.kernel == ir::Step::Kernel::prepass;
    const auto regime = step.text;
    const cuda::Grid grid = grid_of(turn);
    WEFT_TRY(auto report, programs[static_cast<std::size_t>(regime)]->launch(
                              {.kernel = number_of(step.kernel, kernel_.source(regime)),
                               .blocks = grid.blocks,
                               .threads = grid.threads,
                               .shared_bytes = grid.shared_bytes,
                               .args = turn.args,
                               .args_bytes = sizeof *turn.args,
                               .memory = chooses                                  ? choosing
                                         : step.kernel == ir::Step::Kernel::sizes ? finding
                                                                                  : attending,
                               .workers = args.threads > 0 ? args.threads : cores}));
    WEFT_CHECK(faultless(report, kernel_.plan.name));
    if (!chooses && step.when != ir::Step::When::sizes_in_memory)
      reports[first_report[static_cast<std::size_t>(regime)] + turn.number()] += report;
    return done;
  };
  const auto copy = [](std::int64_t* to, const std::int64_t* from, std::size_t bytes) -> Status {
    std::memcpy(to, from, bytes);
    return done;
  };
  const auto clear = [](const Rectangle& zeros) -> Status {
    for (std::size_t i = 0; i < zeros.height; ++i)
      std::memset(static_cast<std::byte*>(zeros.begin) + i * zeros.pitch, 0, zeros.width);
    return done;
  };
  const auto fetch = [](void* to, const void* from, std::size_t bytes) -> Status {
    std::memcpy(to, from, bytes);
    return done;
  };
  std::array<const std::int64_t*, ir::kRegimes> beside_words = {};
  for (std::size_t i = 0; i < job.beside.size(); ++i)
    beside_words[i] = job.beside[i] ? job.beside[i]->tables.words.data() : nullptr;
  const Room room{.tables = tables->tables.words.data(),
                  .beside = beside_words,
                  .offsets = offsets.data(),
                  .chunks = chunks.data(),
                  .entries = of_entries.data(),
                  .carry = reinterpret_cast<std::byte*>(carry.data()),
                  .lists = lists.data(),
                  .list_scratch = list_scratch.data(),
                  .terms = terms.data(),
                  .input_sums = reinterpret_cast<std::byte*>(input_sums.data())};
  WEFT_CHECK(run_steps(job, room, {.run = run, .copy = copy, .clear = clear, .fetch = fetch}));
  return reports;
}

Result<std::vector<emulate::Report>> count_emulated(const Kernel& kernel, const RunArgs& args) {
  const auto& state = kernel.state();
  const auto* const executor = dynamic_cast<const EmulateExecutor*>(state.executor.get());
  if (executor == nullptr) return user_error("only emulated kernels are counted");
  WEFT_TRY(const auto launch, check_launch(contract_of(state), args));
  return executor->run_counted(launch, args);
}

Status load_emulated(Kernel::State& kernel, const Loading& with) {
  WEFT_TRY(kernel.executor, EmulateExecutor::make(kernel, kernel.texts, with.workers, kernel.binary.times));
  kernel.resolved = "emulate:" + kernel.target.name;
  return done;
}

}  // namespace weft
