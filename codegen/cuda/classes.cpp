#include "codegen/cuda/classes.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft::codegen::cuda {
namespace {

// ---------------------------------------------------------------- plain lanes

void simt_constants(Constants& constant, const ir::Plan& plan, const Target&) {
  // More columns than that a warp's registers do not hold.
  constant("kColumnWarps", plan.choices.threads / plan.choices.tile_q,
           "warps that share rows, each with columns of its own");
  constant("kDepth", plan.choices.depth, "columns of Q and K in a chunk");
  constant("kStaged", plan.choices.staged, "rows of V in a chunk");
  constant("kGroupRows", 32, "whose pairs with a block of keys may be decided at once");
  constant.flag("kKeepsMeets", false, "");
}

walk::BlockShape simt_shape(const walk::BlockShape& common, const ir::Choices& c) {
  return walk::on_plain_lanes(common, c.depth, c.staged);
}

// ---------------------------------------------------------------- matrix instructions

void mma_constants(Constants& constant, const ir::Plan& plan, const Target& target) {
  constant("kStages", plan.choices.stages, "blocks of keys that shared memory has room for");
  constant.flag("kByGroups", plan.choices.groups != 0, "four warps multiply together, of operands in shared memory");
  constant("kGroupRows", 16, "whose pairs with a block of keys may be decided at once");
  constant.flag("kKeepsMeets", true, "what rows say to a term waits for its next block of keys");
  constant.flag("kAsync", target.has_async_copy, "rows of K and V come to shared memory by themselves");
}

walk::BlockShape mma_shape(const walk::BlockShape& common, const ir::Choices& c) {
  return walk::by_matrices(common, c.stages, c.groups != 0);
}

const ClassTraits kClasses[] = {
    {ir::KernelClass::simt, "simt_", "f32 arithmetic on plain lanes", simt_constants, simt_shape,
     /*tries=*/1,
     /*ahead=*/0,
     /*lists_pages=*/false,
     /*always_cuts=*/false},
    {ir::KernelClass::mma, "mma_", "products by matrix instructions, sums in f32", mma_constants, mma_shape,
     /*tries=*/2,
     /*ahead=*/2,
     /*lists_pages=*/true,
     /*always_cuts=*/true},
};

}  // namespace

void Constants::operator()(const char* name, std::int64_t value, const char* what) {
  write(fmt::format("constexpr int {} = {};", name, value), what);
}

void Constants::flag(const char* name, bool value, const char* what) {
  if (value) return write(fmt::format("constexpr bool {} = true;", name), what);
  absent_.emplace_back(name);
}

void Constants::write_absent() {
  constexpr std::size_t kWidth = 100;
  std::string line = "constexpr bool";
  for (std::size_t i = 0; i < absent_.size(); ++i) {
    if (line.size() > kWidth) {
      w_.line("{}", line);
      line = std::string(14, ' ');
    }
    const bool last = i + 1 == absent_.size();
    line.append(" ").append(absent_[i]).append(last ? " = false;  // what this kernel does without" : " = false,");
  }
  if (!absent_.empty()) w_.line("{}", line);
  absent_.clear();
}

void Constants::write(const std::string& constant, const char* what) { w_.line("{:<36} // {}", constant, what); }

std::int64_t columns_summed(const ir::Plan& plan) {
  if (!plan.bind.gradient) return plan.bind.d_v;
  return plan.stationary() == ir::Stationary::query ? plan.bind.d : std::max(plan.bind.d, plan.bind.d_v);
}

const ClassTraits& traits_of(ir::KernelClass kernel_class) {
  return *std::find_if(std::begin(kClasses), std::end(kClasses) - 1,
                       [&](const ClassTraits& t) { return t.kernel_class == kernel_class; });
}

bool is_foreign(ir::KernelClass kernel_class, std::string_view header) {
  return std::any_of(std::begin(kClasses), std::end(kClasses), [&](const ClassTraits& t) {
    return t.kernel_class != kernel_class && header.starts_with(t.prefix);
  });
}

}  // namespace weft::codegen::cuda
