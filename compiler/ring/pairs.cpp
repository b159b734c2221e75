#include "compiler/ring/pairs.h"

namespace weft::ring {

namespace {

__extension__ using Wide = __int128;

/// Sum over i < n of floor((a i + b) / m), all at least 0 (Euclid's algorithm on a and m).
Wide floor_sum(Wide n, Wide m, Wide a, Wide b) {
  Wide sum = 0;
  while (n > 0) {
    sum += (n - 1) * n / 2 * (a / m) + n * (b / m);
    a %= m;
    b %= m;
    const Wide most = a * n + b;
    if (most < m) break;
    n = most / m;
    b = most % m;
    std::swap(m, a);
  }
  return sum;
}

/// Keys of a stream in [0, y).
class Below {
 public:
  explicit Below(const ir::ResolvedCongruence& stream) : stream_(stream) {}

  Wide at(std::int64_t y) const {
    if (stream_.segment == 0) return in_segment(y);
    const std::int64_t whole = y / stream_.segment;
    return Wide{whole} * in_segment(stream_.segment) + in_segment(y - whole * stream_.segment);
  }

  /// Sum of at(y) over a progression of y.
  Wide sum(Run of) const {
    Wide total = 0;
    while (of.count > 0) {
      const std::int64_t w = stream_.segment, whole = w > 0 ? of.first / w : 0;
      Run now = of;
      if (w > 0) now.count = std::min(of.count, ((whole + 1) * w - of.first + of.stride - 1) / of.stride);
      if (w > 0) total += Wide{now.count} * whole * in_segment(w);
      total += floor_sum(now.count, stream_.rate, now.stride, now.first - whole * w - stream_.phase + stream_.rate - 1);
      of = {.first = of.first + now.count * of.stride, .count = of.count - now.count, .stride = of.stride};
    }
    return total;
  }

 private:
  /// A phase is below its rate, so this is never negative.
  std::int64_t in_segment(std::int64_t length) const {
    return (length - stream_.phase + stream_.rate - 1) / stream_.rate;
  }

  const ir::ResolvedCongruence& stream_;
};

/// Rows of a progression from x on, and before it.
Run from(const Run& rows, std::int64_t x) {
  return members({rows.stride, ir::floor_mod(rows.first, rows.stride)}, std::max(rows.first, x), rows.end());
}
Run before(const Run& rows, std::int64_t x) {
  return members({rows.stride, ir::floor_mod(rows.first, rows.stride)}, rows.first, std::min(rows.end(), x));
}
Run shifted(Run rows, std::int64_t by) {
  rows.first += by;
  return rows;
}

Wide kept(const Stretch& stretch, const Below& below) {
  const Line& line = stretch.line;
  if (line.floor >= line.ceiling || line.after >= line.before) return 0;
  // Of rows that keep a key of the interval, some begin at the floor and some end at the ceiling.
  const Run rows = before(from(stretch.rows, line.floor - line.before + 1), line.ceiling - line.after);
  if (rows.count <= 0) return 0;
  const Run at_floor = before(rows, line.floor - line.after), behind = from(rows, line.floor - line.after);
  const Run inside = before(rows, line.ceiling - line.before), at_ceiling = from(rows, line.ceiling - line.before);
  return below.sum(shifted(inside, line.before)) + Wide{at_ceiling.count} * below.at(line.ceiling) -
         below.sum(shifted(behind, line.after)) - Wide{at_floor.count} * below.at(line.floor);
}

Stretch within(Stretch stretch, const Keys& keys) {
  stretch.line.floor = std::max(stretch.line.floor, keys.first);
  stretch.line.ceiling = std::min(stretch.line.ceiling, keys.end);
  return stretch;
}

/// Of terms: what each subset has in common is counted.
constexpr std::size_t kMostTerms = 6, kMostStretches = 16;

/// Pairs of several lists of stretches, by inclusion and exclusion: what two intervals have in common is one, too.
class Union {
 public:
  explicit Union(const std::vector<std::vector<Stretch>>& of) : of_(of) {}
  Wide count() {
    for (std::size_t i = 0; i < of_.size(); ++i) add(of_[i], i, 1);
    return total_;
  }

 private:
  /// What some lists up to number `last` have in common, and with each of those behind.
  void add(const std::vector<Stretch>& common, std::size_t last, int sign) {
    for (const auto& stretch : common) total_ += sign * kept(stretch, below_);
    for (std::size_t next = last + 1; next < of_.size(); ++next) {
      std::vector<Stretch> both;
      for (const auto& a : common) {
        for (const auto& b : of_[next]) {
          const auto rows = ring::common(a.rows, b.rows);
          if (!rows) continue;
          both.push_back({.rows = *rows,
                          .line = {.floor = std::max(a.line.floor, b.line.floor),
                                   .ceiling = std::min(a.line.ceiling, b.line.ceiling),
                                   .after = std::max(a.line.after, b.line.after),
                                   .before = std::min(a.line.before, b.line.before)}});
        }
      }
      if (!both.empty()) add(both, next, -sign);
    }
  }

  const std::vector<std::vector<Stretch>>& of_;
  const ir::ResolvedCongruence every_ = {.rate = 1};
  const Below below_{every_};
  Wide total_ = 0;
};

}  // namespace

double pairs_of(const TermForm& term, const Run& rows, const Keys& keys) {
  const Below below(term.term().stream);
  Wide total = 0;
  term.each_stretch(rows, [&](const Stretch& stretch) { total += kept(within(stretch, keys), below); });
  return static_cast<double>(total);
}

double most_pairs_of_row(const TermForm& term, const Run& rows) {
  const auto& stream = term.term().stream;
  std::int64_t most = 0;
  term.each_stretch(rows, [&](const Stretch& stretch) {
    const Line& line = stretch.line;
    const auto width =
        std::min({line.ceiling - line.floor, line.before - line.after, line.ceiling - stretch.rows.first - line.after,
                  stretch.rows.last() + line.before - line.floor});
    if (width <= 0) return;
    // In each segment the stream begins anew.
    const auto begun = 2 + (stream.segment > 0 ? width / stream.segment : 0);
    most = std::max(most, std::min(width, width / stream.rate + begun));
  });
  return static_cast<double>(most);
}

std::optional<double> pairs_of_union(std::span<const TermForm> terms, const Run& rows, const Keys& keys) {
  std::vector<std::vector<Stretch>> stretches;
  for (const auto& term : terms) {
    if (term.term().stream.rate != 1 || !term.term().filters.empty()) return std::nullopt;
    auto& of_term = stretches.emplace_back();
    term.each_stretch(rows, [&](const Stretch& stretch) { of_term.push_back(within(stretch, keys)); });
    if (of_term.size() > kMostStretches || terms.size() > kMostTerms) return std::nullopt;
  }
  return static_cast<double>(Union(stretches).count());
}

}  // namespace weft::ring
