#include "compiler/ir/pattern_gradients.h"

#include "compiler/ir/pattern_interpreter_numbers.h"
#include "compiler/ir/pattern_interpreter_rows.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace weft::ir {
namespace {

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

/// Follows rows backwards, one by one: from O and LSE to V and the scores, from these to Q, K and inputs.
class BackwardRows {
 public:
  BackwardRows(const Problem& problem, const Tensor& v, const Tensor& d_o, const Tensor* d_lse, Gradients& out)
      : problem_(problem),
        walk_(problem),
        v_(v),
        d_o_(d_o),
        d_lse_(d_lse),
        out_(out),
        d_score_(index(problem.shape.n_k)),
        d_share_(index(problem.shape.n_k)) {}

  void run(std::int64_t b, std::int64_t h, std::int64_t row) {
    walk_.move_to(b, h, row);
    std::fill(d_score_.begin(), d_score_.end(), 0.0);
    const Combine combine = problem_.pattern.combine;
    if (!has_lse(problem_.pattern)) {
      back_through_sigmoids(walk_.whole());
    } else if (per_branch(combine)) {
      for (std::size_t i = 0; i < problem_.pattern.branches.size(); ++i) {
        back(walk_.branch(i), walk_.share(), d_lse(walk_.branch_number(i)));
      }
    } else {
      const Softmax whole = walk_.whole();
      const bool mixed = combine == Combine::joint_detached;
      if (mixed) back_through_mix(whole);
      back(whole, mixed ? 0 : 1, d_lse(walk_.row_number()));
    }
    for (const std::int64_t k : walk_.all()) back_through_score(k);
  }

 private:
  double d_lse(std::size_t at) const { return d_lse_ == nullptr ? 0 : d_lse_->data[at]; }

  /// The branches' outputs, mixed with constant weights.
  void back_through_mix(const Softmax& whole) {
    if (whole.empty()) return;
    for (std::size_t i = 0; i < problem_.pattern.branches.size(); ++i) {
      const Softmax part = walk_.branch(i);
      back(part, std::exp(part.lse() - whole.lse()), 0);
    }
  }

  /// The steps of the forward are w = m exp(s - largest), total = sum w, P = w / total, O += share P Z V with
  /// Z = 0 or 1 / (1 - p) of dropout, and LSE = largest + log(total). Here they come from the last to the first.
  /// `largest` changes nothing but rounding: it counts as a constant.
  void back(const Softmax& part, double share, double d_lse) {
    if (part.empty()) return;
    double d_total = d_lse / part.total;
    for (const std::int64_t k : *part.keys) {
      double& d_weight_share = d_share_[index(k)] = 0;
      if (share == 0 || walk_.score(k) == -HUGE_VAL || walk_.dropped(k)) continue;
      const double factor = share / (1 - problem_.pattern.dropout);
      const double normal = walk_.weight(part, k) / part.total;
      d_weight_share = factor * back_through_value(k, factor * normal);
      d_total -= d_weight_share * normal / part.total;
    }
    for (const std::int64_t k : *part.keys) {
      if (walk_.score(k) == -HUGE_VAL) continue;
      d_score_[index(k)] += (d_share_[index(k)] / part.total + d_total) * walk_.weight(part, k);
    }
    if (part.sink > 0) back_through_sink(d_total * part.sink);
  }

  void back_through_sink(double d_sink) {
    const ExprPtr& sink = problem_.pattern.sink_logit;
    follow_elements(d_sink,
                    [&](const auto& given) { return real_value(*sink, walk_.scope(), walk_.pair(0), Dual(0), given); });
  }

  /// O += m sigmoid(s) Z V.
  void back_through_sigmoids(const Softmax& all) {
    for (const std::int64_t k : *all.keys) {
      if (walk_.score(k) == -HUGE_VAL || walk_.dropped(k)) continue;
      const double weight = walk_.weight(all, k) / (1 - problem_.pattern.dropout);
      const double falls_short = apply_real(Op::sigmoid, -walk_.score(k), 0.0);  // 1 - sigmoid(s)
      d_score_[index(k)] = back_through_value(k, weight) * weight * falls_short;
    }
  }

  /// O += weight V. Returns dO V.
  double back_through_value(std::int64_t k, double weight) {
    const std::size_t d_v = index(problem_.shape.d_v), at = walk_.key_number(k) * d_v;
    const double* d_o = &d_o_.data[walk_.query_number() * d_v];
    double sum = 0;
    for (std::size_t i = 0; i < d_v; ++i) {
      out_.dv.data[at + i] += weight * d_o[i];
      sum += d_o[i] * v_.data[at + i];
    }
    return sum;
  }

  /// One evaluation for each direction: the product of query and key, then each element that was read.
  void back_through_score(std::int64_t k) {
    const double d_score = d_score_[index(k)];
    if (d_score == 0) return;
    const double product = walk_.product(k);
    const auto as_number = [](const Element&, double value) { return Dual(value); };
    const Dual by_product = score_of(walk_.scope(), walk_.pair(k), Dual(product, 1), as_number);
    back_through_product(k, passed_on(by_product.slope, d_score));
    follow_elements(d_score,
                    [&](const auto& given) { return score_of(walk_.scope(), walk_.pair(k), Dual(product), given); });
  }

  /// From an expression to the elements of inputs that it reads: `value(given)` evaluates it with these numbers.
  template <typename Value>
  void follow_elements(double d_value, const Value& value) {
    elements_.clear();
    (void)value([&](const Element& element, double number) {
      const bool known = std::find(elements_.begin(), elements_.end(), element) != elements_.end();
      if (element.at >= 0 && !known) elements_.push_back(element);
      return Dual(number);
    });
    for (const Element& direction : elements_) {
      const Dual at =
          value([&](const Element& element, double number) { return Dual(number, element == direction ? 1 : 0); });
      out_.inputs[direction.input].data[index(direction.at)] += passed_on(at.slope, d_value);
    }
  }

  void back_through_product(std::int64_t k, double d_product) {
    if (d_product == 0) return;
    const std::size_t d = index(problem_.shape.d), query = walk_.query_number() * d, key = walk_.key_number(k) * d;
    for (std::size_t i = 0; i < d; ++i) {
      out_.dq.data[query + i] += d_product * problem_.k->data[key + i];
      out_.dk.data[key + i] += d_product * problem_.q->data[query + i];
    }
  }

  const Problem& problem_;
  RowWalk walk_;
  const Tensor& v_;
  const Tensor& d_o_;
  const Tensor* d_lse_;
  Gradients& out_;
  std::vector<double> d_score_;  ///< by key
  std::vector<double> d_share_;  ///< of P, by key, while one softmax is followed
  std::vector<Element> elements_ = {};
};

Status check_d_lse(const Pattern& pattern, const Shape& shape, const Tensor* d_lse) {
  if (d_lse == nullptr) return done;
  if (!has_lse(pattern)) return user_error("weights sigmoid has no LSE, and so no gradient of one");
  const auto branches = static_cast<std::int64_t>(pattern.branches.size());
  const std::vector<std::int64_t> of_all = {shape.batch, shape.heads, shape.n_q};
  const std::vector<std::int64_t> of_each = {branches, shape.batch, shape.heads, shape.n_q};
  if (!per_branch(pattern.combine) && d_lse->shape == of_each) {
    return user_error("the LSE of branches has no gradient but with combine sum and combine mean");
  }
  return check_tensor("dLSE", *d_lse, per_branch(pattern.combine) ? of_each : of_all);
}

Gradients zeros(const Pattern& pattern, const Tensor& q, const Tensor& k, const Tensor& v, const InputValues& inputs) {
  Gradients out{.dq = Tensor(q.shape), .dk = Tensor(k.shape), .dv = Tensor(v.shape), .inputs = {}};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    out.inputs.push_back(pattern.inputs[i].type == InputType::f32 ? Tensor(inputs[i].shape) : Tensor());
  }
  return out;
}

}  // namespace

Result<Gradients> interpret_gradients(const Pattern& pattern, const Shape& shape, const Tensor& q, const Tensor& k,
                                      const Tensor& v, const InputValues& inputs, const Tensor& d_o,
                                      const Tensor* d_lse, const std::vector<ChosenKeys>* chosen,
                                      const std::vector<std::int64_t>* rows) {
  WEFT_CHECK(check_operands(pattern, shape, q, k, v, inputs));
  WEFT_CHECK(check_tensor("dO", d_o, {shape.batch, shape.n_q, shape.heads, shape.d_v}));
  WEFT_CHECK(check_d_lse(pattern, shape, d_lse));
  Gradients out = zeros(pattern, q, k, v, inputs);
  const Problem problem{.pattern = pattern, .shape = shape, .inputs = inputs, .q = &q, .k = &k, .chosen = chosen};
  BackwardRows engine(problem, v, d_o, d_lse, out);
  std::vector<std::int64_t> all(index(shape.rows_computed()));
  std::iota(all.begin(), all.end(), shape.row_begin);
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    for (std::int64_t h = shape.head_begin; h < shape.head_end(); ++h) {
      for (const std::int64_t row : rows == nullptr ? all : *rows) engine.run(b, h, row);
    }
  }
  return out;
}

}  // namespace weft::ir
