#include "tools/comparison.h"

#include "runtime/engine/chosen_lists.h"
#include "runtime/engine/front.h"
#include "runtime/engine/launch_checks.h"
#include "runtime/engine/reference.h"
#include "tools/progress.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <set>

namespace weft::tools {

namespace {

constexpr std::int64_t kMostPairs = std::int64_t{1} << 28;
constexpr std::int64_t kSampledRows = 64;

}  // namespace

CheckedRows checked_rows(const ir::Shape& shape, std::uint64_t seed) {
  const double pairs = static_cast<double>(shape.rows_computed()) * static_cast<double>(shape.n_k);
  CheckedRows out{.rows = {},
                  .sampled = pairs * static_cast<double>(shape.heads * shape.batch) > static_cast<double>(kMostPairs)};
  if (!out.sampled) {
    out.rows.resize(static_cast<std::size_t>(shape.rows_computed()));
    std::iota(out.rows.begin(), out.rows.end(), shape.row_begin);
    return out;
  }
  std::set<std::int64_t> drawn = {shape.row_begin, shape.row_end() - 1};
  std::mt19937_64 random(seed);
  while (std::ssize(drawn) < std::min(kSampledRows, shape.rows_computed())) {
    const auto row = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(shape.rows_computed()));
    drawn.insert(shape.row_begin + row);
  }
  out.rows.assign(drawn.begin(), drawn.end());
  return out;
}

double distance(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  const double d = std::fabs(a - b);
  return std::isfinite(d) ? d : std::numeric_limits<double>::infinity();
}

ir::Tensor values_of(const OutputView& view) {
  return to_f64(
      {.data = view.data, .dtype = view.dtype, .rank = view.rank, .extent = view.extent, .stride = view.stride});
}

namespace {

/// Keeps of many errors, each with a bound of its own, the one that is nearest to its bound or farthest beyond.
void keep_worse(double error, double bound, double& worst, double& its_bound) {
  const auto share = [](double of, double most) { return of == 0 ? 0 : of / most; };
  const double now = share(error, bound), before = share(worst, its_bound);
  if (now < before || (now == before && bound <= its_bound)) return;
  worst = error;
  its_bound = bound;
}

/// Row `row` of a against row `other` of b.
double row_error(const ir::Tensor& a, std::int64_t row, const ir::Tensor& b, std::int64_t other, std::int64_t batch,
                 std::int64_t h) {
  double most = 0;
  for (std::int64_t c = 0; c < a.shape[3]; ++c)
    most = std::max(most, distance(a.at(batch, row, h, c), b.at(batch, other, h, c)));
  return most;
}

/// Says where a tensor's first number lies that is NaN or infinite, and how many there are; nothing where none is.
void note_strange(const char* name, const ir::Tensor& tensor, std::vector<std::string>& notes) {
  const auto is_strange = [](double x) { return !std::isfinite(x); };
  const auto first = std::find_if(tensor.data.begin(), tensor.data.end(), is_strange);
  if (first == tensor.data.end()) return;
  auto left = std::distance(tensor.data.begin(), first);
  std::vector<std::int64_t> place(tensor.shape.size());
  for (std::size_t axis = place.size(); axis-- > 0; left /= tensor.shape[axis]) place[axis] = left % tensor.shape[axis];
  const auto count = std::count_if(first, tensor.data.end(), is_strange);
  const auto others = count == 1 ? std::string() : fmt::format(", the first of {} that are not finite", count);
  const double value = std::isnan(*first) ? std::numeric_limits<double>::quiet_NaN() : *first;
  notes.push_back(fmt::format("{}[{}] is {}{}", name, fmt::join(place, ", "), value, others));
}

}  // namespace

double largest(const ir::Tensor& tensor) {
  double most = 0;
  for (double value : tensor.data) {
    if (std::isfinite(value)) most = std::max(most, std::fabs(value));
  }
  return most;
}

Result<Comparison> compare_with_interpreter(const ir::Pattern& pattern, const RunArgs& args, DType dtype,
                                            std::uint64_t seed, const Console& console) {
  const LaunchContract contract{.pattern = pattern, .dtype = dtype, .any_float = true, .branch_lse = true};
  WEFT_TRY(const auto launch, check_launch(contract, args));
  const auto& shape = launch.shape;
  Comparison result;
  const auto [rows, sampled] = checked_rows(shape, seed);
  result.sampled = sampled;
  result.rows = std::ssize(rows);
  const Reference reference(pattern, launch, args);
  note_strange("Q", reference.q(), result.strange);
  note_strange("K", reference.k(), result.strange);
  note_strange("V", reference.v(), result.strange);
  const auto chosen = read_lists(pattern, launch);
  result.lists = chosen.size();
  for (const auto& keys : chosen) {
    if (result.wrong_choice.empty()) result.wrong_choice = reference.wrong_choice(keys, rows);
  }
  const auto out = values_of(args.out);
  const bool has_lse = args.lse.data != nullptr;
  const auto lse = has_lse ? values_of(args.lse) : ir::Tensor();
  const bool has_branches = args.branch_lse.data != nullptr;
  const auto of_branches = has_branches ? values_of(args.branch_lse) : ir::Tensor();
  const double max_v = largest(reference.v());
  Progress progress(console, "interpreting rows");
  const auto piece = std::max<std::size_t>(rows.size() / 32, 8);
  for (std::size_t begin = 0; begin < rows.size(); begin += piece) {
    const std::vector<std::int64_t> some(
        rows.begin() + static_cast<std::ptrdiff_t>(begin),
        rows.begin() + static_cast<std::ptrdiff_t>(std::min(begin + piece, rows.size())));
    WEFT_TRY(const auto expected, reference.rows(some, &chosen));
    if (result.clamped.count == 0) result.clamped.first = expected.clamped.first;
    result.clamped.count += expected.clamped.count;
    result.max_abs_score = std::max(result.max_abs_score, expected.max_abs_score);
    result.largest_sum = std::max(result.largest_sum, expected.largest_sum);
    const auto size_of = [&](std::size_t at) { return expected.score_sizes.data[at]; };
    const auto compare_lse = [&](double found, double right, double size) {
      const auto bound = ir::error_bounds(pattern, to_ir(dtype), shape.n_k, max_v, size).lse;
      keep_worse(distance(found, right), bound, result.lse_max_error, result.lse_bound);
    };
    const auto heads = shape.batch * shape.heads;
    const auto rows_found = static_cast<std::size_t>(heads * shape.rows_computed());
    for (std::int64_t head = 0; head < heads; ++head) {
      for (auto row : some) {
        const auto at = static_cast<std::size_t>(head * shape.n_q + row);
        const auto bounds =
            ir::error_bounds(pattern, to_ir(dtype), shape.n_k, max_v, size_of(at), expected.largest_sum);
        const auto found_row = row - shape.row_begin;
        const auto found = static_cast<std::size_t>(head * shape.rows_computed() + found_row);
        const double error = row_error(out, found_row, expected.o, row, head / shape.heads, head % shape.heads);
        keep_worse(error, bounds.o, result.max_error, result.bound);
        if (has_lse) compare_lse(lse.data[found], expected.lse.data[at], size_of(at));
        // A branch may hold what weighs nothing in the row: its own size is that of its LSE.
        const auto rows_of_whole = static_cast<std::size_t>(heads * shape.n_q);
        for (std::size_t i = 0; i * rows_found < of_branches.data.size(); ++i) {
          const double right = expected.branch_lse.data[i * rows_of_whole + at];
          const double own = std::isfinite(right) ? std::fabs(right) : 0;
          compare_lse(of_branches.data[i * rows_found + found], right, std::max(size_of(at), own));
        }
      }
    }
    progress.update(begin + some.size(), rows.size());
  }
  result.ok =
      result.wrong_choice.empty() && result.max_error <= result.bound && result.lse_max_error <= result.lse_bound;
  return result;
}

}  // namespace weft::tools
