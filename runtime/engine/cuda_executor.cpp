#include "runtime/engine/cuda_executor.h"

#include "runtime/engine/sizes_at.h"
#include "runtime/engine/texts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

namespace weft {

namespace {

constexpr std::size_t kAlignment = 256;

std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

/// The workspace: one offset per batch entry, how its keys are cut and its own sizes, the state of rows between steps,
/// the lists, what the prepass needs, the terms of queries, and the sums of inputs' gradients.
std::size_t entry_bytes(std::int64_t batch) {
  return aligned(static_cast<std::size_t>(batch) * 5 * sizeof(std::int64_t));
}

std::size_t bytes_of(const RoomSizes& sizes) {
  return aligned(sizes.carry) + aligned(sizes.lists) + aligned(sizes.list_scratch) + aligned(sizes.terms) +
         sizes.input_sums;
}

}  // namespace

CudaExecutor::CudaExecutor(const Compilation& kernel, std::shared_ptr<const cuda::Device> device,
                           std::shared_ptr<const Workers> workers, Load load)
    : GpuExecutor(kernel), device_(std::move(device)), workers_(std::move(workers)), load_(std::move(load)) {}

void CudaExecutor::take(ir::Regime text, Modules modules) {
  const auto known =
      modules_[static_cast<std::size_t>(text)].get([&]() -> Result<Modules> { return std::move(modules); });
  static_cast<void>(known);
}

const cuda::Module& CudaExecutor::module(ir::Regime text, ir::Step::Kernel kernel) const {
  return *(*modules_[static_cast<std::size_t>(text)].find())[static_cast<std::size_t>(kernel)];
}

Result<CudaExecutor::Ready> CudaExecutor::allow_shared(ir::Regime text, const HeadTables& tables,
                                                       std::int64_t heads) const {
  const std::int64_t shared = shared_memory(text).with_terms(tables.tables.most_terms);
  const std::int64_t most = kernel_.target.shared_per_block;
  if (shared > most) {
    return user_error(fmt::format("{} with {} heads needs {} bytes of shared memory a block; {} has {}",
                                  kernel_.plan.name, heads, shared, kernel_.target.name, most));
  }
  const Modules& modules = *modules_[static_cast<std::size_t>(text)].find();
  for (std::size_t i = 0; i < modules.size(); ++i) {
    if (modules[i] && has_tiles(static_cast<ir::Step::Kernel>(i))) WEFT_CHECK(modules[i]->allow_shared(shared));
  }
  return Ready();
}

Result<std::shared_ptr<const cuda::Buffer>> CudaExecutor::words_of(ir::Regime text, const HeadTables& tables,
                                                                   std::int64_t heads) const {
  const auto owner = ir::tables_of(kernel_.plan, text);
  return words_[static_cast<std::size_t>(owner)].get(heads, [&] {
    const auto& words = tables.tables.words;
    return cuda::Buffer::upload(device(), words.data(), words.size() * sizeof words[0]);
  });
}

Status CudaExecutor::make_ready(const std::vector<ir::Regime>& texts, std::int64_t heads, BuildTimes* times) const {
  std::vector<ir::Regime> missing;
  std::copy_if(texts.begin(), texts.end(), std::back_inserter(missing),
               [&](ir::Regime text) { return modules_[static_cast<std::size_t>(text)].find() == nullptr; });
  const auto load = [&](ir::Regime text, BuildTimes& took) -> Status {
    WEFT_CHECK(modules_[static_cast<std::size_t>(text)].get([&] { return load_(text, took); }));
    return done;
  };
  WEFT_CHECK(make_texts(*workers_, missing, times, load));
  for (const auto text : texts) {
    WEFT_TRY(const auto tables, kernel_.tables(heads, text));
    WEFT_CHECK(ready_[static_cast<std::size_t>(text)].get(heads, [&] { return allow_shared(text, *tables, heads); }));
    WEFT_CHECK(words_of(text, *tables, heads));
  }
  return done;
}

Result<BuildTimes> CudaExecutor::prepare(const ir::Shape& shape, bool sizes_at) const {
  WEFT_TRY(const auto current, cuda::Current::make(*device()));
  WEFT_CHECK(check_shape(shape, sizes_at));
  BuildTimes times;
  WEFT_TRY(const auto texts, texts_of_shape(kernel_, shape, sizes_at));
  WEFT_CHECK(make_ready(texts, shape.heads, &times));
  return times;
}

Result<std::size_t> CudaExecutor::workspace(const ir::Shape& shape, int) const {
  WEFT_TRY(const auto sizes, most_room_for(kernel_.plan, shape));
  const auto bytes = bytes_of(sizes);
  if (bytes == 0 && shape.batch <= 1 && !kernel_.plan.may_read_sizes()) return std::size_t{0};
  return entry_bytes(shape.batch) + bytes + kAlignment;  // the caller's buffer may start anywhere
}

bool CudaExecutor::knows(const std::vector<ir::Regime>& texts, std::int64_t heads) const {
  return std::all_of(texts.begin(), texts.end(), [&](ir::Regime text) {
    return ready_[static_cast<std::size_t>(text)].has(heads) &&
           words_[static_cast<std::size_t>(ir::tables_of(kernel_.plan, text))].has(heads);
  });
}

/// A pointer that the GPU cannot follow would end the whole context.
Status CudaExecutor::check_pointers(const Launch& launch, const RunArgs& args) const {
  const auto check = [&](const std::string& name, const void* data) -> Status {
    if (data == nullptr) return done;
    WEFT_TRY(const auto problem, cuda::pointer_problem(*device(), data));
    return problem.empty() ? Status(done) : user_error(fmt::format("{} {}", name, problem));
  };
  WEFT_CHECK(check("q", args.q.data));
  WEFT_CHECK(check("k", args.k.data));
  WEFT_CHECK(check("v", args.v.data));
  WEFT_CHECK(check("out", args.out.data));
  WEFT_CHECK(check("lse", args.lse.data));
  WEFT_CHECK(check("d_out", args.d_out.data));
  WEFT_CHECK(check("d_lse", args.d_lse.data));
  WEFT_CHECK(check("dq", args.dq.data));
  WEFT_CHECK(check("dk", args.dk.data));
  WEFT_CHECK(check("dv", args.dv.data));
  WEFT_CHECK(check("branch_lse", args.branch_lse.data));
  WEFT_CHECK(check("pages", args.pages.data));
  WEFT_CHECK(check("dropout_seed_at", args.dropout_seed_at));
  WEFT_CHECK(check("the workspace", args.workspace.data()));
  for (const auto& array : arrays_at(args.sizes_at)) WEFT_CHECK(check(array.name, array.data));
  for (std::size_t i = 0; i < launch.lists.size(); ++i) {
    WEFT_CHECK(check(fmt::format("list {}", i), launch.lists[i].data));
  }
  for (std::size_t i = 0; i < launch.inputs.size(); ++i) {
    WEFT_CHECK(check(fmt::format("input '{}'", kernel_.pattern.inputs[i].name), launch.inputs[i].data));
  }
  for (std::size_t i = 0; i < launch.d_inputs.size(); ++i) {
    WEFT_CHECK(
        check(fmt::format("the gradient of input '{}'", kernel_.pattern.inputs[i].name), launch.d_inputs[i].data));
  }
  return done;
}

Status CudaExecutor::run(const Launch& launch, const RunArgs& args) const {
  WEFT_TRY(const auto current, cuda::Current::make(*device()));
  WEFT_CHECK(check_pointers(launch, args));
  WEFT_CHECK(check_shape(launch.shape, launch.sizes_in_memory));
  auto* const stream = static_cast<cuda::StreamHandle*>(args.stream);
  WEFT_TRY(const bool captured, cuda::is_captured(*device(), stream));
  WEFT_TRY(const auto tables, kernel_.tables(launch.shape.heads));
  // What a graph replays may not read memory of the host: sequences whose sizes stand there are launches of their own,
  // with sizes as arguments.
  const bool together = launch.sizes_in_memory || (!captured && launch.sequences.size() > 1);
  WEFT_TRY(const auto sizes, room_for(kernel_.plan, launch, together));
  Job job{
      .kernel = kernel_, .tables = *tables, .launch = launch, .args = args, .captured = captured, .together = together};
  const auto texts = regimes_for(job);
  const bool known = knows(texts, launch.shape.heads);
  if (captured && !known) {
    return user_error(
        fmt::format("the stream is captured into a graph, and kernels or tables for {} heads are not on the GPU yet: "
                    "run it once, or call prepare(), with this shape{} before the capture",
                    launch.shape.heads, launch.sizes_in_memory ? " and its sizes_at" : ""));
  }
  WEFT_TRY(job.beside, tables_beside(kernel_, launch.shape.heads, texts));
  if (!known) WEFT_CHECK(make_ready(texts, launch.shape.heads));
  Room room;
  for (const auto text : texts) {
    const auto& own = job.beside[static_cast<std::size_t>(text)];
    WEFT_TRY(const auto words, words_of(text, own ? *own : *tables, launch.shape.heads));
    // This executor keeps them.
    (own ? room.beside[static_cast<std::size_t>(text)] : room.tables) = static_cast<const std::int64_t*>(words->data());
  }
  if (bytes_of(sizes) == 0 && args.offset.size() <= 1 && !together) return queue(job, room, sizes, nullptr);
  const auto bytes = entry_bytes(launch.shape.batch) + bytes_of(sizes);
  if (captured && args.workspace.empty()) {
    return user_error(
        fmt::format("the stream is captured into a graph: give a workspace of {} bytes that lives as long "
                    "as the graph does, because the engine's own serves other launches meanwhile",
                    bytes + kAlignment));
  }
  if (!args.workspace.empty()) {
    WEFT_TRY(auto* const scratch, in_workspace(args.workspace, bytes, kAlignment));
    return queue(job, room, sizes, scratch);
  }
  WEFT_TRY(auto pooled, pool_.take(device(), stream, bytes));
  auto queued = queue(job, room, sizes, static_cast<std::byte*>(pooled.data()));
  pool_.give_back(stream, std::move(pooled));
  return queued;
}

Status CudaExecutor::queue(const Job& job, Room room, const RoomSizes& sizes, std::byte* scratch) const {
  auto* const stream = static_cast<cuda::StreamHandle*>(job.args.stream);
  if (scratch != nullptr) {
    room.entries = reinterpret_cast<std::int64_t*>(scratch);  // read 16 bytes at a time
    room.offsets = room.entries + 2 * job.launch.shape.batch;
    room.chunks = room.offsets + job.launch.shape.batch;
    room.carry = scratch + entry_bytes(job.launch.shape.batch);
    std::byte* const lists = room.carry + aligned(sizes.carry);
    room.lists = reinterpret_cast<std::int32_t*>(lists);
    room.list_scratch = lists + aligned(sizes.lists);
    std::byte* const terms = lists + aligned(sizes.lists) + aligned(sizes.list_scratch);
    room.terms = reinterpret_cast<float*>(terms);
    room.input_sums = terms + aligned(sizes.terms);
  }
  const auto run = [&](const Turn& turn) -> Status {
    return module(turn.step.text, turn.step.kernel).launch(grid_of(turn), turn.args, stream);
  };
  const auto copy = [&](std::int64_t* to, const std::int64_t* from, std::size_t bytes) -> Status {
    if (job.captured) {
      std::vector<std::uint32_t> halves(bytes / sizeof(std::uint32_t));
      std::memcpy(halves.data(), from, bytes);
      return cuda::queue_words(*device(), to, halves.data(), halves.size(), stream);
    }
    WEFT_CUDA(device()->driver(), cuMemcpyHtoDAsync_v2,
              (reinterpret_cast<cuda::DeviceAddress>(to), from, bytes, stream));
    return done;
  };
  const auto clear = [&](const Rectangle& zeros) -> Status {
    const auto to = reinterpret_cast<cuda::DeviceAddress>(zeros.begin);
    if (device()->driver().functions().cuMemsetD2D8Async != nullptr) {
      WEFT_CUDA(device()->driver(), cuMemsetD2D8Async, (to, zeros.pitch, 0, zeros.width, zeros.height, stream));
      return done;
    }
    const std::vector<std::byte> row(zeros.width);
    for (std::size_t i = 0; i < zeros.height; ++i)
      WEFT_CUDA(device()->driver(), cuMemcpyHtoDAsync_v2, (to + i * zeros.pitch, row.data(), row.size(), stream));
    return done;
  };
  const auto fetch = [&](void* to, const void* from, std::size_t bytes) -> Status {
    WEFT_CUDA(device()->driver(), cuStreamSynchronize, (stream));
    if (bytes == 0) return done;
    WEFT_CUDA(device()->driver(), cuMemcpyDtoH_v2, (to, reinterpret_cast<cuda::DeviceAddress>(from), bytes));
    return done;
  };
  return run_steps(job, room, {.run = run, .copy = copy, .clear = clear, .fetch = fetch});
}

std::shared_ptr<const cuda::Device> device_of(const Kernel& kernel) {
  const auto* const executor = dynamic_cast<const CudaExecutor*>(kernel.state().executor.get());
  return executor == nullptr ? nullptr : executor->device();
}

}  // namespace weft
