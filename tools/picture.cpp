#include "tools/picture.h"

#include "compiler/base/result.h"
#include "compiler/ir/schedule.h"

#include <algorithm>

namespace weft::tools {

namespace {

constexpr std::int64_t kExactPairs = std::int64_t{1} << 21;
constexpr std::int64_t kSamplesPerSide = 6;

/// Positions to look at in [lo, hi): all of them, or some that no stride of a dilated pattern is in step with.
std::vector<std::int64_t> positions(std::int64_t lo, std::int64_t hi, bool sampled) {
  std::vector<std::int64_t> out;
  const auto count = hi - lo;
  if (!sampled || count <= kSamplesPerSide) {
    for (auto x = lo; x < hi; ++x) out.push_back(x);
    return out;
  }
  std::uint64_t state = static_cast<std::uint64_t>(lo) * 0x9e3779b97f4a7c15ULL + 1;
  for (std::int64_t i = 0; i < kSamplesPerSide; ++i) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    const auto from = lo + count * i / kSamplesPerSide, to = lo + count * (i + 1) / kSamplesPerSide;
    out.push_back(from + static_cast<std::int64_t>((state >> 33) % static_cast<std::uint64_t>(to - from)));
  }
  return out;
}

std::int64_t border(std::int64_t cell, std::int64_t cells, std::int64_t tokens) { return cell * tokens / cells; }
std::int64_t cell_of(std::int64_t token, std::int64_t cells, std::int64_t tokens) {
  return std::clamp<std::int64_t>(((token + 1) * cells - 1) / tokens, 0, cells - 1);
}

}  // namespace

Picture make_picture(const ir::PairEvaluator& pairs, const ir::Shape& shape, std::int64_t head, std::int64_t limit) {
  Picture picture{.n_q = shape.n_q, .n_k = shape.n_k, .head = head};
  picture.height = std::min(limit, shape.n_q);
  picture.width = std::min(limit, shape.n_k);
  picture.sampled = shape.n_q > kExactPairs / shape.n_k;
  const auto cells = static_cast<std::size_t>(picture.height * picture.width);
  picture.density.assign(cells, 0);
  picture.strength.assign(cells, 0);
  const auto offset = shape.offset_of(0);
  for (std::int64_t y = 0; y < picture.height; ++y) {
    const auto rows =
        positions(border(y, picture.height, shape.n_q), border(y + 1, picture.height, shape.n_q), picture.sampled);
    for (std::int64_t x = 0; x < picture.width; ++x) {
      const auto keys =
          positions(border(x, picture.width, shape.n_k), border(x + 1, picture.width, shape.n_k), picture.sampled);
      std::int64_t kept = 0, sum = 0;
      for (auto row : rows) {
        for (auto key : keys) {
          const int m = pairs.multiplicity(0, head, row + offset, key);
          kept += m > 0 ? 1 : 0;
          sum += m;
        }
      }
      const auto total = static_cast<float>(rows.size() * keys.size());
      picture.density[picture.at(y, x)] = static_cast<float>(kept) / total;
      picture.strength[picture.at(y, x)] = kept == 0 ? 0 : static_cast<float>(sum) / static_cast<float>(kept);
    }
  }
  for (std::size_t i = 0; i < cells; ++i)
    picture.most = std::max(picture.most, picture.density[i] * picture.strength[i]);
  return picture;
}

Status mark_tiles(Picture& picture, const ir::Plan& plan, const ir::Shape& shape,
                  const std::vector<ir::Tensor>& inputs) {
  picture.tiles.assign(picture.density.size(), TileKind::empty);
  WEFT_TRY(const auto tables, ir::make_tables(plan, shape.heads));
  const auto offset = shape.offset_of(0);
  for (std::size_t p = 0; p < plan.phases.size(); ++p) {
    const auto& phase = plan.phases[p];
    const auto& table = tables.phases[p];
    const auto& head = table.of(picture.head);
    const auto extent = ir::extent_of(shape, 0, phase.stationary, &inputs);
    ir::TileRows rows;
    std::vector<ir::Zone> zones;
    for (std::int64_t tile = 0; tile < ir::tile_count(phase, head, extent); ++tile) {
      ir::rows_of_tile(phase, table, head, extent, tile, rows);
      if (rows.x.empty()) continue;
      for (const auto& pass : head.passes) {
        ir::zones_of_tile(pass, rows, extent, zones);
        for (const auto& zone : zones) {
          const auto kind = zone.full ? TileKind::full : TileKind::partial;
          const auto first = cell_of(zone.lo, picture.width, picture.n_k),
                     last = cell_of(zone.hi - 1, picture.width, picture.n_k);
          for (auto x : rows.x) {
            const auto y = cell_of(x - offset, picture.height, picture.n_q);
            for (auto column = first; column <= last; ++column) {
              auto& mark = picture.tiles[picture.at(y, column)];
              if (mark == TileKind::empty || kind == TileKind::partial) mark = kind;
            }
          }
        }
      }
    }
  }
  return done;
}

}  // namespace weft::tools
