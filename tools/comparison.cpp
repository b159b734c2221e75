#include "tools/comparison.h"

#include "runtime/engine/chosen_lists.h"
#include "runtime/engine/front.h"
#include "runtime/engine/launch_checks.h"
#include "runtime/engine/reference.h"

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

std::vector<std::int64_t> rows_to_check(const ir::Shape& shape, std::uint64_t seed, bool sampled) {
  std::vector<std::int64_t> rows;
  if (!sampled) {
    rows.resize(static_cast<std::size_t>(shape.n_q));
    std::iota(rows.begin(), rows.end(), 0);
    return rows;
  }
  std::set<std::int64_t> drawn = {0, shape.n_q - 1};
  std::mt19937_64 random(seed);
  while (std::ssize(drawn) < std::min(kSampledRows, shape.n_q)) {
    drawn.insert(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(shape.n_q)));
  }
  return {drawn.begin(), drawn.end()};
}

/// Distance that no bound admits where a NaN or an unequal infinity is involved.
double distance(double a, double b) {
  if (a == b) return 0;
  const double d = std::fabs(a - b);
  return std::isfinite(d) ? d : std::numeric_limits<double>::infinity();
}

/// Values of a strided output, by index.
class Values {
 public:
  explicit Values(const OutputView& view)
      : tensor_(to_f64({.data = view.data,
                        .dtype = view.dtype,
                        .rank = view.rank,
                        .extent = view.extent,
                        .stride = view.stride})) {}
  const ir::Tensor& tensor() const { return tensor_; }

 private:
  ir::Tensor tensor_;
};

double row_error(const ir::Tensor& a, const ir::Tensor& b, const ir::Shape& shape, std::int64_t row) {
  double most = 0;
  for (std::int64_t batch = 0; batch < shape.batch; ++batch) {
    for (std::int64_t h = 0; h < shape.heads; ++h) {
      for (std::int64_t c = 0; c < shape.d_v; ++c)
        most = std::max(most, distance(a.at(batch, row, h, c), b.at(batch, row, h, c)));
    }
  }
  return most;
}

double row_lse_error(const ir::Tensor& a, const ir::Tensor& b, const ir::Shape& shape, std::int64_t row) {
  double most = 0;
  for (std::int64_t head = 0; head < shape.batch * shape.heads; ++head) {
    const auto at = static_cast<std::size_t>(head * shape.n_q + row);
    most = std::max(most, distance(a.data[at], b.data[at]));
  }
  return most;
}

double largest(const ir::Tensor& tensor) {
  double most = 0;
  for (double value : tensor.data) {
    if (std::isfinite(value)) most = std::max(most, std::fabs(value));
  }
  return most;
}

}  // namespace

Result<Comparison> compare_with_interpreter(const ir::Pattern& pattern, const RunArgs& args, DType dtype,
                                            std::uint64_t seed, const Console& console) {
  const LaunchContract contract{.pattern = pattern, .dtype = dtype, .any_float = true, .branch_lse = true};
  WEFT_TRY(const auto launch, check_launch(contract, args));
  const auto& shape = launch.shape;
  Comparison result;
  result.sampled =
      static_cast<double>(shape.n_q) * static_cast<double>(shape.n_k) * static_cast<double>(shape.heads * shape.batch) >
      static_cast<double>(kMostPairs);
  const auto rows = rows_to_check(shape, seed, result.sampled);
  result.rows = std::ssize(rows);
  const Reference reference(pattern, launch, args);
  const auto chosen = read_lists(pattern, launch);
  result.lists = chosen.size();
  for (const auto& keys : chosen) {
    if (result.wrong_choice.empty()) result.wrong_choice = reference.wrong_choice(keys, rows);
  }
  const auto out = Values(args.out);
  const bool has_lse = args.lse.data != nullptr;
  const auto lse = has_lse ? Values(args.lse).tensor() : ir::Tensor();
  double max_score = 0;
  Progress progress(console, "interpreting rows");
  const auto piece = std::max<std::size_t>(rows.size() / 32, 8);
  for (std::size_t begin = 0; begin < rows.size(); begin += piece) {
    const std::vector<std::int64_t> some(
        rows.begin() + static_cast<std::ptrdiff_t>(begin),
        rows.begin() + static_cast<std::ptrdiff_t>(std::min(begin + piece, rows.size())));
    WEFT_TRY(const auto expected, reference.rows(some, &chosen));
    max_score = std::max(max_score, expected.max_abs_score);
    for (auto row : some) {
      result.max_error = std::max(result.max_error, row_error(out.tensor(), expected.o, shape, row));
      if (has_lse) result.lse_max_error = std::max(result.lse_max_error, row_lse_error(lse, expected.lse, shape, row));
    }
    progress.update(begin + some.size(), rows.size());
  }
  const auto bounds = ir::error_bounds(pattern, to_ir(dtype), shape.n_k, largest(to_f64(args.v)), max_score);
  result.bound = bounds.o;
  result.lse_bound = has_lse ? bounds.lse : 0;
  result.ok = result.wrong_choice.empty() && result.max_error <= result.bound &&
              result.lse_max_error <= (has_lse ? bounds.lse : 0);
  return result;
}

}  // namespace weft::tools
