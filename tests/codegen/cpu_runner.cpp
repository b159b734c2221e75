#include "tests/codegen/cpu_runner.h"

#include "codegen/cpu/emit.h"
#include "compiler/planner/planner.h"
#include "runtime/cpu/run.h"
#include "runtime/llvm/compile.h"
#include "runtime/object/loaded_object.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>

namespace weft::testing {
namespace {

struct AlignedFree {
  void operator()(void* p) const { std::free(p); }
};

Result<std::shared_ptr<const object::LoadedObject>> compile_once(const std::string& text, const Target& target) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<const object::LoadedObject>> loaded;
  const std::lock_guard lock(mutex);
  auto& entry = loaded[target.name + "\n" + text];
  if (!entry) {
    WEFT_TRY(const auto library, llvm::Library::open());
    WEFT_TRY(const std::string bytes, llvm::compile(*library, text, target));
    WEFT_TRY(entry, object::LoadedObject::load(bytes, "test kernel"));
  }
  return entry;
}

}  // namespace

Result<CpuKernel> CpuKernel::make(const ir::Pattern& pattern, const ir::Bind& bind, const Target& target) {
  WEFT_TRY(const ir::Plan plan, planner::plan(pattern, bind, target));
  return make(plan, target);
}

Result<CpuKernel> CpuKernel::make(const ir::Plan& plan, const Target& target) {
  CpuKernel out;
  out.plan_ = plan;
  for (const auto regime : ir::regimes_of(plan)) WEFT_CHECK(out.add(codegen::cpu::emit(plan, target, regime), target));
  return out;
}

Status CpuKernel::add(const codegen::Source& source, const Target& target) {
  WEFT_TRY(const auto object, compile_once(source.text, target));
  const auto describe = reinterpret_cast<void (*)(codegen::cpu::MicroKernels*)>(object->symbol(source.symbol));
  if (describe == nullptr) return internal_error("the kernel has no entry");
  describe(&kernels_);
  objects_.push_back(object);
  return done;
}

Result<ir::Outcome> CpuKernel::run(const ir::Shape& shape, const ir::Tensor& q, const ir::Tensor& k,
                                   const ir::Tensor& v, const std::vector<ir::Tensor>& inputs,
                                   const RunOptions& options) const {
  WEFT_TRY(Arguments arguments, Arguments::make(plan_, shape, q, k, v, inputs, options.layout));
  if (options.deny_all) arguments.deny_all();
  const auto size = static_cast<std::size_t>(codegen::cpu::scratch_bytes(kernels_.at, arguments.most_terms()));
  const std::unique_ptr<void, AlignedFree> scratch(std::aligned_alloc(64, size));
  // No number, and as an address nowhere: what is read before it was written shows.
  std::fill_n(static_cast<std::uint32_t*>(scratch.get()), size / 4, std::uint32_t{0x7FC0BEEF});
  arguments.args.scratch = scratch.get();
  WEFT_CHECK(arguments.each_call(options.tiles_per_call, [&](const weft_args& args) {
    cpu::run(kernels_, args);
    return Status(done);
  }));
  return arguments.outcome();
}

}  // namespace weft::testing
