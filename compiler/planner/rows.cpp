#include "compiler/planner/passes.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft::planner {
namespace {

using ir::Carry;
using ir::Congruence;
using ir::KeyRange;
using ir::Phase;

/// Streamed rows whose work a state of acc, m and l costs to store and load again.
constexpr double kCarryCost = 16;
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

struct Option {
  std::vector<std::vector<KeyRange>> groups;  ///< one phase each
  std::vector<bool> classes;                  ///< rows of the phase grouped by its members?
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
    for (const auto& branch : draft.pattern.branches)
      heads_ = std::max(heads_, std::min<std::int64_t>(branch.heads.count, 64));
  }

  void run() {
    Option best = single(false, "consecutive rows");
    const auto by = members(draft_.ranges);
    if (!by.empty() && by.size() <= kMostMembers) {
      keep_better(best, single(true, "rows by class"));
      const bool one_softmax =
          draft_.pattern.combine == ir::Combine::joint || draft_.pattern.combine == ir::Combine::joint_detached;
      if (one_softmax && !draft_.plan.bind.branch_lse) keep_better(best, phases_of_branches());
    }
    for (std::size_t i = 0; i < best.groups.size(); ++i) {
      draft_.plan.phases.push_back(make_phase(best.groups[i], best.classes[i]));
      if (best.groups.size() > 1) {
        draft_.plan.phases.back().carry = i == 0 ? Carry::out : i + 1 == best.groups.size() ? Carry::in : Carry::inout;
      }
    }
  }

 private:
  Phase make_phase(const std::vector<KeyRange>& ranges, bool classes) const {
    Phase phase;
    phase.stationary = draft_.options.stationary;
    phase.rows.tile = draft_.plan.choices.tile_q;
    phase.rows.classes = classes;
    if (classes) phase.rows.by = members(ranges);
    phase.passes = softmax_passes(draft_, ranges);
    return phase;
  }

  double cost_of(const std::vector<KeyRange>& ranges, bool classes) const {
    return simulate(draft_.plan, make_phase(ranges, classes), heads_, tokens_);
  }

  Option single(bool classes, const char* name) {
    Option option{
        .groups = {draft_.ranges}, .classes = {classes}, .cost = cost_of(draft_.ranges, classes), .name = name};
    note(option);
    return option;
  }

  void note(const Option& option) {
    draft_.plan.reasons.push_back(fmt::format("rows: {} costs {:.0f} keys a row", option.name, option.cost));
  }

  static void keep_better(Option& best, Option other) {
    if (other.cost < best.cost) best = std::move(other);
  }

  struct Group {
    std::vector<KeyRange> ranges;
    std::vector<Congruence> by;
    double cost = 0;
  };

  Group grouped(std::vector<KeyRange> ranges) const {
    Group group{.ranges = std::move(ranges), .by = {}, .cost = 0};
    group.by = members(group.ranges);
    group.cost = cost_of(group.ranges, !group.by.empty());
    return group;
  }

  /// One phase per row order, then phases that cost less together are joined.
  Option phases_of_branches() {
    std::vector<Group> groups;
    for (int b = 0; b < draft_.plan.branches; ++b) {
      std::vector<KeyRange> ranges;
      std::copy_if(draft_.ranges.begin(), draft_.ranges.end(), std::back_inserter(ranges),
                   [&](const KeyRange& r) { return r.branch == b; });
      if (ranges.empty()) continue;
      const auto by = members(ranges);
      const auto at = std::find_if(groups.begin(), groups.end(), [&](const Group& g) { return g.by == by; });
      if (at == groups.end()) {
        groups.push_back({std::move(ranges), by, 0});
      } else {
        at->ranges.insert(at->ranges.end(), ranges.begin(), ranges.end());
      }
    }
    for (auto& group : groups) group = grouped(std::move(group.ranges));
    if (groups.size() <= kMostGroups) join_groups(groups);
    Option option{
        .groups = {}, .classes = {}, .cost = 0, .name = fmt::format("{} phases with carried state", groups.size())};
    for (auto& group : groups) {
      option.cost += group.cost + (groups.size() > 1 ? kCarryCost : 0);
      option.classes.push_back(!group.by.empty());
      option.groups.push_back(std::move(group.ranges));
    }
    if (option.groups.size() > 1) note(option);
    return option;
  }

  void join_groups(std::vector<Group>& groups) const {
    bool joined = true;
    while (joined && groups.size() > 1) {
      joined = false;
      for (std::size_t i = 0; i + 1 < groups.size() && !joined; ++i) {
        std::vector<KeyRange> both = groups[i].ranges;
        both.insert(both.end(), groups[i + 1].ranges.begin(), groups[i + 1].ranges.end());
        Group candidate = grouped(std::move(both));
        if (candidate.cost >= groups[i].cost + groups[i + 1].cost + kCarryCost) continue;
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
  const bool separate = combine == ir::Combine::sum || combine == ir::Combine::mean;
  if (!separate) {
    ir::Pass pass;
    for (int b = 0; b < branches; ++b) {
      if (std::any_of(ranges.begin(), ranges.end(), [&](const KeyRange& r) { return r.branch == b; }))
        pass.branches.push_back(b);
    }
    pass.ranges = ranges;
    pass.weight = combine == ir::Combine::unite ? ir::Weight::one : ir::Weight::count;
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
      passes.push_back(std::move(pass));
    }
  }
  return passes;
}

void choose_rows(Draft& draft) { RowChooser(draft).run(); }

}  // namespace weft::planner
