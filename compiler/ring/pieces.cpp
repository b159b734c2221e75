#include "compiler/ring/pieces.h"

#include <numeric>

namespace weft::ring {

namespace {

/// A period that is walked to tell which of its keys several progressions hit.
constexpr std::int64_t kLongestPeriod = 1 << 16;

/// [lo, hi) of the term's keys: cut at the segments of its stream and filters, in which they are progressions.
void add_interval(const ir::Term& term, std::int64_t lo, std::int64_t hi, std::vector<Piece>& out) {
  const auto border = [&](const ir::ResolvedCongruence& c, std::int64_t at, std::int64_t end) {
    return c.segment > 0 ? std::min(end, (ir::floor_div(at, c.segment) + 1) * c.segment) : end;
  };
  for (std::int64_t next; lo < hi; lo = next) {
    next = border(term.stream, lo, hi);
    for (const auto& filter : term.filters) next = border(filter, lo, next);
    Piece piece{.lo = lo, .hi = next, .of = residue_in(term.stream, lo)};
    bool some = true;
    for (const auto& filter : term.filters) {
      const Residue residue = residue_in(filter, lo);
      if (filter.negated) {
        piece.without.push_back(residue);
      } else if (const auto both = common(piece.of, residue); both) {
        piece.of = *both;
      } else {
        some = false;
      }
    }
    if (some && !out.empty() && out.back().hi == lo && out.back().of == piece.of && out.back().without == piece.without)
      out.back().hi = next;
    else if (some)
      out.push_back(std::move(piece));
  }
}

/// Keys that the rows of one stretch reach. Intervals of neighbouring rows meet, or every row has its own.
void add_stretch(const TermForm& term, const Stretch& stretch, std::int64_t lo, std::int64_t hi,
                 std::vector<Piece>& out) {
  const Line& line = stretch.line;
  if (line.floor >= line.ceiling || line.after >= line.before) return;
  const Run rows = common(stretch.rows, Run{.first = line.floor - line.before + 1,
                                            .count = line.ceiling - line.after - line.floor + line.before - 1})
                       .value_or(Run{});
  const bool meet = line.before - line.after >= rows.stride;
  const std::int64_t steps = meet ? 1 : rows.count;
  for (std::int64_t i = 0; i < std::min(steps, rows.count); ++i) {
    const std::int64_t first = meet ? rows.first : rows.first + i * rows.stride, last = meet ? rows.last() : first;
    add_interval(term.term(), std::max(lo, line.lo(first)), std::min(hi, line.hi(last)), out);
  }
}

bool has(const Piece& piece, std::int64_t key) {
  return piece.of.holds(key) &&
         std::none_of(piece.without.begin(), piece.without.end(), [&](const Residue& r) { return r.holds(key); });
}

/// Every key of the inner one is one of the outer.
bool covers(const Piece& outer, const Piece& inner) {
  return outer.without.empty() && inner.of.rate % outer.of.rate == 0 && outer.of.holds(inner.of.residue);
}

using Pieces = std::vector<const Piece*>;

/// Keys that some pieces have and others have not, where all of them reach over one interval.
class Stretcher {
 public:
  Stretcher(const Pieces& over, const Pieces& before, const std::optional<Residue>& own) : own_(own) {
    Pieces sorted = over;
    std::sort(sorted.begin(), sorted.end(), [](const Piece* a, const Piece* b) {
      return std::pair(a->of.rate, a->of.residue) < std::pair(b->of.rate, b->of.residue);
    });
    const auto covered = [](const Pieces& by, const Piece& piece) {
      return std::any_of(by.begin(), by.end(), [&](const Piece* outer) { return covers(*outer, piece); });
    };
    for (const auto* piece : sorted) {
      if (!covered(before, *piece) && !covered(over_, *piece)) over_.push_back(piece);
    }
    for (const auto* piece : before) {
      const auto meets = [&](const Piece* other) { return common(piece->of, other->of).has_value(); };
      if (!covered(before_, *piece) && std::any_of(over_.begin(), over_.end(), meets)) before_.push_back(piece);
    }
  }

  void emit(std::int64_t lo, std::int64_t hi, Runs& out) const {
    if (over_.empty()) return;
    if (is_simple()) {
      for (const auto* piece : over_) add(members(piece->of, lo, hi), out);
      return;
    }
    const std::int64_t period = period_of();
    if (period == 0 || period >= hi - lo) {
      for (std::int64_t key = lo; key < hi; ++key) {
        if (hit(key)) add({key, 1}, out);
      }
      return;
    }
    for (std::int64_t key = lo; key < lo + period; ++key) {
      if (hit(key)) add(members({period, ir::floor_mod(key, period)}, lo, hi), out);
    }
  }

 private:
  /// No two have a key in common, and nothing is taken from them.
  bool is_simple() const {
    if (own_ || !before_.empty()) return false;
    for (std::size_t i = 0; i < over_.size(); ++i) {
      if (!over_[i]->without.empty()) return false;
      for (std::size_t j = 0; j < i; ++j) {
        if (common(over_[i]->of, over_[j]->of)) return false;
      }
    }
    return true;
  }

  std::int64_t period_of() const {
    std::int64_t period = own_ ? own_->rate : 1;
    const auto join = [&](const Residue& r) {
      if (period > 0) period = r.rate > kLongestPeriod ? 0 : std::lcm(period, r.rate);
      if (period > kLongestPeriod) period = 0;
    };
    for (const auto* pieces : {&over_, &before_}) {
      for (const auto* piece : *pieces) {
        join(piece->of);
        for (const auto& residue : piece->without) join(residue);
      }
    }
    return period;
  }

  bool hit(std::int64_t key) const {
    const auto any = [&](const Pieces& pieces) {
      return std::any_of(pieces.begin(), pieces.end(), [&](const Piece* piece) { return has(*piece, key); });
    };
    return !(own_ && own_->holds(key)) && any(over_) && !any(before_);
  }

  static void add(const Run& run, Runs& out) {
    if (run.count == 0) return;
    Run* const last = out.empty() ? nullptr : &out.back();
    if (last != nullptr && run.stride == 1 && last->stride == 1 && last->end() == run.first)
      last->count += run.count;
    else
      out.push_back(run);
  }

  Pieces over_, before_;
  const std::optional<Residue>& own_;
};

/// Those of a list, sorted by where they begin, that reach over intervals which ascend.
class Sweep {
 public:
  explicit Sweep(std::span<const Piece> pieces) {
    for (const auto& piece : pieces) {
      if (piece.lo < piece.hi) sorted_.push_back(&piece);
    }
    std::sort(sorted_.begin(), sorted_.end(), [](const Piece* a, const Piece* b) { return a->lo < b->lo; });
  }

  void add_cuts(std::vector<std::int64_t>& cuts) const {
    for (const auto* piece : sorted_) cuts.insert(cuts.end(), {piece->lo, piece->hi});
  }

  const Pieces& over(std::int64_t lo) {
    std::erase_if(over_, [&](const Piece* piece) { return piece->hi <= lo; });
    for (; next_ < sorted_.size() && sorted_[next_]->lo <= lo; ++next_) over_.push_back(sorted_[next_]);
    return over_;
  }

 private:
  Pieces sorted_, over_;
  std::size_t next_ = 0;
};

}  // namespace

void add_pieces(const TermForm& term, const Run& rows, std::int64_t lo, std::int64_t hi, std::vector<Piece>& out) {
  term.each_stretch(rows, [&](const Stretch& stretch) { add_stretch(term, stretch, lo, hi, out); });
}

Runs disjoint(std::span<const Piece> pieces, const Runs& own, std::span<const Piece> before) {
  // A striped rank owns a residue everywhere; the runs of others are holes.
  std::optional<Residue> striped;
  if (own.size() == 1 && own[0].stride > 1)
    striped = Residue{own[0].stride, ir::floor_mod(own[0].first, own[0].stride)};
  Sweep wanted(pieces), had(before);
  std::vector<std::int64_t> cuts;
  wanted.add_cuts(cuts);
  had.add_cuts(cuts);
  if (!striped) {
    for (const auto& run : own) cuts.insert(cuts.end(), {run.first, run.end()});
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  Runs out;
  auto hole = own.begin();
  for (std::size_t c = 0; c + 1 < cuts.size(); ++c) {
    const std::int64_t lo = cuts[c], hi = cuts[c + 1];
    const auto& over = wanted.over(lo);
    const auto& under = had.over(lo);
    if (!striped) {
      while (hole != own.end() && hole->end() <= lo) ++hole;
      if (hole != own.end() && hole->first <= lo) continue;
    }
    Stretcher(over, under, striped).emit(lo, hi, out);
  }
  return out;
}

}  // namespace weft::ring
