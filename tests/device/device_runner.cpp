#include "tests/device/device_runner.h"

#include "codegen/cuda/emit.h"
#include "compiler/planner/planner.h"
#include "runtime/cuda/memory.h"
#include "runtime/engine/destination.h"
#include "runtime/nvrtc/compile.h"
#include "runtime/nvrtc/search.h"

#include <cstring>

namespace weft::testing {
namespace {

/// A span of the host and its copy on the device.
struct Copy {
  Span span;
  cuda::Buffer buffer;
};

Result<std::vector<Copy>> upload(const std::shared_ptr<const cuda::Device>& device, const std::vector<Span>& spans) {
  std::vector<Copy> copies;
  for (const Span& span : spans) {
    WEFT_TRY(auto buffer, cuda::Buffer::upload(device, span.begin, static_cast<std::size_t>(span.bytes)));
    copies.push_back({.span = span, .buffer = std::move(buffer)});
  }
  return copies;
}

/// The argument block is words of eight bytes: each that points into a span points into its copy instead.
weft_args on_device(weft_args args, const std::vector<Copy>& copies) {
  std::uint64_t words[sizeof args / sizeof(std::uint64_t)];
  std::memcpy(words, &args, sizeof args);
  for (auto& word : words) {
    for (const auto& [span, buffer] : copies) {
      const auto begin = reinterpret_cast<std::uint64_t>(span.begin);
      if (word < begin || word >= begin + static_cast<std::uint64_t>(span.bytes)) continue;
      word = reinterpret_cast<std::uint64_t>(buffer.data()) + (word - begin);
      break;
    }
  }
  std::memcpy(&args, words, sizeof args);
  return args;
}

}  // namespace

Result<Target> device_row() {
  WEFT_TRY(const auto destination, find_destination("cuda"));
  return destination.target;
}

Result<DeviceKernel> DeviceKernel::make(const ir::Pattern& pattern, const ir::Bind& bind, const Target& target) {
  DeviceKernel out;
  WEFT_TRY(out.plan_, planner::plan(pattern, bind, target));
  out.target_ = target;
  WEFT_CHECK(out.module(ir::Regime::many_queries));
  return out;
}

Result<std::shared_ptr<const cuda::Module>> DeviceKernel::module(ir::Regime regime) const {
  auto& known = modules_[static_cast<std::size_t>(regime)];
  if (known) return known;
  const auto source = codegen::cuda::emit(plan_, target_, regime);
  WEFT_TRY(const auto library, nvrtc::locate(target_));
  WEFT_TRY(const auto binary, nvrtc::compile(*library, source.text, target_, {.pattern = plan_.name}));
  WEFT_TRY(auto driver, cuda::Driver::open());
  WEFT_TRY(auto device, cuda::Device::open(std::move(driver), 0));
  WEFT_TRY(known, cuda::Module::load(std::move(device), binary.cubin, source.symbol, plan_.name));
  return known;
}

Result<ir::Outcome> DeviceKernel::run(const ir::Shape& shape, const ir::Tensor& q, const ir::Tensor& k,
                                      const ir::Tensor& v, const std::vector<ir::Tensor>& inputs,
                                      const RunOptions& options) const {
  WEFT_TRY(Arguments arguments, Arguments::make(plan_, shape, q, k, v, inputs, options.layout));
  WEFT_TRY(const auto module, this->module(arguments.regime()));
  WEFT_TRY(const auto copies, upload(module->device(), arguments.spans()));
  const auto shared = codegen::cuda::shared_memory(plan_, arguments.regime()).with_terms(arguments.most_terms());
  WEFT_CHECK(module->allow_shared(shared));
  WEFT_TRY(const auto current, cuda::Current::make(*module->device()));
  WEFT_CHECK(arguments.each_call(options.tiles_per_call, [&](const weft_args& args) -> Status {
    auto block = on_device(args, copies);
    const auto blocks = args.tile_end - args.tile_begin;
    if (blocks == 0) return done;
    return module->launch({.blocks = blocks, .threads = arguments.threads(), .shared_bytes = shared}, &block, nullptr);
  }));
  for (const auto& [span, buffer] : copies) {
    // Copying waits for the launches, so that their faults show here.
    if (span.writable) WEFT_CHECK(buffer.copy_out(const_cast<void*>(span.begin), static_cast<std::size_t>(span.bytes)));
  }
  return arguments.outcome();
}

}  // namespace weft::testing
