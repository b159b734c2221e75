#include "compiler/ir/expr_text.h"
#include "compiler/ir/few_rows.h"
#include "compiler/ir/plan.h"
#include "compiler/ir/plan_words.h"
#include "compiler/ir/steps.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <optional>

namespace weft::ir {
namespace {

constexpr std::size_t kLongestText = std::size_t{1} << 20;

/// Reads one line's words. The first trouble is kept; later reads give zeros, so callers check once.
class LineReader {
 public:
  explicit LineReader(std::string_view line) : rest_(line) {}

  std::string_view next() {
    skip_blanks();
    const std::size_t end = std::min(rest_.find(' '), rest_.size());
    const std::string_view out = rest_.substr(0, end);
    rest_.remove_prefix(end);
    return out;
  }
  std::string_view rest() {
    skip_blanks();
    return rest_;
  }
  bool at_end() {
    skip_blanks();
    return rest_.empty();
  }
  bool ok() const { return ok_; }
  void fail() { ok_ = false; }

  void expect(std::string_view word) {
    if (next() != word) fail();
  }
  /// Is it the next word? Then the line goes on behind it.
  bool skip(std::string_view word) {
    const std::string_view before = rest_;
    if (next() == word) return true;
    rest_ = before;
    return false;
  }

  template <typename T>
  T number(std::string_view text) {
    T value{};
    const char* end = text.data() + text.size();
    if (!text.empty() && text.front() == '+') text.remove_prefix(1);
    const auto [at, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || at != end) fail();
    return value;
  }
  template <typename T = std::int64_t>
  T number() {
    return number<T>(next());
  }
  template <typename T = std::int64_t>
  T named(std::string_view name) {
    expect(name);
    return number<T>();
  }
  int small(std::string_view name) { return narrow(named(name)); }
  int narrow(std::int64_t value) {
    if (value < std::numeric_limits<int>::min() || value > std::numeric_limits<int>::max()) fail();
    return ok_ ? static_cast<int>(value) : 0;
  }

  template <typename E, std::size_t N>
  E one_of(const Word<E> (&words)[N]) {
    const std::string_view name = next();
    for (const auto& w : words) {
      if (w.name == name) return w.value;
    }
    fail();
    return words[0].value;
  }

  ExprPtr expression() {
    ExprPtr e = read_prefix(rest_);
    if (!e) fail();
    return e ? e : constant(0);
  }

  Bound bound() {
    const std::string_view text = next();
    Bound b;
    const auto argument_end = text.find(')');
    const auto after = [&](std::size_t at) {
      const std::string_view add = text.substr(std::min(at, text.size()));
      if (!add.empty()) b.add = number<std::int64_t>(add);
    };
    const auto inside = [&](std::size_t from) { return text.substr(from, argument_end - from); };
    if (text.starts_with("x")) {
      b.kind = Bound::Kind::row;
      after(1);
    } else if (text.starts_with("floor(x,") && argument_end != std::string_view::npos) {
      b.kind = Bound::Kind::segment;
      b.a = number<std::int64_t>(inside(8));
      after(argument_end + 1);
    } else if (text.starts_with("input(") && argument_end != std::string_view::npos) {
      b.kind = Bound::Kind::input;
      b.a = number<std::int64_t>(inside(6));
      after(argument_end + 1);
    } else if (text.starts_with("part(") && argument_end != std::string_view::npos) {
      b.kind = Bound::Kind::part;
      const std::string_view both = inside(5);
      const std::size_t comma = std::min(both.find(','), both.size());
      b.b = number<std::int64_t>(both.substr(0, comma));
      b.a = number<std::int64_t>(both.substr(std::min(comma + 1, both.size())));
      after(argument_end + 1);
    } else if (text.starts_with("form(") && argument_end != std::string_view::npos) {
      b.kind = Bound::Kind::form;
      const std::string_view both = inside(5);
      const std::size_t comma = std::min(both.find(','), both.size());
      b.a = number<std::int64_t>(both.substr(0, comma));
      b.b = number<std::int64_t>(both.substr(std::min(comma + 1, both.size())));
      after(argument_end + 1);
    } else {
      b.add = number<std::int64_t>(text);
    }
    return b;
  }

  Congruence congruence() {
    Congruence c;
    std::string_view first = next();
    if (first == "not") {
      c.negated = true;
      first = next();
    }
    if (first != "segment") fail();
    c.segment = number();
    c.rate = named("rate");
    expect("phase");
    c.phase = expression();
    return c;
  }

  HeadSet heads() {
    HeadSet out;
    const std::string_view kind = next();
    if (kind == "group" || kind == "group_last") {
      out.kind = kind == "group" ? HeadSet::Kind::group : HeadSet::Kind::group_last;
      out.index = number();
      out.count = named("of");
    } else if (kind == "range") {
      out.kind = HeadSet::Kind::range;
      out.lo = number();
      out.hi = number();
    } else if (kind != "all") {
      fail();
    }
    return out;
  }

 private:
  void skip_blanks() {
    while (!rest_.empty() && rest_.front() == ' ') rest_.remove_prefix(1);
  }
  std::string_view rest_;
  bool ok_ = true;
};

class PlanReader {
 public:
  /// One line; false when it is not understood or stands where it may not.
  bool read(LineReader& line) {
    const std::string_view head = line.next();
    if (head == "name")
      plan.name = std::string(line.rest()), line = LineReader("");
    else if (head == "target")
      plan.target = std::string(line.next());
    else if (head == "bind")
      bind(line);
    else if (head == "combine")
      plan.combine = line.one_of(kCombines), plan.branches = line.small("branches");
    else if (head == "scale")
      plan.scale = line.number<double>();
    else if (head == "score")
      plan.score = line.expression();
    else if (head == "weights")
      line.expect("direct"), plan.weights = Weights::direct;
    else if (head == "sink_logit")
      plan.sink_logit = line.expression();
    else if (head == "dropout")
      plan.dropout = line.number<double>();
    else if (head == "condition")
      plan.predicates.push_back({.holds = line.expression(), .key = nullptr, .lo = nullptr, .hi = nullptr});
    else if (head == "list")
      list(line);
    else if (head == "summary")
      summary(line);
    else if (head == "between")
      between(line);
    else if (head == "form")
      plan.forms.push_back(line.expression());
    else if (head == "ring")
      ring(line);
    else if (head == "input")
      input(line);
    else if (head == "decoding")
      of_decoding(line);
    else if (head == "choices")
      choices(line);
    else if (head == "cut")
      cut(line);
    else if (head == "reason")
      plan.reasons.emplace_back(line.rest()), line = LineReader("");
    else if (head == "phase")
      phase(line);
    else if (plan.phases.empty())
      return false;
    else if (head == "tiles")
      tiles(line);
    else if (head == "patches")
      patches(line);
    else if (head == "by")
      plan.phases.back().rows.by.push_back(line.congruence());
    else if (head == "pass")
      pass(line);
    else
      return range_line(head, line);
    return line.ok() && line.at_end();
  }

  Plan plan;
  std::optional<Choices> decoding;  // whose plan is made when all else is known

 private:
  void bind(LineReader& line) {
    Bind& b = plan.bind;
    b.d = line.named("d");
    b.d_v = line.named("d_v");
    line.expect("dtype");
    b.dtype = line.one_of(kDTypes);
    b.branch_lse = line.small("branch_lse") != 0;
    b.paged = line.skip("paged");
    b.gradient = line.skip("gradient");
  }
  void ring(LineReader& line) {
    Ring ring;
    const std::string_view ranks = line.next();
    if (ranks != "any") ring.ranks = line.number<std::int64_t>(ranks);
    ring.layout = line.one_of(kLayouts);
    plan.ring = ring;
  }
  void input(LineReader& line) {
    Input in;
    in.name = std::string(line.next());
    in.type = line.one_of(kInputTypes);
    in.block = line.named("block");
    line.expect("axes");
    while (line.ok() && !line.at_end()) {
      const std::string_view axis = line.next();
      Axis made;
      for (const auto& w : kAxes) {
        if (w.name == axis) made.kind = w.value;
      }
      if (made.kind == Axis::Kind::extent) made.extent = line.number<std::int64_t>(axis);
      in.axes.push_back(made);
    }
    plan.inputs.push_back(std::move(in));
  }
  void list(LineReader& line) {
    List l;
    l.kind = line.one_of(kLists);
    l.count = line.named("count");
    l.block = line.named("block");
    l.seed = line.named("seed");
    l.input = line.small("input");
    l.causal = line.small("causal") != 0;
    plan.lists.push_back(l);
  }
  void summary(LineReader& line) {
    List l;
    l.kind = line.one_of(kLists);
    l.predicate = line.small("of");
    l.block = line.named("block");
    plan.lists.push_back(l);
  }
  void between(LineReader& line) {
    Predicate p;
    p.lo = line.expression();
    p.key = line.expression();
    p.hi = line.expression();
    p.modulus = line.named("modulus");
    plan.predicates.push_back(std::move(p));
  }
  void patches(LineReader& line) {
    RowMap& rows = plan.phases.back().rows;
    rows.modulus = line.named("modulus");
    rows.line = line.named("line");
    rows.patch_lines = line.named("of");
    rows.patch = line.named("by");
    if (line.at_end()) return;
    rows.line_step = line.named("steps");
    rows.step = line.number();
  }
  void choices(LineReader& line) { read(line, plan.choices); }
  void of_decoding(LineReader& line) { read(line, decoding.emplace()); }
  static void read(LineReader& line, Choices& c) {
    c.kernel_class = line.one_of(kClasses);
    c.tile_q = line.small("tile_q");
    c.tile_k = line.small("tile_k");
    c.sub_q = line.small("sub_q");
    c.sub_k = line.small("sub_k");
    c.micro_k = line.small("micro_k");
    c.micro_q = line.small("micro_q");
    if (c.kernel_class == KernelClass::vector) {
      c.few_q = line.small("few_q");
      if (!line.at_end()) c.products = line.small("products");
      return;
    }
    c.threads = line.small("threads");
    c.depth = line.small("depth");
    c.staged = line.small("staged");
    c.stages = line.small("stages");
    c.resident = line.small("resident");
    if (!line.at_end()) c.groups = line.small("groups");
  }
  void cut(LineReader& line) {
    Cut c;
    c.rows = line.named("rows");
    c.keys = line.named("keys");
    c.most = line.named("most");
    plan.cuts.push_back(c);
  }
  void phase(LineReader& line) {
    Phase p;
    p.role = line.one_of(kRoles);
    line.expect("carry");
    p.carry = line.one_of(kCarries);
    line.expect("stationary");
    const std::string_view side = line.next();
    if (side != "query" && side != "key") line.fail();
    p.stationary = side == "key" ? Stationary::key : Stationary::query;
    plan.phases.push_back(std::move(p));
  }
  void tiles(LineReader& line) {
    RowMap& rows = plan.phases.back().rows;
    const std::string_view kind = line.next();
    if (kind != "classes" && kind != "contiguous") line.fail();
    rows.classes = kind == "classes";
    rows.tile = line.small("of");
    const std::string_view order = line.next();
    if (order != "descending" && order != "ascending") line.fail();
    rows.longest_first = order == "descending";
  }
  void pass(LineReader& line) {
    Pass p;
    line.expect("weight");
    const std::string_view weight = line.next();
    if (weight != "one" && weight != "count") line.fail();
    p.weight = weight == "one" ? Weight::one : Weight::count;
    p.out = line.small("out") != 0;
    p.factor = line.named<double>("factor");
    line.expect("lse");
    const std::string_view slot = line.next();
    p.lse = slot != "none";
    if (p.lse) p.lse_slot = line.narrow(line.number<std::int64_t>(slot));
    line.expect("branches");
    while (line.ok() && !line.at_end()) p.branches.push_back(line.narrow(line.number()));
    plan.phases.back().passes.push_back(std::move(p));
  }
  bool range_line(std::string_view head, LineReader& line) {
    auto& passes = plan.phases.back().passes;
    if (passes.empty()) return false;
    auto& ranges = passes.back().ranges;
    if (head == "range") {
      KeyRange r;
      r.branch = line.small("branch");
      line.expect("heads");
      r.heads = line.heads();
      ranges.push_back(std::move(r));
      return line.ok() && line.at_end();
    }
    if (ranges.empty()) return false;
    KeyRange& r = ranges.back();
    if (head == "when")
      r.when.push_back({line.expression()});
    else if (head == "stream")
      r.stream = line.congruence();
    else if (head == "filter")
      r.filters.push_back(line.congruence());
    else if (head == "from")
      r.lo.push_back(line.bound());
    else if (head == "below")
      r.hi.push_back(line.bound());
    else if (head == "rows")
      r.row_congruences.push_back(line.congruence());
    else if (head == "if") {
      const std::string_view first = line.next();
      const bool negated = first == "not";
      r.predicates.push_back({line.narrow(line.number<std::int64_t>(negated ? line.next() : first)), negated});
    } else if (head == "row") {
      const std::string_view side = line.next();
      if (side != "below" && side != "from") return false;
      r.rows.push_back({line.bound(), side == "below"});
    } else {
      return false;
    }
    return line.ok() && line.at_end();
  }
};

}  // namespace

namespace {

constexpr std::string_view kTransposed = "transposed", kOfInputs = "of inputs", kStep = "step ";

/// Takes from the text what it reads: a further plan ends where the next one begins, and all end before the steps.
Result<Plan> parse(std::string_view& text, bool is_further) {
  PlanReader reader;
  std::size_t number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view content = text.substr(0, end);
    if (content.starts_with(kStep) || (is_further && (content == kTransposed || content == kOfInputs))) break;
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    LineReader line(content);
    if (number == 1) {
      line.expect("weft");
      reader.plan.abi = line.small("plan");
      if (!line.ok()) return user_error("this is not the text of a plan: the first line is not 'weft plan N'");
      if (reader.plan.abi != kPlanAbi) {
        return user_error(fmt::format("this plan has format {}, this Weft reads {}", reader.plan.abi, kPlanAbi));
      }
      continue;
    }
    if (line.at_end()) continue;
    if (content == kTransposed || content == kOfInputs) {
      WEFT_TRY(auto further, parse(text, true));
      (content == kTransposed ? reader.plan.transposed : reader.plan.of_inputs) =
          std::make_shared<const Plan>(std::move(further));
      continue;
    }
    if (!reader.read(line)) {
      return user_error(fmt::format("line {} of the plan is not understood: '{}'", number, content.substr(0, 120)));
    }
  }
  if (number == 0) return user_error("the plan is empty");
  if (reader.decoding)
    reader.plan.decoding = std::make_shared<const Plan>(decoding_plan(reader.plan, *reader.decoding));
  return std::move(reader.plan);
}

/// Steps follow from the plan; a text that shows some, but others, is of no plan that this Weft makes.
Status check_steps(std::string_view text, const Plan& plan) {
  if (text.empty()) return done;
  for (const auto& step : steps_of(plan)) {
    const auto line = fmt::format("{}{}\n", kStep, print(step));
    if (!text.starts_with(line)) {
      return user_error(fmt::format("the steps are not those of the plan: '{}' where it has '{}'",
                                    text.substr(0, std::min<std::size_t>(text.find('\n'), 120)),
                                    line.substr(0, line.size() - 1)));
    }
    text.remove_prefix(line.size());
  }
  if (text.empty()) return done;
  return user_error(fmt::format("the plan has text behind its steps: '{}'", text.substr(0, text.find('\n'))));
}

}  // namespace

Result<Plan> parse_plan(std::string_view text) {
  if (text.size() > kLongestText) return user_error("the plan's text is longer than 1 MiB");
  WEFT_TRY(auto plan, parse(text, false));
  if (auto wrong = verify(plan); !wrong.empty()) {
    Error error = user_error("the plan is not sound: " + wrong.front());
    error.notes.assign(wrong.begin() + 1, wrong.end());
    return error;
  }
  WEFT_CHECK(check_steps(text, plan));
  return plan;
}

}  // namespace weft::ir
