#include "compiler/ring/stretches.h"

namespace weft::ring {

TermForm::TermForm(const ir::Term& term, const ir::HeadTable& head, const ir::Extent& extent) : term_(term) {
  using Kind = ir::Bound::Kind;
  line_.floor = extent.y_begin;
  line_.ceiling = extent.y_end;
  const auto read = [&](const std::vector<ir::Bound>& bounds, std::vector<SegmentBound>& in_segments, const auto& fixed,
                        const auto& following) {
    for (const auto& bound : bounds) {
      if (bound.kind == Kind::segment) {
        in_segments.push_back({bound.a, bound.add});
        segments_.push_back(bound.a);
      } else if (bound.kind == Kind::row) {
        following(bound.add);
      } else {
        fixed(ir::value_of(bound, 0, extent));
      }
    }
  };
  read(
      term.lo, los_, [&](std::int64_t at) { line_.floor = std::max(line_.floor, at); },
      [&](std::int64_t add) { line_.after = std::max(line_.after, add); });
  read(
      term.hi, his_, [&](std::int64_t at) { line_.ceiling = std::min(line_.ceiling, at); },
      [&](std::int64_t add) { line_.before = std::min(line_.before, add); });
  for (std::size_t bit = 0; bit < head.row_bits.size(); ++bit) {
    const auto mask = std::uint64_t{1} << bit;
    const auto& c = head.row_bits[bit];
    if (((term.row_need | term.row_miss) & mask) == 0) continue;
    const bool wanted = ((term.row_need & mask) != 0) != c.negated;
    (wanted ? holds_ : fails_).push_back(c);
    if (c.segment > 0) segments_.push_back(c.segment);
  }
  row_begin_ = extent.x_begin;
  row_end_ = extent.x_end;
  for (const auto& condition : term.rows) {
    const std::int64_t at = ir::value_of(condition.bound, 0, extent);
    if (condition.below)
      row_end_ = std::min(row_end_, at);
    else
      row_begin_ = std::max(row_begin_, at);
  }
}

Line TermForm::line_at(std::int64_t x) const {
  Line line = line_;
  for (const auto& b : los_) line.floor = std::max(line.floor, ir::floor_div(x, b.segment) * b.segment + b.add);
  for (const auto& b : his_) line.ceiling = std::min(line.ceiling, ir::floor_div(x, b.segment) * b.segment + b.add);
  return line;
}

std::int64_t TermForm::next_border(std::int64_t x, std::int64_t end) const {
  for (const auto segment : segments_) end = std::min(end, (ir::floor_div(x, segment) + 1) * segment);
  return end;
}

std::optional<Residue> TermForm::residue_at(std::int64_t x, Residue of) const {
  std::optional<Residue> out = of;
  for (const auto& c : holds_) {
    if (out) out = common(*out, residue_in(c, x));
  }
  return out;
}

}  // namespace weft::ring
