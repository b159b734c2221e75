#include "compiler/ir/schedule.h"
#include "compiler/planner/passes.h"

#include <algorithm>
#include <cmath>

namespace weft::planner {
namespace {

/// Conditions on pairs are evaluated for every row of a tile, which takes most of the time.
constexpr std::int64_t kSampledTiles = 40, kSampledConditionalTiles = 8;
constexpr std::int64_t kSampledHeads = 2, kSampledKinds = 4;
/// A masked block against a full one: mask, one vector of queries a register tile. Measured 1.3 to 1.5.
constexpr double kPartialCost = 1.4;

/// Share of a sample of y that some term hits: what conditions say is asked key by key, so a few short stretches of the
/// zone speak for it. Stretches are as many steps of the first term's walk.
double sampled_share(const ir::PassTable& pass, const ir::Zone& zone, const ir::TileRows& rows,
                     const ir::Extent& extent) {
  constexpr std::int64_t kStretches = 4, kSteps = 16;
  const auto& first = pass.terms[static_cast<std::size_t>(zone.terms.front())];
  const std::int64_t length = kSteps * ir::step_of(first, rows, extent);
  std::int64_t hits = 0, tried = 0;
  ir::Zone part = zone;
  for (std::int64_t i = 0; i < kStretches; ++i) {
    part.lo = std::max(zone.lo + (zone.hi - zone.lo) * i / kStretches, i > 0 ? part.hi : zone.lo);
    part.hi = std::min(zone.hi, part.lo + length);
    if (part.lo >= part.hi) break;
    ir::for_each_hit(pass, part, rows, extent, [&](const ir::Hit&) { ++hits; });
    tried += part.hi - part.lo;
  }
  return static_cast<double>(hits) / static_cast<double>(tried);
}

/// Share of y in the zone that some stream hits, taking streams as independent.
double hit_share(const ir::PassTable& pass, const ir::Zone& zone, const ir::TileRows& rows, const ir::Extent& extent) {
  const auto conditional = [&](int t) { return !pass.terms[static_cast<std::size_t>(t)].predicates.empty(); };
  if (std::any_of(zone.terms.begin(), zone.terms.end(), conditional)) return sampled_share(pass, zone, rows, extent);
  double missed = 1;
  for (int t : zone.terms) missed *= 1 - 1.0 / static_cast<double>(pass.terms[static_cast<std::size_t>(t)].stream.rate);
  return 1 - missed;
}

struct SampledHead {
  std::int64_t h;
  double weight;
};

/// A few heads; where conditions tell them apart, one of each kind, for as many as are of it.
std::vector<SampledHead> heads_to_sample(const ir::Phase& phase, const ir::PhaseTable& table) {
  const bool told_apart = std::any_of(phase.passes.begin(), phase.passes.end(), [](const ir::Pass& pass) {
    return std::any_of(pass.ranges.begin(), pass.ranges.end(),
                       [](const auto& range) { return !range.when.empty() || !(range.heads == ir::HeadSet{}); });
  });
  const auto heads = static_cast<std::int64_t>(table.head_of.size()),
             kinds = static_cast<std::int64_t>(table.head.size());
  std::vector<SampledHead> out;
  if (told_apart && kinds <= kSampledKinds) {
    for (std::int64_t kind = 0; kind < kinds; ++kind) {
      const auto of = std::count(table.head_of.begin(), table.head_of.end(), static_cast<int>(kind));
      const auto first = std::find(table.head_of.begin(), table.head_of.end(), static_cast<int>(kind));
      out.push_back({first - table.head_of.begin(), static_cast<double>(of)});
    }
    return out;
  }
  // An odd step meets heads that differ by their remainders.
  const std::int64_t step = told_apart ? std::max<std::int64_t>(1, heads / kSampledKinds) | 1
                                       : std::max<std::int64_t>(1, heads / kSampledHeads);
  for (std::int64_t h = 0; h < heads; h += step) out.push_back({h, 1});
  return out;
}

}  // namespace

double simulate(const ir::Plan& plan, const ir::Phase& phase, std::int64_t heads, std::int64_t tokens) {
  ir::Plan alone = plan;
  alone.phases = {phase};
  const auto tables = ir::make_tables(alone, heads);
  if (!tables.ok()) return INFINITY;
  const ir::PhaseTable& table = tables->phases[0];
  // Inputs of one element, which every index meets: full lengths, one document, nothing masked.
  std::vector<ir::Tensor> inputs;
  for (const auto& input : plan.inputs) {
    inputs.emplace_back(std::vector<std::int64_t>(input.axes.size(), 1), static_cast<double>(tokens));
  }
  ir::Shape shape;
  shape.n_q = shape.n_k = tokens;
  shape.heads = heads;
  const ir::PairValues pairs(plan, shape, inputs);
  ir::Extent extent = ir::extent_of(shape, 0, phase.stationary, &inputs, &*tables);
  extent.pairs = &pairs;
  double cost = 0;
  ir::TileRows rows;
  std::vector<ir::Zone> zones;
  double sampled_heads = 0;
  for (const auto& [h, weight] : heads_to_sample(phase, table)) {
    sampled_heads += weight;
    const ir::HeadTable& head = table.of(h);
    extent.h = h;
    const std::int64_t total = ir::tile_count(phase, head, extent);
    // An odd stride meets every place of a cell, also when cells hold a power of two of tiles.
    const std::int64_t wanted = plan.predicates.empty() ? kSampledTiles : kSampledConditionalTiles;
    const std::int64_t step = std::max<std::int64_t>(1, total / wanted) | 1;
    double of_head = 0;
    std::int64_t sampled = 0;
    for (std::int64_t tile = 0; tile < total; tile += step, ++sampled) {
      ir::rows_of_tile(phase, head, extent, tile, rows);
      for (const auto& pass : head.passes) {
        ir::zones_of_tile(pass, rows, extent, zones);
        for (const auto& zone : zones) {
          of_head += static_cast<double>(zone.hi - zone.lo) * hit_share(pass, zone, rows, extent) *
                     (zone.full ? 1 : kPartialCost);
        }
      }
    }
    if (sampled > 0) of_head *= static_cast<double>(total) / static_cast<double>(sampled);
    cost += weight * of_head * phase.rows.tile / static_cast<double>(tokens);
  }
  return cost / sampled_heads;
}

}  // namespace weft::planner
