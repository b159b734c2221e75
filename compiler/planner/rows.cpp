#include "compiler/planner/conjunctions.h"
#include "compiler/planner/passes.h"
#include "compiler/planner/row_periods.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

namespace weft::planner {
namespace {

using ir::Carry;
using ir::Congruence;
using ir::KeyRange;
using ir::Phase;

/// Streamed rows whose work a further phase costs: a state of acc, m and l stored and loaded again, and tiles that
/// begin and end once more. By matrix instructions 64 keys take 3,500 clocks of a model (docs/machine.md), begin and
/// end of a tile 12,000 to 19,000; the products of gradients are twice as many.
constexpr double kCarryCost = 16, kCarryCostOfMatrices = 300;
/// Launches of few queries can cut the keys of one phase into chunks (cut_keys), not of several: those cost so many
/// times less, or are not taken.
constexpr double kCutsAreWorth = 2;
constexpr std::size_t kMostMembers = 64;
constexpr std::size_t kMostGroups = 6;  ///< above it orders are not searched pair by pair

Congruence plain(Congruence c) {
  c.negated = false;
  return c;
}

/// The dilations that rows are conditioned on, each once.
std::vector<Congruence> members(const std::vector<KeyRange>& ranges) {
  std::vector<Congruence> out;
  for (const auto& range : ranges) {
    for (const auto& c : range.row_congruences) {
      if (c.rate > 1 && std::find(out.begin(), out.end(), plain(c)) == out.end()) out.push_back(plain(c));
    }
  }
  return out;
}

/// How the rows of a phase are grouped into tiles: by members, by patches, or (neither) as they come.
struct Order {
  std::vector<Congruence> by;
  std::int64_t modulus = 0, line = 0, patch = 1, patch_lines = 1, step = 1, line_step = 1;
  bool operator==(const Order&) const = default;
  bool plain() const { return by.empty() && modulus == 0; }
};

constexpr std::int64_t kMostModulus = 4096;

/// Tiles hold rows whose place in a period is the same, as most ranges ask for: the residue of a lag, or the runs that
/// conditions on rows alone keep.
Order periods(const Draft& draft, const std::vector<KeyRange>& ranges, std::int64_t heads) {
  std::map<std::pair<std::int64_t, std::int64_t>, int> asked;  // by modulus and patch
  const ir::Choices& choices = draft.plan.choices;
  for (const auto& range : ranges) {
    for (const auto& use : range.predicates) {
      const std::int64_t m = draft.plan.predicates[static_cast<std::size_t>(use.number)].modulus;
      if (m > 1 && m <= kMostModulus && !use.negated) ++asked[{m, 1}];
    }
    if (choices.kernel_class == ir::KernelClass::vector)
      continue;  // whose rows skip keys by themselves, a few a vector
    const auto kept = row_period(draft.plan, range, draft.options.stationary, heads);
    if (kept) ++asked[{kept->period, std::gcd(kept->run, choices.tile_q)}];
  }
  const auto most =
      std::max_element(asked.begin(), asked.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  Order out;
  if (most != asked.end()) std::tie(out.modulus, out.patch) = most->first;
  return out;
}

Order order_of(const Draft& draft, const std::vector<KeyRange>& ranges, std::int64_t heads) {
  Order out{.by = members(ranges)};
  if (out.by.size() > kMostMembers) out.by.clear();
  return out.by.empty() ? periods(draft, ranges, heads) : out;
}

std::int64_t power_below(std::int64_t n, std::int64_t most) {
  std::int64_t p = 1;
  while (2 * p <= std::min(n, most)) p *= 2;
  return p;
}

/// The largest dilation of any neighborhood, axis by axis.
void widen_dilation(const ir::Set& set, std::vector<std::int64_t>& dilation) {
  if (set.kind == ir::SetKind::neighborhood) {
    for (std::size_t axis = 0; axis < std::min(dilation.size(), set.args.size() / 4); ++axis)
      dilation[axis] = std::max(dilation[axis], set.args[4 * axis + 1]);
  }
  for (const auto& child : set.children) widen_dilation(*child, dilation);
}

/// Squares or cubes of a grid, that neighbours share most keys: where each vector of rows skips keys by itself, vectors
/// are squares, else tiles are. Neighbours of a dilated neighborhood stand apart.
std::optional<Order> grid_patches(const ir::Pattern& pattern, const ir::Choices& choices) {
  const std::int64_t tile = choices.tile_q;
  const bool by_vectors = choices.kernel_class == ir::KernelClass::vector;
  const auto& grid = pattern.grid;
  std::vector<std::int64_t> dilation(grid.size(), 1);
  for (const auto& branch : pattern.branches) widen_dilation(*branch.set, dilation);
  Order out;
  if (grid.size() == 2) {
    // Lines of one residue follow each other in the modulus.
    out.line = dilation[0] > 1 ? grid[1] : 0;
    out.patch = power_below(grid[1] / dilation[1], tile >= 64 && !by_vectors ? 8 : 4);
    out.step = dilation[1];
  } else if (grid.size() == 3) {
    out.line = grid[2];
    out.patch = power_below(grid[2] / dilation[2], 4);
    out.patch_lines = power_below(grid[1] / dilation[1], 4);
    out.step = dilation[2];
    out.line_step = dilation[1];
  } else {
    return std::nullopt;
  }
  out.modulus = dilation[0];
  for (std::size_t axis = 1; axis < grid.size(); ++axis) {
    if (grid[axis] > kMostModulus / out.modulus) return std::nullopt;
    out.modulus *= grid[axis];
  }
  const bool fits = out.modulus > 1 && tile % (out.patch * out.patch_lines) == 0;
  return fits ? std::optional(out) : std::nullopt;
}

struct Option {
  std::vector<std::vector<KeyRange>> groups;  ///< one phase each
  std::vector<Order> orders;                  ///< of its rows
  double cost = 0;
  std::string name;
};

class RowChooser {
 public:
  explicit RowChooser(Draft& draft) : draft_(draft) {
    for (const auto& range : draft.ranges) {
      for (const auto& c : range.row_congruences) longest_ = std::max(longest_, c.segment);
    }
    tokens_ = std::clamp<std::int64_t>(2 * longest_, 4096, 65536);
    heads_ = std::min<std::int64_t>(draft.pattern.heads.value_or(4), 4);
    for (const auto& range : draft.ranges) {
      const bool told_apart = !range.when.empty() || range.heads.kind == ir::HeadSet::Kind::range;
      const std::int64_t heads = std::max<std::int64_t>(range.heads.hi, 16);
      if (told_apart) heads_ = std::max(heads_, std::clamp<std::int64_t>(draft.pattern.heads.value_or(heads), 1, 64));
    }
    for (const auto& branch : draft.pattern.branches)
      heads_ = std::max(heads_, std::min<std::int64_t>(branch.heads.count, 64));
  }

  void run() {
    const Order order = order_of(draft_, draft_.ranges, heads_);
    std::optional<Order> patches;
    if (!draft_.plan.predicates.empty()) patches = grid_patches(draft_.pattern, draft_.plan.choices);
    if (order.plain() && !patches) {
      draft_.plan.reasons.emplace_back("rows: consecutive rows, as nothing in the pattern asks for others");
      draft_.plan.phases.push_back(make_phase(draft_.ranges, {}));
      return;
    }
    Option best = single({}, "consecutive rows");
    if (!order.plain()) {
      keep_better(best, single(order, name_of(order)));
      const double worth = order.by.empty() && draft_.chunk_k > 0 ? kCutsAreWorth : 1;
      if (auto option = in_phases(); option && worth * option->cost < best.cost) best = std::move(*option);
    }
    if (patches) keep_better(best, single(*patches, "patches of the grid"));
    for (std::size_t i = 0; i < best.groups.size(); ++i) {
      draft_.plan.phases.push_back(make_phase(best.groups[i], best.orders[i]));
      if (best.groups.size() > 1) {
        draft_.plan.phases.back().carry = i == 0 ? Carry::out : i + 1 == best.groups.size() ? Carry::in : Carry::inout;
      }
    }
  }

 private:
  /// Several softmaxes over branches cannot share one running state.
  std::optional<Option> in_phases() {
    const auto combine = draft_.pattern.combine;
    // Nor can the deltas that branches have of their own, which are wanted before anything is added up.
    if (draft_.plan.bind.gradient && combine == ir::Combine::joint_detached) return std::nullopt;
    if (draft_.plan.bind.branch_lse || combine == ir::Combine::sum || combine == ir::Combine::mean) return std::nullopt;
    const bool is_union = combine == ir::Combine::unite || draft_.plan.branches == 1;
    return is_union ? phases_of_union() : phases_of_branches();
  }

  Phase make_phase(const std::vector<KeyRange>& ranges, const Order& order) const {
    Phase phase;
    phase.stationary = draft_.options.stationary;
    phase.rows.tile = draft_.plan.choices.tile_q;
    phase.rows.classes = !order.plain();
    phase.rows.by = order.by;
    phase.rows.modulus = order.modulus;
    phase.rows.line = order.line;
    phase.rows.patch = order.patch;
    phase.rows.patch_lines = order.patch_lines;
    phase.rows.step = order.step;
    phase.rows.line_step = order.line_step;
    phase.passes = softmax_passes(draft_, ranges);
    return phase;
  }

  double cost_of(const std::vector<KeyRange>& ranges, const Order& order) const {
    return simulate(draft_.plan, make_phase(ranges, order), heads_, tokens_);
  }

  Option single(const Order& order, const char* name) {
    Option option{.groups = {draft_.ranges}, .orders = {order}, .cost = cost_of(draft_.ranges, order), .name = name};
    note(option);
    return option;
  }

  void note(const Option& option) {
    draft_.plan.reasons.push_back(fmt::format("rows: {} costs {:.0f} keys a row", option.name, option.cost));
  }

  static const char* name_of(const Order& order) {
    if (!order.by.empty()) return "rows by class";
    return order.patch > 1 ? "rows that a condition keeps apart from others" : "rows by residue";
  }

  static void keep_better(Option& best, Option other) {
    if (other.cost < best.cost) best = std::move(other);
  }

  struct Group {
    std::vector<KeyRange> ranges;
    Order order;
    double cost = 0;
  };

  Group grouped(std::vector<KeyRange> ranges) const {
    Group group{.ranges = std::move(ranges), .order = {}, .cost = 0};
    group.order = order_of(draft_, group.ranges, heads_);
    group.cost = cost_of(group.ranges, group.order);
    return group;
  }

  double carry_cost() const {
    if (draft_.plan.choices.kernel_class != ir::KernelClass::mma) return kCarryCost;
    return draft_.plan.bind.gradient ? kCarryCostOfMatrices / 2 : kCarryCostOfMatrices;
  }

  Option phases_of(std::vector<Group> groups) {
    Option option{
        .groups = {}, .orders = {}, .cost = 0, .name = fmt::format("{} phases with carried state", groups.size())};
    for (auto& group : groups) {
      option.cost += group.cost + (groups.size() > 1 ? carry_cost() : 0);
      option.orders.push_back(group.order);
      option.groups.push_back(std::move(group.ranges));
    }
    if (option.groups.size() > 1) note(option);
    return option;
  }

  /// Pieces of a union that want different orders: each phase leaves out what those before it have visited.
  std::optional<Option> phases_of_union() {
    constexpr std::size_t kMostPieces = 64;
    struct Part {
      Order order;
      Dnf pieces;
      int branch;
    };
    std::vector<Part> parts;
    for (std::size_t b = 0; b < draft_.branches.size(); ++b) {
      if (!(draft_.pattern.branches[b].heads == ir::HeadSet{})) return std::nullopt;
      for (const auto& c : draft_.branches[b]) {
        const int branch = static_cast<int>(b);
        const Order order = order_of(draft_, {range_of(c, branch, {})}, heads_);
        const auto at = std::find_if(parts.begin(), parts.end(), [&](const Part& p) { return p.order == order; });
        if (at == parts.end()) {
          parts.push_back({order, {c}, branch});
        } else {
          at->pieces.push_back(c);
        }
      }
    }
    if (parts.size() < 2 || parts.size() > kMostGroups) return std::nullopt;
    std::stable_partition(parts.begin(), parts.end(), [](const Part& p) { return p.order.plain(); });
    std::vector<Group> groups;
    Dnf before;
    for (const auto& part : parts) {
      const auto rest = opposite(before, kMostPieces);
      const auto pieces = rest ? both(part.pieces, *rest, kMostPieces) : rest;
      if (!pieces) return std::nullopt;
      std::vector<KeyRange> ranges;
      for (const auto& c : *pieces) ranges.push_back(range_of(c, part.branch, {}));
      if (!ranges.empty()) {
        const double cost = cost_of(ranges, part.order);
        groups.push_back({std::move(ranges), part.order, cost});
      }
      before = unite(std::move(before), part.pieces);
    }
    return phases_of(std::move(groups));
  }

  /// One phase per row order, then phases that cost less together are joined.
  Option phases_of_branches() {
    std::vector<Group> groups;
    for (int b = 0; b < draft_.plan.branches; ++b) {
      std::vector<KeyRange> ranges;
      std::copy_if(draft_.ranges.begin(), draft_.ranges.end(), std::back_inserter(ranges),
                   [&](const KeyRange& r) { return r.branch == b; });
      if (ranges.empty()) continue;
      const Order order = order_of(draft_, ranges, heads_);
      const auto at = std::find_if(groups.begin(), groups.end(), [&](const Group& g) { return g.order == order; });
      if (at == groups.end()) {
        groups.push_back({std::move(ranges), order, 0});
      } else {
        at->ranges.insert(at->ranges.end(), ranges.begin(), ranges.end());
      }
    }
    for (auto& group : groups) group = grouped(std::move(group.ranges));
    if (groups.size() <= kMostGroups) join_groups(groups);
    return phases_of(std::move(groups));
  }

  void join_groups(std::vector<Group>& groups) const {
    bool joined = true;
    while (joined && groups.size() > 1) {
      joined = false;
      for (std::size_t i = 0; i + 1 < groups.size() && !joined; ++i) {
        std::vector<KeyRange> both = groups[i].ranges;
        both.insert(both.end(), groups[i + 1].ranges.begin(), groups[i + 1].ranges.end());
        Group candidate = grouped(std::move(both));
        if (candidate.cost >= groups[i].cost + groups[i + 1].cost + carry_cost()) continue;
        groups[i] = std::move(candidate);
        groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(i) + 1);
        joined = true;
      }
    }
  }

  Draft& draft_;
  std::int64_t longest_ = 0;
  std::int64_t tokens_ = 4096;
  std::int64_t heads_ = 4;
};

}  // namespace

bool counts_branches(const ir::Pattern& pattern) {
  const auto& of = pattern.branches;
  if (pattern.combine == ir::Combine::joint_detached) return of.size() > 1;  // each has a delta of its own
  if (pattern.combine != ir::Combine::joint) return false;
  for (std::size_t i = 0; i < of.size(); ++i) {
    const auto meets = [&](const ir::Branch& other) { return !are_apart(of[i].heads, other.heads); };
    if (std::any_of(of.begin(), of.begin() + static_cast<std::ptrdiff_t>(i), meets)) return true;
  }
  return false;
}

std::vector<ir::Pass> softmax_passes(const Draft& draft, const std::vector<ir::KeyRange>& ranges) {
  const auto combine = draft.pattern.combine;
  const auto branches = draft.plan.branches;
  const auto of_branch = [&](int b) {
    std::vector<KeyRange> out;
    std::copy_if(ranges.begin(), ranges.end(), std::back_inserter(out),
                 [&](const KeyRange& r) { return r.branch == b; });
    return out;
  };
  std::vector<ir::Pass> passes;
  // On GPUs each branch has its turn where it has a delta of its own: P of a pair is added up for every branch that
  // keeps it, which is the count of the joint softmax.
  const bool has_deltas = combine == ir::Combine::joint_detached && draft.plan.bind.gradient &&
                          draft.plan.choices.kernel_class != ir::KernelClass::vector;
  const bool separate = combine == ir::Combine::sum || combine == ir::Combine::mean || has_deltas;
  if (!separate) {
    ir::Pass pass;
    for (int b = 0; b < branches; ++b) {
      if (std::any_of(ranges.begin(), ranges.end(), [&](const KeyRange& r) { return r.branch == b; }))
        pass.branches.push_back(b);
    }
    pass.ranges = ranges;
    pass.weight = counts_branches(draft.pattern) ? ir::Weight::count : ir::Weight::one;
    pass.lse = draft.plan.weights == ir::Weights::softmax;
    passes.push_back(std::move(pass));
  }
  if (separate || draft.plan.bind.branch_lse) {
    for (int b = 0; b < branches; ++b) {
      ir::Pass pass{.branches = {b},
                    .ranges = of_branch(b),
                    .weight = ir::Weight::one,
                    .out = separate,
                    .factor = 1,
                    .lse_slot = b,
                    .lse = true};
      if (combine == ir::Combine::mean) pass.factor = 1.0 / branches;
      if (has_deltas) {
        pass.lse_slot = -1;
        pass.lse = false;
      }
      passes.push_back(std::move(pass));
    }
  }
  return passes;
}

void choose_rows(Draft& draft) { RowChooser(draft).run(); }

}  // namespace weft::planner
