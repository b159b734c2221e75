#include "compiler/ir/range_text.h"

#include <fmt/format.h>

namespace weft::ir {
namespace {

class Describer {
 public:
  Describer(const Plan& plan, Stationary stationary)
      : plan_(plan),
        row_(stationary == Stationary::query ? "q" : "k"),
        key_(stationary == Stationary::query ? "k" : "q") {
    for (const auto& input : plan.inputs) inputs_.push_back(input.name);
  }

  std::vector<std::string> conditions(const KeyRange& r) const {
    std::vector<std::string> out;
    if (r.lo.size() == 1 && r.hi.size() == 1) {
      out.push_back(fmt::format("{} <= {} {}", text(r.lo[0]), key_, end(r.hi[0])));
    } else {
      for (const auto& bound : r.lo) out.push_back(fmt::format("{} <= {}", text(bound), key_));
      for (const auto& bound : r.hi) out.push_back(fmt::format("{} {}", key_, end(bound)));
    }
    if (r.stream.rate != 1) out.push_back(text(r.stream, key_));
    for (const auto& filter : r.filters) out.push_back(text(filter, key_));
    for (const auto& row : r.rows)
      out.push_back(fmt::format("{} {} {}", row_, row.below ? "<" : ">=", text(row.bound)));
    for (const auto& congruence : r.row_congruences) out.push_back(text(congruence, row_));
    for (const auto& use : r.predicates) out.push_back(text(use));
    for (const auto& when : r.when) out.push_back(print(*when.holds, inputs_));
    return out;
  }

 private:
  std::string text(const Bound& b) const {
    std::string base;
    switch (b.kind) {
      case Bound::Kind::constant:
        return std::to_string(b.add);
      case Bound::Kind::row:
        base = row_;
        break;
      case Bound::Kind::segment:
        base = fmt::format("{0} / {1} * {1}", row_, b.a);
        break;
      case Bound::Kind::input:
        base = fmt::format("{}[b]", inputs_[static_cast<std::size_t>(b.a)]);
        break;
      case Bound::Kind::part:
        base = fmt::format("n * {} / {}", b.b, b.a);
        break;
      case Bound::Kind::form:
        base = print(*plan_.forms[static_cast<std::size_t>(b.a)], inputs_);
        break;
    }
    if (b.add == 0) return base;
    return fmt::format("{} {} {}", base, b.add < 0 ? '-' : '+', b.add < 0 ? -b.add : b.add);
  }

  /// `<= q` for what ends in front of q + 1.
  std::string end(const Bound& b) const {
    if (b.kind == Bound::Kind::constant || b.add != 1) return "< " + text(b);
    Bound last = b;
    last.add = 0;
    return "<= " + text(last);
  }

  std::string text(const Congruence& c, const char* of) const {
    const auto inside = c.segment > 0 ? fmt::format("{} % {}", of, c.segment) : std::string(of);
    return fmt::format("{} % {} {} {}", inside, c.rate,
                       c.negated ? "!=" : "==", c.phase ? print(*c.phase, inputs_) : "0");
  }

  /// Is key block args[1] among those that were chosen for row block args[0]?
  std::string chosen(const Expr& e) const {
    const List& list = plan_.lists[static_cast<std::size_t>(e.input)];
    return fmt::format("{} is one of {} blocks {} for {}", print(*e.args[1], inputs_), list.count,
                       list.kind == List::Kind::random ? "drawn" : "scored best", print(*e.args[0], inputs_));
  }

  std::string text(const PredicateUse& use) const {
    const auto& p = plan_.predicates[static_cast<std::size_t>(use.number)];
    if (p.holds && p.holds->op == Op::listed && !use.negated) return chosen(*p.holds);
    const auto holds = p.holds         ? print(*p.holds, inputs_)
                       : p.modulus > 0 ? fmt::format("{} == {}", print(*p.key, inputs_), print(*p.lo, inputs_))
                                       : fmt::format("{} <= {} < {}", print(*p.lo, inputs_), print(*p.key, inputs_),
                                                     print(*p.hi, inputs_));
    return use.negated ? fmt::format("not ({})", holds) : holds;
  }

  const Plan& plan_;
  const char *row_, *key_;
  std::vector<std::string> inputs_;
};

}  // namespace

std::vector<std::string> conditions_of(const Plan& plan, const KeyRange& range, Stationary stationary) {
  return Describer(plan, stationary).conditions(range);
}

}  // namespace weft::ir
