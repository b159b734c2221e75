/// What a launch on a GPU costs the host, beside what it may: against a driver that does nothing, so that all of it is
/// Weft's own. Needs NVRTC and no GPU.

#include "runtime/cuda/memory.h"
#include "runtime/engine/cuda_executor.h"
#include "tests/cuda/stand_in/stand_in.h"

#include <weft/c.h>
#include <weft/weft.h>

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <vector>

namespace weft::bench {
namespace {

constexpr double kBar = 5;  ///< µs, the median launch
constexpr std::int64_t kTokens = 1000, kHeads = 4, kDim = 64;

constexpr const char* kText =
    "pattern longnet { branches dilated(segments: [256, 512, 1024], rates: [1, 2, 4]); keep causal; }\n"
    "pattern phases { branches dilated(segments: [512, 4096], rates: [8, 7]); keep causal; }\n"
    "pattern lengths { input t: i32[batch]; keep causal & lengths(t); }\n"
    "pattern documents { input t: i32[batch, tokens]; keep causal & document(t); }\n"
    "pattern top { keep blocks(64, top(4, by: pooled, causal: true)); }\n";

/// One row: how long it takes, over repetitions of a hundred, and what it calls.
struct Case {
  std::string name, pattern;
  std::int64_t batch = 1;
  bool lse = false, offsets = false, workspace = false, in_c = false;
};

const Case kCases[] = {
    {.name = "one softmax", .pattern = "longnet"},
    {.name = "with the LSE", .pattern = "longnet", .lse = true},
    {.name = "by the C interface", .pattern = "longnet", .lse = true, .in_c = true},
    {.name = "an input", .pattern = "lengths", .batch = 8},
    {.name = "an offset for each of 8", .pattern = "longnet", .batch = 8, .offsets = true},
    {.name = "… in a given workspace", .pattern = "longnet", .batch = 8, .offsets = true, .workspace = true},
    {.name = "two phases, their state", .pattern = "phases"},
    {.name = "summaries, a prepass", .pattern = "documents"},
    {.name = "chosen lists, a prepass", .pattern = "top"},
};

class Driver {
 public:
  Driver() {
    ::setenv("WEFT_CUDA_DRIVER", WEFT_STAND_IN, 1);
    void* const library = dlopen(WEFT_STAND_IN, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) std::abort();
    driver_ = reinterpret_cast<test::StandIn* (*)()>(dlsym(library, "weft_stand_in"))();
  }
  void record(bool on) {
    driver_->forget();
    driver_->records = on;
  }
  /// `cuLaunchKernel`, and the others: how often each was called.
  std::map<std::string, int> calls() const {
    std::map<std::string, int> out;
    for (const auto& call : driver_->calls) ++out[call.name];
    return out;
  }

 private:
  test::StandIn* driver_ = nullptr;
};

/// The tensors of a launch in the driver's memory.
class Problem {
 public:
  Problem(const Kernel& kernel, const Case& of) : kernel_(kernel), case_(of) {
    const auto rows = static_cast<std::size_t>(of.batch * kTokens * kHeads);
    const std::initializer_list<std::int64_t> extents = {of.batch, kTokens, kHeads, kDim};
    const std::size_t bytes = rows * kDim * 2;
    for (auto* view : {&args.q, &args.k, &args.v}) *view = dense_view(memory(bytes), DType::f16, extents);
    args.out = dense_output(memory(bytes), DType::f16, extents);
    if (of.lse) args.lse = dense_output(memory(rows * sizeof(float)), DType::f32, {of.batch, kHeads, kTokens});
    if (of.offsets) {
      offsets_.assign(static_cast<std::size_t>(of.batch), 0);
      args.offset = offsets_;
    }
    add_inputs();
    if (of.workspace) {
      const auto wanted =
          kernel.workspace({.batch = of.batch, .n_q = kTokens, .n_k = kTokens, .heads = kHeads, .kv_heads = kHeads}, 0);
      if (!wanted) std::abort();
      args.workspace = {static_cast<std::byte*>(memory(*wanted)), *wanted};
    }
  }

  Status launch() const { return kernel_.run(args); }

  RunArgs args;

 private:
  void* memory(std::size_t bytes) {
    const std::vector<std::byte> zeros(bytes);
    memory_.push_back(cuda::Buffer::upload(device_of(kernel_), zeros.data(), bytes).value());
    return memory_.back().data();
  }
  void add_inputs() {
    const auto add = [&](std::int64_t count, std::initializer_list<std::int64_t> extents) {
      const auto bytes = static_cast<std::size_t>(count) * sizeof(std::int32_t);
      inputs_.push_back({"t", dense_view(memory(bytes), DType::i32, extents)});
      args.inputs = inputs_;
    };
    if (case_.pattern == "documents") add(case_.batch * kTokens, {case_.batch, kTokens});
    if (case_.pattern == "lengths") add(case_.batch, {case_.batch});
  }

  const Kernel& kernel_;
  const Case& case_;
  std::vector<cuda::Buffer> memory_;
  std::vector<NamedInput> inputs_;
  std::vector<std::int64_t> offsets_;
};

weft_tensor tensor(const auto& view, weft_dtype dtype) {
  weft_tensor out = {};
  out.data = const_cast<void*>(static_cast<const void*>(view.data));
  out.dtype = view.data == nullptr ? WEFT_DTYPE_OPEN : dtype;
  out.rank = view.rank;
  std::copy(view.extent.begin(), view.extent.end(), out.extent);
  std::copy(view.stride.begin(), view.stride.end(), out.stride);
  return out;
}

/// The same launch by the C interface.
class InC {
 public:
  InC(const Case& of, const RunArgs& args) {
    weft_engine_options engine_options = weft_engine_options_init();
    weft_compile_options options = weft_compile_options_init();
    engine_options.no_cache = 1;
    options.pattern = of.pattern.c_str();
    options.dim = kDim;
    options.dtype = WEFT_F16;
    options.target = "cuda";
    weft_error* error = weft_engine_create(&engine_options, &engine_);
    if (error == nullptr) error = weft_compile(engine_, kText, std::strlen(kText), &options, &kernel_);
    if (error != nullptr) std::abort();
    args_.q = tensor(args.q, WEFT_F16);
    args_.k = tensor(args.k, WEFT_F16);
    args_.v = tensor(args.v, WEFT_F16);
    args_.out = tensor(args.out, WEFT_F16);
    args_.lse = tensor(args.lse, WEFT_F32);
  }
  InC(const InC&) = delete;
  InC& operator=(const InC&) = delete;
  ~InC() {
    weft_kernel_destroy(kernel_);
    weft_engine_destroy(engine_);
  }
  Status launch() const {
    weft_error* const error = weft_run(kernel_, &args_);
    if (error == nullptr) return done;
    std::string message = weft_error_message(error);
    weft_error_free(error);
    return internal_error(std::move(message));
  }

 private:
  weft_engine* engine_ = nullptr;
  weft_kernel* kernel_ = nullptr;
  weft_run_args args_ = weft_run_args_init();
};

Result<std::vector<double>> microseconds(const std::function<Status()>& launch) {
  using Clock = std::chrono::steady_clock;
  constexpr int kTimes = 300, kEach = 100;
  std::vector<double> out;
  for (int i = 0; i < kTimes; ++i) {
    const auto start = Clock::now();
    for (int k = 0; k < kEach; ++k) WEFT_CHECK(launch());
    out.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count() / kEach);
  }
  std::sort(out.begin(), out.end());
  return out;
}

Result<bool> measure(const Engine& engine, Driver& driver, const Case& one) {
  WEFT_TRY(const auto kernel,
           engine.compile(kText, {.pattern = one.pattern, .dim = kDim, .dtype = DType::f16, .target = "cuda"}));
  const Problem problem(kernel, one);
  std::function<Status()> launch = [&] { return problem.launch(); };
  std::unique_ptr<const InC> in_c;
  if (one.in_c) {
    in_c = std::make_unique<const InC>(one, problem.args);
    launch = [&] { return in_c->launch(); };
  }
  WEFT_CHECK(launch());
  driver.record(true);
  WEFT_CHECK(launch());
  auto calls = driver.calls();
  driver.record(false);
  WEFT_TRY(const auto times, microseconds(launch));
  const int launches = std::exchange(calls["cuLaunchKernel"], 0);
  int others = 0;
  for (const auto& [name, count] : calls) others += count;
  const double median = times[times.size() / 2];
  const bool kept = median <= kBar * launches;
  fmt::print("{:<26} {:>9} {:>12} {:>8.2f} {:>8.2f} {:>8.2f}{}\n", one.name, launches, others, median,
             times[times.size() * 99 / 100], times.back(), kept ? "" : "  not kept");
  return kept;
}

Result<bool> run() {
  Driver driver;
  const Engine engine({.no_cache = true});
  fmt::print("{:<26} {:>9} {:>12} {:>8} {:>8} {:>8}   limit: p50 < {:.0f} a kernel\n", "us", "kernels", "other calls",
             "p50", "p99", "most", kBar);
  bool all_kept = true;
  for (const Case& one : kCases) {
    WEFT_TRY(const bool kept, measure(engine, driver, one));
    all_kept = all_kept && kept;
  }
  return all_kept;
}

}  // namespace
}  // namespace weft::bench

int main() {
  const auto kept = weft::bench::run();
  if (kept) return *kept ? 0 : 1;
  fmt::print(stderr, "{}\n", kept.error().message);
  return 3;
}
