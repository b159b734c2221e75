#include "runtime/draw/picture.h"

#include "compiler/base/result.h"
#include "compiler/ir/schedule.h"

#include <algorithm>

namespace weft::draw {

namespace {

// A pair takes a tenth to a third of a microsecond, and a picture should be there at once.
constexpr std::int64_t kExactPairs = std::int64_t{1} << 20;
constexpr std::int64_t kSampledCells = 256;  ///< in each direction, at most
constexpr std::int64_t kSamplesPerSide = 3;

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
  picture.sampled = shape.n_q > kExactPairs / shape.n_k;
  if (picture.sampled) limit = std::min(limit, kSampledCells);
  picture.height = std::min(limit, shape.n_q);
  picture.width = std::min(limit, shape.n_k);
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

namespace {

constexpr std::int64_t kTilesPerRow = 4;    ///< of the picture, that are looked at …
constexpr std::int64_t kKeysPerColumn = 2;  ///< … and keys, where cells are estimated

/// Marks what a plan's walk over one head visits.
class Marker {
 public:
  Marker(Picture& picture, const ir::Extent& extent, std::int64_t offset)
      : picture_(picture), extent_(extent), offset_(offset) {}

  void mark(const ir::Phase& phase, const ir::HeadTable& head) {
    const auto tiles = ir::tile_count(phase, head, extent_);
    // An odd step meets every place of a cell of tiles.
    const auto wanted = kTilesPerRow * picture_.height;
    const auto step = picture_.sampled && tiles > wanted ? (tiles / wanted) | 1 : 1;
    for (std::int64_t tile = 0; tile < tiles; tile += step) {
      ir::rows_of_tile(phase, head, extent_, tile, rows_);
      if (rows_.x.empty()) continue;
      find_lines();
      for (const auto& pass : head.passes) {
        ir::zones_of_tile(pass, rows_, extent_, zones_);
        for (const auto& zone : zones_) mark(pass, zone);
      }
    }
  }

 private:
  /// Lines of the picture that the tile's rows lie in.
  void find_lines() {
    lines_.clear();
    for (const auto x : rows_.x) {
      const auto y = cell_of(x - offset_, picture_.height, picture_.n_q);
      if (lines_.empty() || lines_.back() != y) lines_.push_back(y);
    }
  }

  void mark(const ir::PassTable& pass, const ir::Zone& zone) {
    const auto lo = std::max<std::int64_t>(zone.lo, 0), hi = std::min(zone.hi, picture_.n_k);
    if (lo >= hi) return;
    const auto kind = zone.full ? TileKind::full : TileKind::partial;
    const bool asks = std::any_of(zone.terms.begin(), zone.terms.end(), [&](int term) {
      return !pass.terms[static_cast<std::size_t>(term)].predicates.empty();
    });
    const auto last = cell_of(hi - 1, picture_.width, picture_.n_k);
    for (auto column = cell_of(lo, picture_.width, picture_.n_k); column <= last; ++column) {
      if (asks && !visits(pass, zone, column)) continue;
      for (const auto y : lines_) {
        auto& mark = picture_.tiles[picture_.at(y, column)];
        if (mark == TileKind::empty || kind == TileKind::partial) mark = kind;
      }
    }
  }

  /// Is there a key of the column that conditions on pairs leave?
  bool visits(const ir::PassTable& pass, const ir::Zone& zone, std::int64_t column) const {
    const auto lo = std::max(zone.lo, border(column, picture_.width, picture_.n_k));
    const auto hi = std::min(zone.hi, border(column + 1, picture_.width, picture_.n_k));
    const auto step = picture_.sampled ? std::max<std::int64_t>(1, (hi - lo) / kKeysPerColumn) : 1;
    for (auto y = lo; y < hi; y += step) {
      for (const auto term : zone.terms) {
        const auto& one = pass.terms[static_cast<std::size_t>(term)];
        if (one.stream.holds(y) && ir::passes_filters(one, rows_, extent_, y)) return true;
      }
    }
    return false;
  }

  Picture& picture_;
  const ir::Extent& extent_;
  std::int64_t offset_;
  ir::TileRows rows_ = {};
  std::vector<ir::Zone> zones_ = {};
  std::vector<std::int64_t> lines_ = {};
};

}  // namespace

void mark_owners(Picture& picture, const ring::OwnerMap& map) {
  const auto owners = [&](std::int64_t cells) {
    std::vector<std::int64_t> out(static_cast<std::size_t>(cells), 0);
    for (std::int64_t cell = 0; cell < cells; ++cell) {
      const ring::Run middle{(border(cell, cells, map.tokens) + border(cell + 1, cells, map.tokens)) / 2, 1};
      for (std::int64_t rank = 0; rank < map.ranks(); ++rank) {
        for (const auto& run : map.runs[static_cast<std::size_t>(rank)]) {
          if (ring::common(run, middle)) out[static_cast<std::size_t>(cell)] = rank;
        }
      }
    }
    return out;
  };
  picture.row_owners = owners(picture.height);
  picture.column_owners = owners(picture.width);
}

Status mark_tiles(Picture& picture, const ir::Plan& plan, const ir::Shape& shape,
                  const std::vector<ir::Tensor>& inputs) {
  picture.tiles.assign(picture.density.size(), TileKind::empty);
  WEFT_TRY(const auto tables, ir::make_tables(plan, shape.heads));
  const ir::PairValues pairs(plan, shape, inputs);
  for (std::size_t p = 0; p < plan.phases.size(); ++p) {
    auto extent = ir::extent_of(shape, 0, plan.phases[p].stationary, &inputs, &tables);
    extent.pairs = &pairs;
    extent.h = picture.head;
    Marker(picture, extent, shape.offset_of(0)).mark(plan.phases[p], tables.phases[p].of(picture.head));
  }
  return done;
}

}  // namespace weft::draw
