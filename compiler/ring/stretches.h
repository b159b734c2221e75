#pragma once

#include "compiler/ir/schedule.h"
#include "compiler/ring/runs.h"

#include <functional>
#include <limits>
#include <vector>

/// Rows of a term, cut where its closed forms change.
namespace weft::ring {

/// Keys of a row x: max(floor, x + after) <= y < min(ceiling, x + before). Where no bound follows the row, `after` and
/// `before` are numbers that no position reaches.
struct Line {
  static constexpr std::int64_t kFar = std::int64_t{1} << 40;
  std::int64_t floor = 0, ceiling = 0;
  std::int64_t after = -kFar, before = kFar;
  std::int64_t lo(std::int64_t x) const { return std::max(floor, x + after); }
  std::int64_t hi(std::int64_t x) const { return std::min(ceiling, x + before); }
};

/// Rows that the term concerns, a progression, and one line for all of them.
struct Stretch {
  Run rows;
  Line line;
};

/// One term of a head without conditions on pairs, with bounds and congruences as far as they are known before the row.
class TermForm {
 public:
  TermForm(const ir::Term& term, const ir::HeadTable& head, const ir::Extent& extent);

  std::int64_t lo(std::int64_t x) const { return line_at(x).lo(x); }
  std::int64_t hi(std::int64_t x) const { return line_at(x).hi(x); }

  /// Calls visit(stretch), rows ascending, for the rows of `among` that meet the term's conditions on rows.
  template <typename Visit>
  void each_stretch(const Run& among, const Visit& visit) const;

  const ir::Term& term() const { return term_; }

 private:
  struct SegmentBound {
    std::int64_t segment, add;
  };

  Line line_at(std::int64_t x) const;
  /// The first row behind x, or `end`, from which on a segment of a bound or of a congruence is another.
  std::int64_t next_border(std::int64_t x, std::int64_t end) const;
  /// What the rows of the segments around x have in common; nothing where none is concerned.
  std::optional<Residue> residue_at(std::int64_t x, Residue of) const;

  const ir::Term& term_;
  Line line_;                                          ///< of bounds without segments
  std::vector<SegmentBound> los_, his_;                ///< the others
  std::vector<std::int64_t> segments_;                 ///< of any of it
  std::vector<ir::ResolvedCongruence> holds_, fails_;  ///< of rows; `negated` is no more looked at
  std::int64_t row_begin_ = 0, row_end_ = 0;
};

/// The congruence inside the segment that v lies in, as one of all numbers.
inline Residue residue_in(const ir::ResolvedCongruence& c, std::int64_t v) {
  const std::int64_t start = c.segment > 0 ? ir::floor_div(v, c.segment) * c.segment : 0;
  return {.rate = c.rate, .residue = ir::floor_mod(start + c.phase, c.rate)};
}

template <typename Visit>
void TermForm::each_stretch(const Run& among, const Visit& visit) const {
  const Residue rows{.rate = among.stride, .residue = ir::floor_mod(among.first, among.stride)};
  const std::int64_t end = std::min(among.end(), row_end_);
  for (std::int64_t x = std::max(among.first, row_begin_), next; x < end; x = next) {
    next = next_border(x, end);
    const auto residue = residue_at(x, rows);
    if (!residue) continue;
    const Stretch stretch{.rows = members(*residue, x, next), .line = line_at(x)};
    if (stretch.rows.count == 0) continue;
    if (fails_.empty()) {
      visit(stretch);
      continue;
    }
    for (std::int64_t row = stretch.rows.first; row < next; row += stretch.rows.stride) {
      const auto met = [&](const ir::ResolvedCongruence& c) { return residue_in(c, row).holds(row); };
      if (std::none_of(fails_.begin(), fails_.end(), met)) visit(Stretch{.rows = {row, 1}, .line = stretch.line});
    }
  }
}

}  // namespace weft::ring
