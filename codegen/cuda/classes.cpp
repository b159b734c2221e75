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
  constant("kGroupRows", 32, "whose pairs with a block of keys may be decided at once");
  constant.flag("kKeepsMeets", false, "");
}

std::int64_t simt_bytes(const ir::Plan& plan) {
  const auto& c = plan.choices;
  const std::int64_t columns = c.depth * (c.tile_q + c.tile_k);
  const std::int64_t chunk = std::max(columns, c.staged * up(columns_summed(plan), 8 * column_warps(plan)));
  if (plan.bind.gradient) {
    constexpr std::int64_t kViews = 4 * 16 + 4 * 4;
    const int queries = plan.stationary() == ir::Stationary::key ? c.tile_k : c.tile_q;
    return up(4 * (32 * c.threads + 2 * chunk + c.threads / 32) + 8 * queries + 2 * 8 * c.tile_k + kViews, 16);
  }
  constexpr std::int64_t kViews = 3 * 16 + 16;
  return 4 * (32 * c.threads + 2 * chunk + c.tile_k + c.tile_q + 8 * c.threads + c.threads / 32) + 8 * c.tile_k +
         kViews;
}

// ---------------------------------------------------------------- matrix instructions

void mma_constants(Constants& constant, const ir::Plan& plan, const Target& target) {
  constant("kStages", plan.choices.stages, "blocks of keys that shared memory has room for");
  constant.flag("kByGroups", plan.choices.groups != 0, "four warps multiply together, of operands in shared memory");
  constant("kGroupRows", 16, "whose pairs with a block of keys may be decided at once");
  constant.flag("kKeepsMeets", true, "what rows say to a term waits for its next block of keys");
  constant.flag("kAsync", target.has_async_copy, "rows of K and V come to shared memory by themselves");
}

/// Of struct Meets.
std::int64_t meets_bytes(const ir::Plan& plan) {
  const auto& c = plan.choices;
  const int of_runs = plan.predicates.empty() ? 2 * 4 : c.tile_q + c.tile_k;
  const int of_values = compares_values(plan) ? 2 * c.tile_q + c.tile_k : 3 * 4;
  const std::int64_t groups = c.tile_q / 16, key_warps = (c.tile_k + 31) / 32;
  const bool asks = !plan.predicates.empty();
  const std::int64_t of_groups = 16 * (groups + (compares_values(plan) ? groups : 1)) +
                                 4 * (asks ? std::max<std::int64_t>(groups, 4) : 4) +
                                 16 * (key_warps + (asks ? key_warps : 1));
  return of_groups + 4 * (2 * c.tile_q + c.tile_k + of_runs + of_values);
}

std::int64_t mma_bytes(const ir::Plan& plan) {
  const auto& c = plan.choices;
  // See codegen/cuda/device/mma_rows.cuh.
  const auto rows_of = [&](std::int64_t columns, std::int64_t rows) {
    return rows * (up(columns, 16) * 2 + (c.groups != 0 ? 0 : 16));
  };
  const auto both = [&](std::int64_t rows) { return rows_of(plan.bind.d, rows) + rows_of(plan.bind.d_v, rows); };
  if (plan.bind.gradient) {
    const std::int64_t tiles = both(c.tile_q) + c.stages * both(c.tile_k);
    const std::int64_t wide = up(columns_summed(plan), 16);
    const auto out = [&](int parts) { return c.tile_q * (wide / parts + 8) * 4; };
    const int queries = plan.stationary() == ir::Stationary::key ? c.stages * c.tile_k : c.tile_q;
    return 2 * 32 + up(meets_bytes(plan), 16) + 8 * queries + 16 + std::max(tiles, out(out(1) > tiles ? 2 : 1));
  }
  const std::int64_t staged = rows_of(plan.bind.d, c.tile_q) + c.stages * both(c.tile_k);
  const auto results_in = [&](int parts) { return c.tile_q * (up(plan.bind.d_v, 16) / parts + 8) * 4; };
  const std::int64_t results = results_in(results_in(1) > staged ? 2 : 1);
  constexpr std::int64_t kSources = 2 * 32;
  return kSources + meets_bytes(plan) + std::max(staged, results);
}

const ClassTraits kClasses[] = {
    {ir::KernelClass::simt, "simt_", "f32 arithmetic on plain lanes", simt_constants, simt_bytes,
     /*tries=*/1,
     /*ahead=*/0,
     /*lists_pages=*/false},
    {ir::KernelClass::mma, "mma_", "products by matrix instructions, sums in f32", mma_constants, mma_bytes,
     /*tries=*/2,
     /*ahead=*/2,
     /*lists_pages=*/true},
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
