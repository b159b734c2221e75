#include "compiler/ir/schedule.h"
#include "compiler/planner/passes.h"

#include <algorithm>
#include <cmath>

namespace weft::planner {
namespace {

constexpr std::int64_t kSampledTiles = 40;
constexpr std::int64_t kSampledHeads = 2;
/// A masked block against a full one: mask, one vector of queries a register tile. Measured 1.3 to 1.5.
constexpr double kPartialCost = 1.4;

/// Share of y in the zone that some stream hits, taking streams as independent.
double hit_share(const ir::PassTable& pass, const ir::Zone& zone) {
  double missed = 1;
  for (int t : zone.terms) missed *= 1 - 1.0 / static_cast<double>(pass.terms[static_cast<std::size_t>(t)].stream.rate);
  return 1 - missed;
}

}  // namespace

double simulate(const ir::Plan& plan, const ir::Phase& phase, std::int64_t heads, std::int64_t tokens) {
  ir::Plan alone = plan;
  alone.phases = {phase};
  const auto tables = ir::make_tables(alone, heads);
  if (!tables.ok()) return INFINITY;
  const ir::PhaseTable& table = tables->phases[0];
  const std::vector<ir::Tensor> inputs(plan.inputs.size(), ir::Tensor({1}, static_cast<double>(tokens)));
  const ir::Extent extent{
      .x_begin = 0, .x_end = tokens, .y_begin = 0, .y_end = tokens, .tokens = tokens, .b = 0, .inputs = &inputs};
  double cost = 0;
  ir::TileRows rows;
  std::vector<ir::Zone> zones;
  const std::int64_t head_step = std::max<std::int64_t>(1, heads / kSampledHeads);
  std::int64_t sampled_heads = 0;
  for (std::int64_t h = 0; h < heads; h += head_step, ++sampled_heads) {
    const ir::HeadTable& head = table.of(h);
    const std::int64_t total = ir::tile_count(phase, head, extent);
    // An odd stride meets every place of a cell, also when cells hold a power of two of tiles.
    const std::int64_t step = std::max<std::int64_t>(1, total / kSampledTiles) | 1;
    double of_head = 0;
    std::int64_t sampled = 0;
    for (std::int64_t tile = 0; tile < total; tile += step, ++sampled) {
      ir::rows_of_tile(phase, table, head, extent, tile, rows);
      for (const auto& pass : head.passes) {
        ir::zones_of_tile(pass, rows, extent, zones);
        for (const auto& zone : zones) {
          of_head += static_cast<double>(zone.hi - zone.lo) * hit_share(pass, zone) * (zone.full ? 1 : kPartialCost);
        }
      }
    }
    if (sampled > 0) of_head *= static_cast<double>(total) / static_cast<double>(sampled);
    cost += of_head * phase.rows.tile / static_cast<double>(tokens);
  }
  return cost / static_cast<double>(sampled_heads);
}

}  // namespace weft::planner
