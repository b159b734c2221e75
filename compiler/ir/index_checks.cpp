#include "compiler/ir/distances.h"
#include "compiler/ir/launchable.h"
#include "compiler/ir/pattern_interpreter_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>

/// Indices beyond the ends of inputs and lists, as far as a launch can know them: intervals clear nearly every pattern
/// at once; where they do not, pairs are looked for that are surely kept and surely read outside. What data decides is
/// left to the clamp.
namespace weft::ir {
namespace {

constexpr std::int64_t kMostNodes = 1 << 14;  ///< that are looked at for pairs of one launch
constexpr std::size_t kMostNumbers = 8;       ///< of the pattern, near which pairs are looked for
constexpr std::int64_t kMostHeads = 8;

/// An index of an input's axis, or of a list.
struct Index {
  const Expr* read = nullptr;  ///< null: of a set that reads its input at the pair
  std::size_t axis = 0;
  int input = -1;  ///< -1: of a list
  std::int64_t extent = 0;
  Interval at = {};
  bool lies_inside() const { return at.lo >= 0 && at.hi < extent; }
  bool lies_outside() const { return is_known(at) && (at.hi < 0 || at.lo >= extent); }
};

/// Positions of a pair, or of all pairs, and their number.
struct Place {
  Ranges ranges = {};
  Interval distance = kAnything;  ///< from key to query
  std::int64_t block = 1;
};

enum class Ask { may, surely };

class Reader {
 public:
  Reader(const Pattern& pattern, const Shape& shape) : pattern_(pattern), shape_(shape) {}

  /// Calls `use` for each index that may be taken, or surely is, when the expression is evaluated.
  template <typename Use>
  void visit(const Expr& e, const Place& at, Ask ask, const Use& use) const {
    const auto part = [&](std::size_t i) { visit(*e.args[i], at, ask, use); };
    const auto goes = [&](Truth found, Truth wanted) {
      return found == wanted || (ask == Ask::may && found == Truth::maybe);
    };
    if (e.op == Op::logical_and || e.op == Op::logical_or) {
      // Whichever side stands first: one that decides alone leaves nothing to ask.
      const Truth open = e.op == Op::logical_and ? Truth::yes : Truth::no;
      for (std::size_t i : {0U, 1U}) {
        if (ask == Ask::may || truth_of(*e.args[1 - i], at.ranges) == open) part(i);
      }
      return;
    }
    if (e.op == Op::select) {
      if (e.items > 0) use(Index{.read = &e, .extent = e.items, .at = index_of(*e.args[0]->args[0], at)});
      part(0);
      const Truth first = truth_of(*e.args[0], at.ranges);
      if (goes(first, Truth::yes)) part(1);
      if (goes(first, Truth::no)) part(2);
      return;
    }
    for (std::size_t i = 0; i < e.args.size(); ++i) part(i);
    if (e.op != Op::input) return;
    const auto& axes = pattern_.inputs[static_cast<std::size_t>(e.input)].axes;
    for (std::size_t i = 0; i < std::min(axes.size(), e.args.size()); ++i)
      use(element(e.input, i, index_of(*e.args[i], at), at, &e, is_query(*e.args[i]) && at.block == 1));
  }

  /// The same of a set, whose value is needed for all that the place stands for.
  template <typename Use>
  void visit(const Set& set, const Place& at, const Pair& pair, Ask ask, const Use& use) const {
    if (!set.reads_inputs) return;
    if (set.expr) return visit(*set.expr, at, ask, use);
    if (set.input >= 0) return positions(set, at, use);
    if (set.kind == SetKind::blocks) {
      const auto [inside, pair_inside] = within(set, at, pair);
      return visit(*set.children[0], inside, pair_inside, ask, use);
    }
    for (std::size_t i = 0; i < set.children.size(); ++i) {
      if (ask == Ask::may || needs(set, i, at, pair)) visit(*set.children[i], at, pair, ask, use);
    }
  }

  /// Does the set keep the pair, as far as no data says it?
  Truth keeps(const Set& set, const Place& at, const Pair& pair) const {
    const auto child = [&](std::size_t i) { return keeps(*set.children[i], at, pair); };
    if (set.kind == SetKind::where) return truth_of(*set.expr, at.ranges);
    if (set.kind == SetKind::complement) return opposite(child(0));
    if (set.kind == SetKind::difference) return std::min(child(0), opposite(child(1)));
    if (set.kind == SetKind::blocks) {
      const auto [inside, pair_inside] = within(set, at, pair);
      return keeps(*set.children[0], inside, pair_inside);
    }
    if (set.kind == SetKind::intersection || set.kind == SetKind::unite) {
      const bool all = set.kind == SetKind::intersection;
      Truth out = all ? Truth::yes : Truth::no;
      for (std::size_t i = 0; i < set.children.size(); ++i)
        out = all ? std::min(out, child(i)) : std::max(out, child(i));
      return out;
    }
    if (set.reads_inputs || set.kind == SetKind::random || set.kind == SetKind::top) return Truth::maybe;
    if (!problem_) problem_ = std::make_unique<const Problem>(Problem{pattern_, shape_, none_, nullptr, nullptr});
    const Scope scope{*problem_, at.ranges.of(Variable::n_q).lo, at.ranges.of(Variable::n_k).lo, at.block};
    return ir::keeps(set, scope, pair) ? Truth::yes : Truth::no;
  }

 private:
  static bool is_query(const Expr& e) { return e.op == Op::variable && e.variable == Variable::q; }

  static Truth opposite(Truth t) { return t == Truth::yes ? Truth::no : t == Truth::no ? Truth::yes : t; }

  Interval index_of(const Expr& e, const Place& at) const { return interval_at(e, at.ranges, at.distance); }

  Index element(int input, std::size_t axis, Interval at, const Place& place, const Expr* read, bool is_query) const {
    const Input& in = pattern_.inputs[static_cast<std::size_t>(input)];
    if (in.axes[axis].kind == Axis::Kind::queries) {
      Interval offset{shape_.offset_of(0), shape_.offset_of(0)};
      const Interval& b = place.ranges.of(Variable::b);
      for (std::int64_t entry = b.lo; shape_.offset.size() > 1 && entry <= b.hi; ++entry) {
        const std::int64_t one = shape_.offset_of(entry);
        offset = entry == b.lo ? Interval{one, one} : Interval{std::min(offset.lo, one), std::max(offset.hi, one)};
      }
      if (is_known(at)) at = {at.lo - offset.hi, at.hi - offset.lo};
      // Where entries have offsets of their own, the position itself is inside all the same.
      if (is_query) at = {0, shape_.n_q - 1};
    }
    return {.read = read, .axis = axis, .input = input, .extent = extent_of(in.axes[axis], in, shape_), .at = at};
  }

  /// The axes of document, lengths, table and top: batch entry, head, then positions.
  template <typename Use>
  void positions(const Set& set, const Place& at, const Use& use) const {
    if (set.kind != SetKind::document && set.kind != SetKind::table) return;
    const auto& axes = pattern_.inputs[static_cast<std::size_t>(set.input)].axes;
    std::size_t next = 0;
    for (std::size_t i = 0; i < axes.size(); ++i) {
      if (axes[i].kind == Axis::Kind::batch || axes[i].kind == Axis::Kind::heads) continue;
      const Interval& q = at.ranges.of(Variable::q);
      const Interval& k = at.ranges.of(Variable::k);
      const bool both = set.kind == SetKind::document;
      if (next == 0) use(element(set.input, i, q, at, nullptr, at.block == 1));
      if (next == (both ? 0 : 1)) use(element(set.input, i, k, at, nullptr, false));
      ++next;
    }
  }

  std::pair<Place, Pair> within(const Set& set, const Place& at, const Pair& pair) const {
    const std::int64_t size = set.args[0];
    Place inside = at;
    inside.block = bounded_product(at.block, size);
    inside.distance = distance_of(*set.children[0]);
    for (const Variable v : {Variable::q, Variable::k}) {
      const Interval& x = at.ranges.of(v);
      inside.ranges.of(v) = {floor_div(x.lo, size), floor_div(x.hi, size)};
    }
    const std::int64_t n = at.ranges.of(Variable::n_k).lo, count = n / size + (n % size > 0 ? 1 : 0);
    inside.ranges.of(Variable::n_q) = inside.ranges.of(Variable::n_k) = {count, count};
    return {inside, {pair.b, pair.h, floor_div(pair.q, size), floor_div(pair.k, size)}};
  }

  /// Is child i surely asked: do the others leave it to say?
  bool needs(const Set& set, std::size_t i, const Place& at, const Pair& pair) const {
    const auto others = [&](Truth wanted) {
      for (std::size_t j = 0; j < set.children.size(); ++j) {
        if (j != i && keeps(*set.children[j], at, pair) != wanted) return false;
      }
      return true;
    };
    if (set.kind == SetKind::intersection) return others(Truth::yes);
    if (set.kind == SetKind::difference) return others(i == 0 ? Truth::no : Truth::yes);
    return set.kind == SetKind::complement || others(Truth::no);
  }

  const Pattern& pattern_;
  const Shape& shape_;
  const InputValues none_ = {};
  mutable std::unique_ptr<const Problem> problem_ = nullptr;  ///< copies the pattern, which few launches need
};

Interval element_range(const Pattern& pattern, int input) {
  const InputType type = pattern.inputs[static_cast<std::size_t>(input)].type;
  if (type == InputType::f32) return kAnything;
  return type == InputType::u8 ? Interval{0, UINT8_MAX} : Interval{INT32_MIN, INT32_MAX};
}

class Checker {
 public:
  Checker(const Pattern& pattern, const Shape& shape) : pattern_(pattern), shape_(shape), reader_(pattern, shape) {}

  Status run() {
    if (!suspicious()) return done;
    for (std::int64_t b : entries()) {
      for (std::int64_t h : heads()) {
        for (std::int64_t q : queries(b)) {
          for (std::int64_t k : keys(q)) {
            if ((looked_ += nodes_) > kMostNodes) return done;
            if (auto found = outside({b, h, q, k})) return *found;
          }
        }
      }
    }
    return done;
  }

 private:
  Place everywhere() const {
    Place at;
    const std::int64_t first = shape_.offset_of(0);
    Interval q{first, first};
    for (std::int64_t b = 0; b < static_cast<std::int64_t>(std::max<std::size_t>(shape_.offset.size(), 1)); ++b)
      q = {std::min(q.lo, shape_.offset_of(b)), std::max(q.hi, shape_.offset_of(b))};
    set(at, {0, shape_.batch - 1}, {0, shape_.heads - 1}, {q.lo, q.hi + shape_.n_q - 1}, {0, shape_.n_k - 1});
    return at;
  }

  Place at_pair(const Pair& p) const {
    Place at;
    set(at, {p.b, p.b}, {p.h, p.h}, {p.q, p.q}, {p.k, p.k});
    at.distance = {p.q - p.k, p.q - p.k};
    return at;
  }

  void set(Place& at, Interval b, Interval h, Interval q, Interval k) const {
    at.ranges.of(Variable::b) = b;
    at.ranges.of(Variable::h) = h;
    at.ranges.of(Variable::q) = q;
    at.ranges.of(Variable::k) = k;
    at.ranges.of(Variable::n_q) = {shape_.n_q, shape_.n_q};
    at.ranges.of(Variable::n_k) = {shape_.n_k, shape_.n_k};
    at.ranges.of(Variable::heads) = {shape_.heads, shape_.heads};
    at.ranges.element = [this](int input) { return element_range(pattern_, input); };
  }

  /// May any index lie outside? Notes what pairs depend on, and numbers near which they may change.
  bool suspicious() {
    const bool reads = std::any_of(pattern_.branches.begin(), pattern_.branches.end(),
                                   [](const Branch& branch) { return branch.set->reads_inputs; });
    if (!reads && !pattern_.score && !pattern_.scale && !pattern_.sigmoid) return false;
    bool found = false;
    const auto look = [&](const Index& index) {
      if (index.lies_inside()) return;
      found = true;
      note(index.extent);
    };
    const Place all = everywhere();
    std::optional<Interval> distance;
    for (const auto& branch : pattern_.branches) {
      Place at = all;
      at.distance = distance_of(*branch.set);
      distance = distance ? hull(*distance, at.distance) : at.distance;
      reader_.visit(*branch.set, at, {}, Ask::may, look);
    }
    Place at = all;
    at.distance = distance.value_or(kAnything);
    for (const auto& e : of_pairs(pattern_)) {
      if (e) reader_.visit(*e, at, Ask::may, look);
    }
    if (!found) return false;
    for (const auto& branch : pattern_.branches) note(*branch.set);
    for (const auto& e : of_pairs(pattern_)) {
      if (e) note(*e);
    }
    return true;
  }

  void note(std::int64_t number) {
    if (number > 1 && numbers_.size() < kMostNumbers) numbers_.insert(number);
  }
  void note(const Expr& e) {
    ++nodes_;
    if (e.op == Op::constant && e.type == Type::integer) note(e.integer < 0 ? -e.integer : e.integer);
    for (const auto& arg : e.args) note(*arg);
  }
  void note(const Set& set) {
    ++nodes_;
    for (auto number : set.args) note(number);
    if (set.expr) note(*set.expr);
    for (const auto& child : set.children) note(*child);
  }

  std::vector<std::int64_t> entries() const {
    return shape_.batch > 1 ? std::vector<std::int64_t>{shape_.batch - 1, 0} : std::vector<std::int64_t>{0};
  }
  std::vector<std::int64_t> heads() const {
    std::vector<std::int64_t> out;
    for (std::int64_t i = 0; i < std::min(kMostHeads, shape_.heads); ++i)
      out.push_back(shape_.heads - 1 - i * shape_.heads / std::min(kMostHeads, shape_.heads));
    return out;
  }
  std::vector<std::int64_t> queries(std::int64_t b) const {
    const std::int64_t first = shape_.offset_of(b);
    return {first + shape_.n_q - 1, first, first + shape_.n_q / 2};
  }
  std::vector<std::int64_t> keys(std::int64_t q) const {
    std::set<std::int64_t> out{0, shape_.n_k - 1, q};
    for (auto number : numbers_) {
      for (std::int64_t near : {number - 1, number, number + 1}) {
        for (std::int64_t k : {q - near, q + near, near}) out.insert(k);
      }
    }
    std::vector<std::int64_t> inside;
    for (auto k : out) {
      if (k >= 0 && k < shape_.n_k) inside.push_back(k);
    }
    return inside;
  }

  std::optional<Status> outside(const Pair& pair) const {
    std::optional<Index> found;
    const auto look = [&](const Index& index) {
      if (!found && index.lies_outside()) found = index;
    };
    const Place at = at_pair(pair);
    bool kept = false;
    for (const auto& branch : pattern_.branches) {
      if (!branch.heads.contains(pair.h, shape_.heads)) continue;
      reader_.visit(*branch.set, at, pair, Ask::surely, look);
      kept = kept || reader_.keeps(*branch.set, at, pair) == Truth::yes;
    }
    for (const auto& e : of_pairs(pattern_)) {
      if (kept && e) reader_.visit(*e, at, Ask::surely, look);
    }
    if (!found) return std::nullopt;
    return user_error(text_of(*found, pair));
  }

  std::string text_of(const Index& index, const Pair& p) const {
    const std::string where = fmt::format("(batch entry {}, head {}, query {}, key {})", p.b, p.h, p.q, p.k);
    std::vector<std::string> names;
    for (const auto& input : pattern_.inputs) names.push_back(input.name);
    if (index.input < 0) {
      return fmt::format("index {} of a list is {}, and the list has {} items {}",
                         print(*index.read->args[0]->args[0], names), index.at.lo, index.extent, where);
    }
    const std::string what = index.read != nullptr ? print(*index.read, names)
                                                   : fmt::format("'{}'", names[static_cast<std::size_t>(index.input)]);
    return fmt::format("{} is read at {}, and axis {} of '{}' has the extent {} {}", what, index.at.lo, index.axis,
                       names[static_cast<std::size_t>(index.input)], index.extent, where);
  }

  const Pattern& pattern_;
  const Shape& shape_;
  Reader reader_;
  std::set<std::int64_t> numbers_ = {};
  std::int64_t nodes_ = 1, looked_ = 0;
};

}  // namespace

Status check_indices(const Pattern& pattern, const Shape& shape) { return Checker(pattern, shape).run(); }

}  // namespace weft::ir
