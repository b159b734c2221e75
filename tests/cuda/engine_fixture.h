#pragma once

#include "fixture.h"
#include "runtime/cuda/memory.h"
#include "runtime/emulate/program.h"
#include "runtime/engine/arguments.h"
#include "runtime/engine/cuda_executor.h"
#include "runtime/nvrtc/search.h"
#include "tests/engine/problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

/// Kernels through the engine on the stand-in, whose launches run on the emulator.
namespace weft::test {

/// q, k, v, out and lse of a problem in the memory of the stand-in.
struct OnDevice {
  cuda::Buffer q, k, v, out, lse;

  OnDevice(const std::shared_ptr<const cuda::Device>& device, const Problem& problem) {
    const auto upload = [&](const std::vector<float>& values) {
      return cuda::Buffer::upload(device, values.data(), values.size() * sizeof(float)).value();
    };
    q = upload(problem.q);
    k = upload(problem.k);
    v = upload(problem.v);
    out = upload(problem.out);
    lse = upload(problem.lse);
  }
  RunArgs args(Problem& problem) const {
    auto args = problem.args();
    args.q.data = q.data();
    args.k.data = k.data();
    args.v.data = v.data();
    args.out.data = out.data();
    args.lse.data = lse.data();
    return args;
  }
  void fetch(Problem& problem) const {
    ASSERT_TRUE(out.copy_out(problem.out.data(), problem.out.size() * sizeof(float)).ok());
    ASSERT_TRUE(lse.copy_out(problem.lse.data(), problem.lse.size() * sizeof(float)).ok());
  }
};

class CudaEngine : public WithStandIn {
 protected:
  void SetUp() override {
    const auto target = find_target("sm_61");
    if (!nvrtc::locate(*target)) GTEST_SKIP() << "no NVRTC here knows sm_61; ./dev setup brings one";
  }

  EngineOptions options() const { return {.cache_dir = folder_ + "/store"}; }
  static CompileOptions f32(std::string target = "cuda", std::int64_t dim = 32) {
    return {.dim = dim, .dtype = DType::f32, .target = std::move(target)};
  }
  static Kernel compile(const Engine& engine, const std::string& text, const CompileOptions& options) {
    auto kernel = engine.compile(text, options);
    if (!kernel) throw std::runtime_error(kernel.error().message);
    return *kernel;
  }

  /// From here on launches compute.
  void emulate(const Kernel& kernel) {
    const auto& state = kernel.state();
    const bool has_few = ir::has_few_queries(state.plan);
    emulate(state.source().text, has_few ? state.source(ir::Regime::few_queries).text : std::string());
  }
  void emulate(const std::string& text, const std::string& of_few) {
    driver().on_launch = [this, text, of_few](const Launched& launched) {
      const auto& image = driver().image_of.at(launched.function);
      const bool few = image.find("weft_sizes") != std::string::npos || image.find("weft_merge") != std::string::npos;
      compute(launched, few ? of_few : text);
    };
  }
  void compute(const Launched& launched, const std::string& text) {
    emulate::Options options;
    std::vector<std::string>& further = options.further;
    for (const auto* symbol : {"weft_prepass", "weft_merge", "weft_sizes"}) {
      if (text.find(fmt::format(" {}(", symbol)) != std::string::npos) further.emplace_back(symbol);
    }
    const auto program = emulate::Program::build(text, "weft_kernel", options);  // which remembers it
    ASSERT_TRUE(program.ok()) << program.error().message;
    const auto symbol = driver().functions.at(launched.function);
    const auto at = std::find(further.begin(), further.end(), symbol);
    emulate::Launch launch{.kernel = at == further.end() ? 0 : static_cast<std::size_t>(at - further.begin()) + 1,
                           .blocks = launched.grid[0],
                           .threads = static_cast<int>(launched.block[0]),
                           .shared_bytes = launched.shared_bytes,
                           .args = &launched.args,
                           .args_bytes = sizeof launched.args};
    launch.memory = regions(launched.args, symbol);
    const auto report = (*program)->launch(launch);
    ASSERT_TRUE(report.ok()) << report.error().message;
    for (const auto& fault : report->faults) ADD_FAILURE() << fault.text;
  }

  /// Every allocation: what results and carried state lie in may be written, all else only read. A prepass writes the
  /// lists and its scratch, which stand behind the carried state; sizes come to a workspace.
  std::vector<emulate::Region> regions(const weft_args& args, std::string_view symbol) {
    const bool prepass = symbol == "weft_prepass";
    const auto address_of = [](const void* data) { return reinterpret_cast<std::uint64_t>(data); };
    std::vector<emulate::Region> out;
    const auto add = [&](std::uint64_t begin, std::uint64_t end, bool writable) {
      if (begin == end) return;
      out.push_back({.begin = reinterpret_cast<const void*>(begin),
                     .bytes = static_cast<std::int64_t>(end - begin),
                     .writable = writable,
                     .name = writable ? "results" : "operands"});
    };
    // Of slices row 0 and head 0 are not there: by what the launch computes first.
    const auto head = args.tiles_per_head > 0 ? args.tile_begin / args.tiles_per_head * args.heads_per_tile : 0;
    const auto b = head / args.heads, h = head % args.heads;
    const auto first = [&](const weft_view& view) -> const void* {
      const auto at = b * view.stride_b + args.row_begin * view.stride_n + h * view.stride_h;
      return view.data == nullptr ? nullptr : static_cast<const float*>(view.data) + at;
    };
    const float* const lse =
        args.lse == nullptr ? nullptr : args.lse + b * args.lse_stride_b + h * args.lse_stride_h + args.row_begin;
    for (const auto& [begin, bytes] : driver().memory) {
      const auto end = begin + bytes;
      const auto lies_here = [&, from = begin](const void* data) {
        return address_of(data) >= from && address_of(data) < end;
      };
      if (symbol == "weft_sizes") {
        add(begin, end, lies_here(args.entries));
        continue;
      }
      // Where heads take turns with chunks, `carry` is where head 0 would have its state, which is not at hand.
      std::vector<const void*> operands = {first(args.q), args.k.data,  args.v.data, first(args.o),
                                           lse,           args.offsets, args.tables, args.carry};
      for (const auto& input : args.inputs) operands.push_back(input.data);
      if (args.chunks > 1 && std::none_of(operands.begin(), operands.end(), lies_here)) {
        add(begin, end, true);
        continue;
      }
      // A workspace holds offsets, which are read, before the carried state, and lists after it, then their scratch.
      const auto middle = lies_here(args.carry) ? address_of(args.carry) : end;
      auto lists = prepass && lies_here(args.scratch) ? address_of(args.scratch) : end;
      for (const auto& list : args.lists) {
        if (lies_here(list.data)) lists = std::min(lists, address_of(list.data));
      }
      add(begin, std::min(middle, lists),
          !prepass && (lies_here(first(args.o)) || lies_here(lse) || lies_here(args.branch_lse)));
      add(middle, std::max(middle, lists), !prepass);
      add(lists, end, prepass);
    }
    return out;
  }

  /// Runs it once, computing.
  void expect_meaning(const Kernel& kernel, const std::string& text, Problem problem) {
    const OnDevice memory(device_of(kernel), problem);
    emulate(kernel);
    const auto status = kernel.run(memory.args(problem));
    ASSERT_TRUE(status.ok()) << status.error().message;
    memory.fetch(problem);
    expect_meaning(text, problem);
    driver().on_launch = nullptr;
  }

  void expect_meaning(const std::string& text, Problem& problem, std::span<const std::int64_t> offset = {}) {
    Problem expected = problem;
    const Engine engine({.no_cache = true});
    auto args = expected.args();
    args.offset = offset;
    const auto status = compile(engine, text, f32("interpreter", problem.dim)).run(args);
    ASSERT_TRUE(status.ok()) << status.error().message;
    EXPECT_LT(largest_difference(problem.out, expected.out), 2e-5);
    EXPECT_LT(largest_difference(problem.lse, expected.lse), 2e-5);
  }

  std::vector<std::string> names_of_calls() {
    std::vector<std::string> names;
    for (const auto& call : driver().calls) names.push_back(call.name);
    return names;
  }
};

}  // namespace weft::test
