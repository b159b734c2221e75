#include "laboratory/explain/ring_report.h"

#include "compiler/ir/plan_words.h"
#include "compiler/planner/planner.h"
#include "compiler/ring/backward.h"
#include "compiler/ring/owners.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <iterator>
#include <utility>

namespace weft::explain {

namespace {

std::string bytes(double value) {
  for (auto [unit, name] : {std::pair{1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1e3, "KB"}}) {
    if (value >= unit) return fmt::format("{:.3g} {}", value / unit, name);
  }
  return fmt::format("{:.0f} B", value);
}

struct Extremes {
  double mean = 0, most = 0;
};
/// Of a member of each rank's share, or what a function of it says.
template <typename Member>
Extremes extremes_of(const ring::Report& report, Member member) {
  Extremes out;
  for (const auto& share : report.ranks) {
    const auto value = static_cast<double>(std::invoke(member, share));
    out.mean += value / static_cast<double>(report.ranks.size());
    out.most = std::max(out.most, value);
  }
  return out;
}

Json json_of(const Extremes& of) { return {{"mean", of.mean}, {"max", of.most}}; }

}  // namespace

Result<RingOf> ring_of(std::int64_t ranks, const std::string& layout, const std::string& carrier,
                       const ir::Pattern& pattern, const std::string& said) {
  if (ranks < 1 || ranks > ring::kMostRanks)
    return user_error(fmt::format("{} {}: expected from 1 to {} ranks", said, ranks, ring::kMostRanks));
  RingOf out{.ranks = ranks};
  if (!layout.empty()) {
    const auto found = std::find_if(std::begin(ir::kLayouts), std::end(ir::kLayouts),
                                    [&](const auto& word) { return layout == word.name; });
    if (found == std::end(ir::kLayouts)) return user_error(fmt::format("{}: '{}' is not a layout", said, layout));
    out.layout = found->value;
  }
  if (!carrier.empty()) {
    const auto named = ring::carrier_named(carrier);
    if (!named)
      return user_error(fmt::format("{}: '{}' is no carrier; expected auto, keys, heads or queries", said, carrier));
    out.carrier = *named;
  }
  if (!pattern.ring) return out;
  const auto& own = *pattern.ring;
  if (own.ranks && *own.ranks != ranks)
    return user_error(fmt::format("{} {}: the pattern says 'ring {}'", said, ranks, *own.ranks));
  if (layout.empty())
    out.layout = own.layout;
  else if (own.layout != out.layout)
    return user_error(
        fmt::format("{} {}:{}: the pattern's ring is '{}'", said, ranks, layout, ir::to_string(own.layout)));
  return out;
}

Result<ring::Choice> owners_of(const Planned& planned, const ir::Shape& shape, const std::vector<ir::Tensor>& inputs,
                               const RingOf& ring) {
  // Others need no look at the pattern.
  if (ring.layout != ir::RingLayout::automatic && ring.carrier != ring::Carrier::heads && shape.n_q == shape.n_k)
    return ring::Choice{.split =
                            ring::Split::of_owners(ring::owners(ring.layout, shape.n_q, ring.ranks), shape.kv_heads)};
  WEFT_TRY(const auto tables, ir::make_tables(planned.plan, shape.heads));
  WEFT_TRY(const auto relation, ring::Relation::make(planned.plan, tables, shape, inputs));
  return ring::choose_within(ring.memory, relation, ring.layout, ring.ranks,
                             ring::machine_of(planned.plan, planned.target), ring.carrier);
}

Result<RingReport> ring_report(const Planned& planned, const ir::Shape& shape, const std::vector<ir::Tensor>& inputs,
                               const RingOf& ring) {
  const auto start = std::chrono::steady_clock::now();
  // Owners of a backward pass are those of the forward.
  ir::Plan plan = planned.plan, by_key;
  if (planned.bind.gradient) {
    auto bind = planned.bind;
    bind.gradient = false;
    WEFT_TRY(plan, planner::plan(planned.pattern, bind, planned.target, {.for_kernels = false}));
    WEFT_TRY(by_key, planner::plan(planned.pattern, bind, planned.target,
                                   {.stationary = ir::Stationary::key, .for_kernels = false}));
  }
  WEFT_TRY(const auto tables, ir::make_tables(plan, shape.heads));
  WEFT_TRY(const auto relation, ring::Relation::make(plan, tables, shape, inputs));
  const auto machine = ring::machine_of(plan, planned.target);
  WEFT_TRY(auto choice, ring::choose_within(ring.memory, relation, ring.layout, ring.ranks, machine, ring.carrier));
  ring::Report report;
  if (planned.bind.gradient) {
    WEFT_CHECK(ring::prepare_backward(choice.split));
    WEFT_TRY(const auto tables_by_key, ir::make_tables(by_key, shape.heads));
    WEFT_TRY(const auto transposed, ring::Relation::make(by_key, tables_by_key, shape, inputs));
    report = report_of(ring::BackwardNeeds(relation, transposed, choice.split, planned.plan.finds_deltas()), machine);
  } else {
    report = ring::report_of(relation, choice.split, machine);
  }
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  return RingReport{.choice = std::move(choice),
                    .report = std::move(report),
                    .assumed = machine.assumed,
                    .needs = relation.undivided()   ? "even"
                             : relation.is_closed() ? "closed"
                                                    : "walked",
                    .plan_ms = took.count()};
}

std::string to_text(const RingReport& ring) {
  using Share = ring::RankShare;
  const auto& report = ring.report;
  const auto needed = extremes_of(report, &Share::needed_bytes), field = extremes_of(report, &Share::field_bytes),
             rows = extremes_of(report, &Share::rows_bytes), messages = extremes_of(report, &Share::messages),
             tokens = extremes_of(report, &Share::tokens);
  std::string out;
  const auto line = [&]<typename... Args>(fmt::format_string<Args...> format, Args&&... args) {
    out += "  ";
    fmt::format_to(std::back_inserter(out), format, std::forward<Args>(args)...);
    out += '\n';
  };
  line("ring of {} ranks: {}, {:.0f} tokens a rank at most, carrier {}, bits of {}", report.ranks.size(),
       ring.choice.split.home.name, tokens.most, carrier_of(ring.choice.split, report), bits_of(ring.choice.split));
  if (report.is_local())
    line("  no rank needs a key of another; a ring or all-gather of all keys moves {} to each", bytes(field.mean));
  else
    line("  a rank receives {}{}, {} at most, from {:.0f} ranks at most; a ring or all-gather of all keys {}",
         bytes(needed.mean),
         ring.choice.split.changes_heads() || ring.choice.split.moves_queries() ? ""
         : rows.most > 0 ? " of K, V and rows of Q, dO, O and LSE"
                         : " of K and V",
         bytes(needed.most), messages.most, bytes(field.mean));
  if (const auto& moved = ring.choice.split.moved; ring.choice.split.moves_queries())
    line("  queries of {} rows go to the keys, to {} chunks of {}; what these kept goes back",
         ring::count_of(moved.rows), moved.chunks(), moved.keys);
  if (const auto keys = ring.choice.split.round_keys; keys > 0)
    line("  K and V are there in {} rounds of {} keys, the next beside the one that is computed",
         (ring.choice.split.home.tokens + keys - 1) / keys, keys);
  const auto held = extremes_of(report, &Share::held_bytes);
  line("  its kernels read {} of K and V, {} at most: own and received", bytes(held.mean), bytes(held.most));
  line("  pairs: the rank with the most has {:.3f} times the mean; needs {}", report.imbalance,
       ring.needs == "closed"   ? "in closed form"
       : ring.needs == "walked" ? "looked for pair by pair"
                                : "nothing of other rows, and pairs are taken to be spread evenly");
  line("  predicted: {:.4g} ms for the slowest rank, efficiency {:.3f}, on {}", 1e3 * report.predicted_s,
       report.efficiency, ring.assumed);
  for (const auto& reason : ring.choice.reasons) line("  because {}", reason);
  line("  planned in {:.1f} ms", ring.plan_ms);
  return out;
}

Json to_json(const RingReport& ring) {
  using Share = ring::RankShare;
  const auto& report = ring.report;
  return {{"ranks", report.ranks.size()},
          {"layout", ring.choice.split.home.name},
          {"carrier", carrier_of(ring.choice.split, report)},
          {"bits", bits_of(ring.choice.split)},
          {"imbalance", report.imbalance},
          {"efficiency", report.efficiency},
          {"predicted_ms", 1e3 * report.predicted_s},
          {"assumed", ring.assumed},
          {"needs", ring.needs},
          {"needed_bytes", json_of(extremes_of(report, &Share::needed_bytes))},
          {"sent_bytes", json_of(extremes_of(report, &Share::sent_bytes))},
          {"rows_bytes", json_of(extremes_of(report, &Share::rows_bytes))},
          {"held_bytes", json_of(extremes_of(report, &Share::held_bytes))},
          {"field_bytes", json_of(extremes_of(report, &Share::field_bytes))},
          {"messages", json_of(extremes_of(report, &Share::messages))},
          {"pairs", json_of(extremes_of(report, &Share::pairs))},
          {"tokens", json_of(extremes_of(report, &Share::tokens))},
          {"plan_ms", ring.plan_ms},
          {"reasons", ring.choice.reasons}};
}

}  // namespace weft::explain
