#include "codegen/cuda/classes.h"

#include "codegen/cuda/conditions.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace weft::codegen::cuda {
namespace {

std::int64_t up(std::int64_t n, std::int64_t step) { return (n + step - 1) / step * step; }

// ---------------------------------------------------------------- plain lanes

/// Warps that share rows: more columns than that a warp's registers do not hold.
std::int64_t column_warps(const ir::Plan& plan) { return plan.choices.threads / plan.choices.tile_q; }

void simt_constants(Constants& constant, const ir::Plan& plan, const Target&) {
  constant("kColumnWarps", column_warps(plan), "warps that share rows, each with columns of its own");
  constant("kDepth", plan.choices.depth, "columns of Q and K in a chunk");
  constant("kStaged", plan.choices.staged, "rows of V in a chunk");
}

std::int64_t simt_keys(const ir::Plan& plan) { return plan.choices.tile_k + plan.choices.threads; }

std::int64_t simt_bytes(const ir::Plan& plan) {
  const auto& c = plan.choices;
  constexpr std::int64_t kViews = 4 * (16 + 4), kScale = 16;  // padded
  const std::int64_t columns = c.depth * (c.tile_q + c.tile_k);
  const std::int64_t chunk = std::max(columns, c.staged * up(plan.bind.d_v, 8 * column_warps(plan)));
  return 4 * (32 * c.threads + 2 * chunk + c.tile_k + c.tile_q + 8 * c.threads + c.threads / 4) + 8 * c.tile_k +
         kViews + kScale;
}

// ---------------------------------------------------------------- matrix instructions

/// Digits of the number of branches that may keep a pair; 0 where that is one at most.
int digits(const ir::Plan& plan) {
  std::size_t most = 0;
  for (const auto& phase : plan.phases) {
    for (const auto& pass : phase.passes) most = std::max(most, pass.branches.size());
  }
  return most > 1 ? static_cast<int>(std::bit_width(most)) : 0;
}

void mma_constants(Constants& constant, const ir::Plan& plan, const Target& target) {
  constant.flag("kAsync", target.has_async_copy, "rows of K and V come to shared memory by themselves");
  constant.flag("kCounts", digits(plan) > 0, "several branches may keep a pair");
  constant("kDigits", digits(plan), "of how many those are, in base 2");
}

std::int64_t mma_keys(const ir::Plan& plan) {
  const auto& c = plan.choices;
  const int tries = plan.predicates.empty() ? 2 : 1;
  return up(tries * c.threads, c.tile_k) + 3 * c.tile_k;
}

/// Of struct Meets.
std::int64_t meets_bytes(const ir::Plan& plan) {
  const auto& c = plan.choices;
  const int of_runs = plan.predicates.empty() ? 2 * 4 : c.tile_q + c.tile_k;
  const int of_values = compares_values(plan) ? 2 * c.tile_q + c.tile_k : 3 * 4;
  return 4 * (2 * c.tile_q + c.tile_k + of_runs + of_values);
}

std::int64_t mma_bytes(const ir::Plan& plan) {
  const auto& c = plan.choices;
  const std::int64_t row = up(plan.bind.d, 16) * 2 + 16, value = up(plan.bind.d_v, 16) * 2 + 16;
  const std::int64_t staged = (c.tile_q + c.tile_k) * row + c.tile_k * value;
  const auto results_in = [&](int parts) { return c.tile_q * (up(plan.bind.d_v, 16) / parts + 8) * 4; };
  const std::int64_t results = results_in(results_in(1) > staged ? 2 : 1);
  constexpr std::int64_t kFacts = 48 + 2 * 32;  // of the walk and the sources
  return kFacts + meets_bytes(plan) + std::max(staged, results) + 8 * (plan.bind.paged ? mma_keys(plan) : 4);
}

const ClassTraits kClasses[] = {
    {ir::KernelClass::simt,
     "f32 arithmetic on plain lanes",
     {"simt_memory.cuh", "lanes.cuh", "mask.cuh", "stage.cuh", "simt.cuh", "dropout.cuh", "results.cuh", "attend.cuh"},
     simt_constants,
     simt_keys,
     simt_bytes},
    {ir::KernelClass::mma,
     "products by matrix instructions, sums in f32",
     {"ptx_mma.cuh", "mma_memory.cuh", "mma_views.cuh", "mma_keys.cuh", "mma_mask.cuh", "mma.cuh", "mma_pairs.cuh",
      "mma_dropout.cuh", "mma_results.cuh", "mma_attend.cuh"},
     mma_constants,
     mma_keys,
     mma_bytes},
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

const ClassTraits& traits_of(ir::KernelClass kernel_class) {
  return *std::find_if(std::begin(kClasses), std::end(kClasses) - 1,
                       [&](const ClassTraits& t) { return t.kernel_class == kernel_class; });
}

bool is_foreign(ir::KernelClass kernel_class, std::string_view header) {
  return std::any_of(std::begin(kClasses), std::end(kClasses), [&](const ClassTraits& t) {
    return t.kernel_class != kernel_class && std::find(t.headers.begin(), t.headers.end(), header) != t.headers.end();
  });
}

}  // namespace weft::codegen::cuda
