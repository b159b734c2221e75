#include "compiler/ir/jumps.h"

#include "compiler/ir/launchable.h"
#include "compiler/ir/pattern_interpreter.h"
#include "dsl/diagnostics.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace weft::ir {
namespace {

constexpr double kFarthest = 20;  ///< scores of trained models rarely leave this
constexpr int kSteps = 41;
constexpr std::int64_t kMostNodes = 1000;

struct Jump {
  double at, from, to;
};

/// Numbers that look like those of a caller, by their place.
double made_up(std::int64_t at) { return std::sin(static_cast<double>(at) * 1.7 + 0.3); }

InputValues made_up_inputs(const Pattern& pattern, const Shape& shape) {
  InputValues out;
  for (const auto& input : pattern.inputs) {
    Tensor t;
    for (const auto& axis : input.axes) t.shape.push_back(extent_of(axis, input, shape));
    const bool real = input.type == InputType::f32;
    t.made = [real](std::int64_t at) { return real ? made_up(at) : static_cast<double>(at % 2); };
    out.push_back(std::move(t));
  }
  return out;
}

/// Beside a row whose largest other score is 0.
bool moves_weights(const Jump& jump, bool sigmoid) {
  const double largest = std::max({jump.from, jump.to, 0.0});
  const auto weight = [&](double s) { return sigmoid ? 1 / (1 + std::exp(-s)) : std::exp(s - largest); };
  return std::fabs(weight(jump.from) - weight(jump.to)) > 1e-6;
}

/// What is left of an interval around 0 is 0.
double in_print(double value) { return std::fabs(value) < 1e-9 ? 0 : value; }

/// Where `value` still jumps when all but its steepest part of an interval is cut away: to two neighbouring numbers, or
/// to 2^-60 of it, because around 0 neighbours are hundreds of halves away.
template <typename Value>
std::optional<Jump> jump_between(const Value& value, double lo, double hi) {
  const auto apart = [](double a, double b) { return a == b ? 0 : std::fabs(a - b); };
  double at_lo = value(lo), at_hi = value(hi);
  for (int i = 0; apart(at_lo, at_hi) > 1e-6; ++i) {
    const double middle = lo + (hi - lo) / 2;
    if (i == 60 || middle <= lo || middle >= hi) return Jump{middle, at_lo, at_hi};
    const double at_middle = value(middle);
    const bool first = apart(at_lo, at_middle) > apart(at_middle, at_hi);
    (first ? hi : lo) = middle;
    (first ? at_hi : at_lo) = at_middle;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Diagnostic> warn_of_jumps(const Pattern& pattern) {
  const ExprPtr& score = pattern.sigmoid && !pattern.score ? pattern.sigmoid : pattern.score;
  if (!score || !reads(*score, Variable::s) || score->nodes > kMostNodes) return std::nullopt;
  const std::int64_t cells = Tensor::count(pattern.grid), heads = pattern.heads.value_or(4);
  const bool exact = pattern.tokens.kind == Tokens::Kind::exact;
  const std::int64_t n = exact ? pattern.tokens.count : cells > 1 ? cells : 1024;
  const Shape shape{.batch = 1, .n_q = n, .n_k = n, .heads = heads, .kv_heads = heads, .d = 1, .d_v = 1};
  const InputValues inputs = made_up_inputs(pattern, shape);
  // Without the scale, so that what is handed over is `s` itself.
  Pattern scored = pattern;
  scored.scale = constant_real(1);
  const PairEvaluator pairs(scored, shape, inputs);
  for (const auto& [q, k] : {std::pair{n - 1, n / 2}, std::pair{n / 2, n / 2}, std::pair{n / 3, n / 7}}) {
    const auto value = [&](double s) { return pairs.score(s, 0, heads - 1, q, k); };
    for (int i = 0; i < kSteps; ++i) {
      const double step = 2 * kFarthest / kSteps, lo = -kFarthest + i * step;
      const auto jump = jump_between(value, lo, lo + step);
      if (!jump || !moves_weights(*jump, pattern.sigmoid != nullptr)) continue;
      Diagnostic d = dsl::finding(dsl::Code::jump, score->range,
                                  fmt::format("this score jumps from {:.4g} to {:.4g} where s passes {:.4g}",
                                              in_print(jump->from), in_print(jump->to), in_print(jump->at)));
      d.notes.push_back("gradients are those on either side, and do not know of the jump");
      return d;
    }
  }
  return std::nullopt;
}

}  // namespace weft::ir
