#include "compiler/ring/move_queries.h"

#include "compiler/ring/report.h"

#include <algorithm>
#include <cmath>

namespace weft::ring {

namespace {

/// What one rank more than the mean may have.
constexpr double kEven = 1.03;
/// Rows that move keep so many times what a row keeps in the mean, as those do that see everything; not by ranks, or a
/// row's bits would tell of them.
constexpr double kHeavy = 4;
/// They are looked for in so many pieces, and in these by halves; more than a share of all are no exception.
constexpr std::int64_t kPieces = 256, kFewestRows = 8, kMostShare = 16;
/// Chunks of keys, of which each rank wants several, but of not too few keys, as each keeps a state of each row: of
/// many tokens, and of few. They are multiples of kBlock, mostly whole blocks of kernels.
constexpr std::int64_t kChunks = 256, kFewestKeys = 512, kFewChunks = 4, kBlock = 128;

std::int64_t keys_of_chunk(std::int64_t tokens) {
  const auto blocks = [&](std::int64_t chunks) { return (tokens + chunks * kBlock - 1) / (chunks * kBlock) * kBlock; };
  return std::max(blocks(kChunks), std::min(blocks(kFewChunks), kFewestKeys));
}

std::size_t most_of(const std::vector<double>& of) {
  return static_cast<std::size_t>(std::max_element(of.begin(), of.end()) - of.begin());
}

class Mover {
 public:
  Mover(const Relation& relation, Split& split)
      : relation_(relation), split_(split), tokens_(relation.shape().n_q), heads_{0, relation.shape().kv_heads} {}

  std::vector<double> move() && {
    find_rows();
    for (std::int64_t rank = 0; rank < split_.ranks(); ++rank) pairs_.push_back(pairs_of(split_.rows_of(rank)));
    if (split_.moves_queries()) deal_chunks();
    return pairs_;
  }

 private:
  double pairs_of(const Runs& rows, const Keys& keys = {}) const { return relation_.pairs_of({rows, keys}, heads_); }

  void find_rows() {
    enough_ = kHeavy * pairs_of({{0, tokens_}}) / static_cast<double>(tokens_);
    const std::int64_t piece = std::max(kFewestRows, (tokens_ + kPieces - 1) / kPieces);
    for (std::int64_t first = 0; first < tokens_; first += piece) look_at({first, std::min(piece, tokens_ - first)});
    if (count_of(split_.moved.rows) > tokens_ / kMostShare) split_.moved.rows.clear();
  }

  /// Rows of a run that keep enough. A few among many that keep little do so as long as the run is short.
  void look_at(const Run& run) {
    if (relation_.most_pairs_of_row(run) <= enough_) return;
    const double density = pairs_of({run}) / static_cast<double>(run.count);
    const double few = std::min(1.0, static_cast<double>(kFewestRows) / static_cast<double>(run.count));
    if (density <= enough_ * few) return;
    if (run.count <= kFewestRows) return add(run);
    const Run first{run.first, run.count / 2};
    look_at(first);
    look_at({first.end(), run.count - first.count});
  }

  /// Runs come ascending.
  void add(const Run& run) {
    auto& rows = split_.moved.rows;
    if (!rows.empty() && rows.back().end() == run.first)
      rows.back().count += run.count;
    else
      rows.push_back(run);
  }

  /// Chunks to the ranks that own most of them, and then from the rank with the most to do to the one with the least.
  void deal_chunks() {
    auto& moved = split_.moved;
    moved.keys = keys_of_chunk(tokens_);
    const std::int64_t chunks = (tokens_ + moved.keys - 1) / moved.keys;
    std::vector<double> of_chunk;
    std::vector<std::vector<std::int64_t>> owned(static_cast<std::size_t>(chunks),
                                                 std::vector<std::int64_t>(pairs_.size(), 0));
    for (std::size_t rank = 0; rank < pairs_.size(); ++rank) {
      for (const auto& run : split_.computed(static_cast<std::int64_t>(rank))) {
        for (std::int64_t c = run.first / moved.keys; c * moved.keys < run.end(); ++c) {
          owned[static_cast<std::size_t>(c)][rank] +=
              std::min(run.end(), (c + 1) * moved.keys) - std::max(run.first, c * moved.keys);
        }
      }
    }
    for (std::int64_t c = 0; c < chunks; ++c) {
      const auto& by_rank = owned[static_cast<std::size_t>(c)];
      const auto rank = std::max_element(by_rank.begin(), by_rank.end()) - by_rank.begin();
      moved.rank_of.push_back(rank);
      of_chunk.push_back(pairs_of(moved.rows, moved.keys_of(c, c + 1, tokens_)));
      pairs_[static_cast<std::size_t>(rank)] += of_chunk.back();
    }
    for (std::int64_t left = 2 * chunks; left > 0 && imbalance_of(pairs_) > kEven; --left) {
      const auto least = static_cast<std::size_t>(std::min_element(pairs_.begin(), pairs_.end()) - pairs_.begin());
      const auto most = most_of(pairs_);
      const double gap = pairs_[most] - pairs_[least];
      std::int64_t best = -1;
      double off = gap / 2;  // how far it is from halving the gap; it must narrow it
      for (std::int64_t c = 0; c < chunks; ++c) {
        const auto at = static_cast<std::size_t>(c);
        const double now = std::abs(of_chunk[at] - gap / 2);
        if (moved.rank_of[at] == static_cast<std::int64_t>(most) && now < off) best = c, off = now;
      }
      if (best < 0) break;
      moved.rank_of[static_cast<std::size_t>(best)] = static_cast<std::int64_t>(least);
      pairs_[most] -= of_chunk[static_cast<std::size_t>(best)];
      pairs_[least] += of_chunk[static_cast<std::size_t>(best)];
    }
  }

  const Relation& relation_;
  Split& split_;
  const std::int64_t tokens_;
  const Heads heads_;
  std::vector<double> pairs_;
  double enough_ = 0;  ///< of a row
};

}  // namespace

std::vector<double> move_queries(const Relation& relation, Split& split) { return Mover(relation, split).move(); }

}  // namespace weft::ring
