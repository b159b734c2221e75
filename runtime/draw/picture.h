#pragma once

#include "compiler/ir/pattern.h"
#include "compiler/ir/pattern_interpreter.h"
#include "compiler/ir/plan.h"
#include "compiler/ring/owners.h"

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

/// A pattern as a picture: rows are queries, columns are keys, the colour is the multiplicity.
namespace weft::draw {

enum class TileKind : std::uint8_t { empty, partial, full };

/// A grid of cells, each the summary of a rectangle of pairs.
struct Picture {
  std::int64_t n_q = 0, n_k = 0, head = 0;
  std::int64_t height = 0, width = 0;
  bool sampled = false;                                           ///< cells were estimated from some of their pairs
  std::vector<float> density = {};                                ///< share of the cell's pairs that are kept
  std::vector<float> strength = {};                               ///< mean multiplicity of those
  std::vector<TileKind> tiles = {};                               ///< what a plan visits there; empty unless asked for
  std::vector<std::int64_t> row_owners = {}, column_owners = {};  ///< ranks of a ring; empty unless asked for
  float most = 1;  ///< the largest mean multiplicity over all pairs of a cell
  std::size_t at(std::int64_t y, std::int64_t x) const { return static_cast<std::size_t>(y * width + x); }
};

/// At most `limit` cells in each direction. Exact up to a million pairs; beyond, cells are larger and estimated from
/// some of their pairs, so that time and memory do not depend on the lengths.
Picture make_picture(const ir::PairEvaluator& pairs, const ir::Shape& shape, std::int64_t head, std::int64_t limit);

/// Marks what the plan's walk visits: empty, partial and full tiles.
Status mark_tiles(Picture& picture, const ir::Plan& plan, const ir::Shape& shape,
                  const std::vector<ir::Tensor>& inputs);

/// Notes for each row and column of cells which rank owns the token in its middle: rows take the colours of ranks.
void mark_owners(Picture& picture, const ring::OwnerMap& map);

/// Half a character a cell, in colour; without colour, shades of the mean multiplicity of two cells.
std::string to_terminal(const Picture& picture, bool color);
std::string to_svg(const Picture& picture, const std::string& title);

struct Color {
  int r, g, b;
  auto operator<=>(const Color&) const = default;
};
Color color_of(const Picture& picture, std::int64_t y, std::int64_t x);

}  // namespace weft::draw
