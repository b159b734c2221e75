#include "tests/ir/gradient_check.h"

#include "compiler/ir/chosen_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace weft::ir {
namespace {

std::vector<std::int64_t> all_rows(const Shape& shape) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(shape.n_q));
  std::iota(rows.begin(), rows.end(), std::int64_t{0});
  return rows;
}

std::vector<ChosenKeys> choices(const TestProblem& p) {
  std::vector<ChosenKeys> out;
  for (const auto& set : chosen_sets(p.pattern)) {
    std::int64_t first = 0, last = -1;
    for (std::int64_t b = 0; b < p.shape.batch; ++b) {
      const std::int64_t offset = p.shape.offset_of(b);
      const std::int64_t low = floor_div(offset, set.block), high = floor_div(offset + p.shape.n_q - 1, set.block);
      first = b == 0 ? low : std::min(first, low);
      last = b == 0 ? high : std::max(last, high);
    }
    const std::int64_t blocks = (p.shape.n_k + set.block - 1) / set.block;
    ChosenKeys keys{.of = set,
                    .first_row = first,
                    .extent = {p.shape.batch, p.shape.heads, last - first + 1, std::min(set.set->args[0], blocks)}};
    choose_keys(p.pattern, p.shape, p.inputs, p.q, p.k, keys);
    out.push_back(std::move(keys));
  }
  return out;
}

/// What gradients are of, as a function of the tensors.
class Loss {
 public:
  explicit Loss(const GradientProblem& problem) : problem_(problem), chosen_(choices(problem.of)) {
    if (problem.of.pattern.combine == Combine::joint_detached) middle_ = outcome(problem.of);
  }

  double at(const TestProblem& p) const {
    const Outcome out = outcome(p);
    const bool mixed = p.pattern.combine == Combine::joint_detached;
    return (mixed ? sum_of_mix(p) : sum(problem_.d_o, out.o)) +
           (has_lse(p.pattern) ? sum(problem_.d_lse, out.lse.data.empty() ? out.branch_lse : out.lse) : 0);
  }

 private:
  Outcome outcome(const TestProblem& p) const {
    auto out = interpret_rows(p.pattern, p.shape, p.q, p.k, p.v, p.inputs, all_rows(p.shape), &chosen_);
    EXPECT_TRUE(out.ok());
    return std::move(out).value();
  }

  static double sum(const Tensor& a, const Tensor& b) {
    double out = 0;
    for (std::size_t i = 0; i < a.data.size(); ++i) out += std::isinf(b.data[i]) ? 0 : a.data[i] * b.data[i];
    return out;
  }

  /// Each branch's output alone, times what it weighed in the middle.
  double sum_of_mix(const TestProblem& p) const {
    const Shape& s = p.shape;
    double out = 0;
    for (std::size_t i = 0; i < p.pattern.branches.size(); ++i) {
      TestProblem one = p;
      one.pattern.combine = Combine::joint;
      one.pattern.branches = {p.pattern.branches[i]};
      one.pattern.sink_logit = nullptr;
      Tensor weighed = outcome(one).o;
      for (std::int64_t row = 0; row < s.batch * s.n_q * s.heads; ++row) {
        const std::int64_t b = row / s.heads / s.n_q, q = row / s.heads % s.n_q, h = row % s.heads;
        const auto at = static_cast<std::size_t>((b * s.heads + h) * s.n_q + q);
        const double whole = middle_.lse.data[at], part = middle_.branch_lse.data[i * middle_.lse.data.size() + at];
        const double weight = std::isinf(part) ? 0 : std::exp(part - whole);
        for (std::int64_t x = 0; x < s.d_v; ++x) weighed.at(b, q, h, x) *= weight;
      }
      out += sum(problem_.d_o, weighed);
    }
    return out;
  }

  const GradientProblem& problem_;
  std::vector<ChosenKeys> chosen_;
  Outcome middle_ = {};
};

class Check {
 public:
  Check(const GradientProblem& problem, std::uint64_t seed)
      : problem_(problem), loss_(problem), moved_(problem.of), middle_(loss_.at(problem.of)), random_(seed) {}

  Checked run(const Gradients& found) {
    along("dQ", moved_.q, found.dq);
    along("dK", moved_.k, found.dk);
    along("dV", moved_.v, found.dv);
    for (std::size_t i = 0; i < found.inputs.size(); ++i) {
      if (!found.inputs[i].shape.empty()) along("dinput", moved_.inputs[i], found.inputs[i]);
    }
    return std::move(out_);
  }

 private:
  void along(const char* name, Tensor& tensor, const Tensor& found) {
    if (tensor.data.size() != found.data.size()) out_.wrong = fmt::format("{} has another size", name);
    if (tensor.data.empty() || !out_.wrong.empty()) return;
    for (int i = 0; i < 4; ++i) {
      std::vector<double> direction(tensor.data.size());
      if (i < 2) {
        for (auto& x : direction) x = random_.normal();
      } else {
        direction[random_.next() % direction.size()] = 1;
      }
      ask(name, tensor, found, direction);
    }
  }

  double moved(Tensor& tensor, const std::vector<double>& direction, double step) {
    const std::vector<double> before = tensor.data;
    for (std::size_t i = 0; i < direction.size(); ++i) tensor.data[i] += step * direction[i];
    const double out = loss_.at(moved_);
    tensor.data = before;
    return out;
  }

  /// Richardson's: the error of a smooth function falls with the fourth power of the step.
  void ask(const char* name, Tensor& tensor, const Tensor& found, const std::vector<double>& direction) {
    constexpr double kStep = 1e-4;
    const double up = moved(tensor, direction, kStep), down = moved(tensor, direction, -kStep);
    const double further = moved(tensor, direction, 2 * kStep) - moved(tensor, direction, -2 * kStep);
    const double right = (up - middle_) / kStep, left = (middle_ - down) / kStep, wide = further / (4 * kStep);
    const double meant = (4 * (right + left) / 2 - wide) / 3;
    const double got = std::inner_product(direction.begin(), direction.end(), found.data.begin(), 0.0);
    const double size = std::max({1.0, std::fabs(meant), std::fabs(middle_)});
    if (!(std::fabs(right - left) <= 1e-2 * size && std::fabs(wide - (right + left) / 2) <= 1e-5 * size)) {
      ++out_.lost;
      return;
    }
    ++out_.asked;
    const double off = std::fabs(got - meant) / (kAllowed * size);
    if (!(off <= 1) && out_.wrong.empty()) out_.wrong = fmt::format("{}: {}, differences say {}", name, got, meant);
    out_.worst = std::max(out_.worst, off);
  }

  static constexpr double kAllowed = 1e-6;
  const GradientProblem& problem_;
  Loss loss_;
  TestProblem moved_;
  double middle_;
  test::RandomNumbers random_;
  Checked out_ = {};
};

}  // namespace

GradientProblem::GradientProblem(TestProblem problem, std::uint64_t seed) : of(std::move(problem)) {
  const Shape& s = of.shape;
  const bool each = of.pattern.combine == Combine::sum || of.pattern.combine == Combine::mean;
  std::vector<std::int64_t> extents = {s.batch, s.heads, s.n_q};
  if (each) extents.insert(extents.begin(), static_cast<std::int64_t>(of.pattern.branches.size()));
  d_o = normal_tensor({s.batch, s.n_q, s.heads, s.d_v}, seed + 4);
  d_lse = normal_tensor(extents, seed + 5);
}

Result<Gradients> GradientProblem::gradients() const {
  return interpret_gradients(of.pattern, of.shape, of.q, of.k, of.v, of.inputs, d_o,
                             has_lse(of.pattern) ? &d_lse : nullptr);
}

Checked check_gradients(const GradientProblem& problem, const Gradients& found, std::uint64_t seed) {
  return Check(problem, seed).run(found);
}

}  // namespace weft::ir
