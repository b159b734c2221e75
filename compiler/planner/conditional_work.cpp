#include "compiler/planner/conditional_work.h"

#include "compiler/ir/few_rows.h"
#include "compiler/ir/schedule.h"

#include <algorithm>
#include <cmath>

namespace weft::planner {
namespace {

using ir::Extent;
using ir::PassTable;
using ir::TileRows;
using ir::Zone;

constexpr std::int64_t kMostTiles = 96;     ///< counted, of one head
constexpr std::int64_t kFewestKeys = 1024;  ///< that a tile is asked about: more tiles are no use beyond that
/// A long zone's keys are taken from so many pieces of it at most. Each begins like a block of keys and is some of them
/// long, as what conditions keep mostly does: pieces that cut it would count groups of keys that no kernel cuts.
constexpr std::int64_t kPieces = 16, kBlock = 128;
/// … and is no longer than so many blocks, of which conditions on keys may drop nearly all.
constexpr std::int64_t kMostBlocks = 64;

/// Which pairs of one head are asked about, so that a head costs what it may.
struct Sampling {
  std::int64_t tiles = 0;  ///< of the head
  std::int64_t keys = 0;   ///< of each of them that are hit, all of its zones together

  Sampling(std::int64_t all_tiles, std::int64_t rows, std::int64_t most_pairs)
      : tiles(std::min({all_tiles, kMostTiles, std::max<std::int64_t>(2, most_pairs / (kFewestKeys * rows))})),
        keys(std::max(kBlock, most_pairs / std::max<std::int64_t>(1, tiles * rows))) {}
};

double up(double keys, int step) {
  return static_cast<double>((static_cast<std::int64_t>(keys) + step - 1) / step * step);
}

class Counter {
 public:
  /// Asks about so many keys of a tile.
  Counter(const ir::Plan& plan, const Extent& extent, std::int64_t keys)
      : plan_(plan), choices_(plan.choices), extent_(extent), keys_(keys) {}

  Work count(const ir::Phase& phase, const ir::HeadTable& head, const TileRows& rows) {
    Work work;
    if (rows.x.empty()) return work;
    work.row_tiles = 1;
    for (std::size_t p = 0; p < head.passes.size(); ++p) pass(phase.passes[p], head.passes[p], rows, work);
    return work;
  }

  bool sampled() const { return sampled_; }

 private:
  void pass(const ir::Pass& plan, const PassTable& table, const TileRows& rows, Work& work) {
    ir::zones_of_tile(table, rows, extent_, zones_);
    const bool on_gpu = choices_.kernel_class != ir::KernelClass::vector;
    const auto block = ir::full_block(plan_, rows.x.size(), extent_.x_end - extent_.x_begin);
    double full = 0, masked = 0, all = 0;
    for (const Zone& zone : zones_) all += most_hits(table, zone, rows);
    const auto share = [&](const Zone& zone) {
      return std::ceil(most_hits(table, zone, rows) / all * static_cast<double>(keys_));
    };
    for (const Zone& zone : zones_) {
      if (!zone.full) continue;
      Walked walked;
      const double factor = sample(table, rows, zone, share(zone), nullptr, walked);
      sampled_ = sampled_ || factor > 1;
      full += static_cast<double>(walked.hits) * factor;
      if (plan.out) work.pairs += static_cast<double>(walked.kept) * factor;
    }
    // On GPUs keys of full zones that fill no block go in front of the partial ones.
    const std::int64_t rest = on_gpu ? static_cast<std::int64_t>(full) % choices_.tile_k : 0;
    work.executed += on_gpu ? (full - static_cast<double>(rest) + up(static_cast<double>(rest), choices_.sub_k)) *
                                  up(static_cast<double>(rows.x.size()), choices_.sub_q)
                            : up(full, block.keys) * block.rows;
    const auto sub_q = static_cast<std::size_t>(choices_.sub_q);
    Groups groups{.keys = rest, .last = {}};
    groups.last.assign((rows.x.size() + sub_q - 1) / sub_q, (rest + choices_.sub_k - 1) / choices_.sub_k - 1);
    for (const Zone& zone : zones_) {
      if (zone.full) continue;
      Walked walked;
      const double factor = sample(table, rows, zone, share(zone), &groups, walked);
      sampled_ = sampled_ || factor > 1;
      const double keys = static_cast<double>(walked.hits) * factor;
      masked += keys;
      (lists_in_runs(plan_, table, zone, rows) ? work.listed_in_runs : work.listed_singly) += keys;
      if (plan.out) work.pairs += static_cast<double>(walked.kept) * factor;
      const double pairs = static_cast<double>(walked.groups) * choices_.sub_k * choices_.sub_q * factor;
      work.executed += pairs;
      work.masked += pairs;
    }
    const auto blocks = [&](double keys) { return up(keys, choices_.tile_k) / choices_.tile_k; };
    work.full_tiles += blocks(full);
    work.partial_tiles += blocks(masked);
  }

  /// Keys hit, pairs kept, and sub-tiles that hold a kept pair.
  struct Walked {
    std::int64_t hits = 0, kept = 0, groups = 0;
  };
  /// The stream of keys that partial zones are, cut into groups of sub_k: the last one counted, per sub-tile of rows.
  struct Groups {
    std::int64_t keys = 0;
    std::vector<std::int64_t> last;
    /// Keys that do not follow upon those before share no group with them.
    void begin(int sub_k) { keys = (keys + sub_k - 1) / sub_k * sub_k; }
  };

  /// The most keys that streams hit in a zone; conditions on keys may drop any of them.
  double most_hits(const PassTable& table, const Zone& zone, const TileRows& rows) const {
    return static_cast<double>(zone.hi - zone.lo) / static_cast<double>(step_of(table, zone, rows));
  }
  std::int64_t step_of(const PassTable& table, const Zone& zone, const TileRows& rows) const {
    std::int64_t step = zone.hi - zone.lo;
    for (int t : zone.terms) {
      step = std::min(step, ir::step_of(table.terms[static_cast<std::size_t>(t)], rows, extent_));
    }
    return std::max<std::int64_t>(1, step);
  }

  /// Do conditions on keys leave so few in a zone that is short enough to look?
  bool few_hits(const PassTable& table, const Zone& zone, const TileRows& rows, double most) const {
    if (most_hits(table, zone, rows) > static_cast<double>(kBlock * kMostBlocks)) return false;
    std::int64_t hits = 0;
    ir::for_each_hit(table, zone, rows, extent_, [&](const ir::Hit&) { ++hits; });
    return static_cast<double>(hits) <= most;
  }

  /// Walks a zone, or pieces of it with `most` hits together: one of each part, not always at the same place of it, so
  /// that neither ends nor a period are preferred. Returns how many keys one of those walked stands for.
  double sample(const PassTable& table, const TileRows& rows, const Zone& zone, double most, Groups* groups,
                Walked& out) const {
    const std::int64_t length = zone.hi - zone.lo, block = kBlock * step_of(table, zone, rows);
    if (length <= block || most_hits(table, zone, rows) <= most || few_hits(table, zone, rows, most)) {
      walk(table, rows, zone, groups, out);
      return 1;
    }
    const std::int64_t pieces =
        std::clamp<std::int64_t>(static_cast<std::int64_t>(most) / kBlock, 1, std::min(kPieces, length / block));
    std::uint64_t state = 1;
    std::int64_t walked = 0;
    Zone part = zone;
    for (std::int64_t i = 0; i < pieces; ++i) {
      const std::int64_t from = zone.lo + length / pieces * i + length % pieces * i / pieces;
      const std::int64_t to = zone.lo + length / pieces * (i + 1) + length % pieces * (i + 1) / pieces;
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      const std::int64_t places = std::max<std::int64_t>(1, (to - from) / block);
      const auto place = static_cast<std::int64_t>((state >> 33) % static_cast<std::uint64_t>(places));
      part.lo = std::max(from, (from + place * block) / kBlock * kBlock);
      if (groups != nullptr) groups->begin(choices_.sub_k);
      const auto enough = out.hits + static_cast<std::int64_t>(most) / pieces;
      for (std::int64_t blocks = 0; blocks < kMostBlocks && part.lo < to && out.hits < enough; ++blocks) {
        part.hi = std::min(part.lo + block, to);
        walk(table, rows, part, groups, out);
        walked += part.hi - part.lo;
        part.lo = part.hi;
      }
    }
    return static_cast<double>(length) / static_cast<double>(walked);
  }

  void walk(const PassTable& table, const TileRows& rows, const Zone& part, Groups* groups, Walked& out) const {
    const auto sub_q = static_cast<std::size_t>(choices_.sub_q);
    ir::for_each_hit(table, part, rows, extent_, [&](const ir::Hit& hit) {
      ++out.hits;
      if (part.full) {  // each row keeps what the first one keeps
        out.kept += ir::weight_of(table, hit, true, rows, 0, extent_) * static_cast<std::int64_t>(rows.x.size());
        return;
      }
      const std::int64_t group = groups->keys++ / choices_.sub_k;
      for (std::size_t r = 0; r < rows.x.size(); ++r) {
        const int weight = ir::weight_of(table, hit, false, rows, r, extent_);
        out.kept += weight;
        if (weight == 0 || groups->last[r / sub_q] >= group) continue;
        groups->last[r / sub_q] = group;
        ++out.groups;
      }
    });
  }

  const ir::Plan& plan_;
  const ir::Choices& choices_;
  const Extent& extent_;
  std::int64_t keys_;
  std::vector<Zone> zones_;
  bool sampled_ = false;
};

}  // namespace

bool lists_in_runs(const ir::Plan& plan, const PassTable& pass, const Zone& zone, const TileRows& rows) {
  if (zone.terms.size() != 1) return false;
  const auto& uses = pass.terms[static_cast<std::size_t>(zone.terms.front())].predicates;
  return std::all_of(uses.begin(), uses.end(), [&](const ir::PredicateUse& use) {
    const auto number = static_cast<std::size_t>(use.number);
    const auto& of_tile = rows.predicates[number];
    if (of_tile.on_row != 0) return of_tile.some_meet == 0 || of_tile.some_fail == 0;
    const auto& condition = plan.predicates[number];
    return of_tile.runs == 1 || (condition.key && condition.modulus == 0 && !use.negated);
  });
}

Work count_conditional(const ir::Plan& plan, const ir::Phase& phase, const ir::HeadTable& head, const Extent& extent,
                       std::int64_t together, std::int64_t most_pairs) {
  Work total;
  TileRows rows;
  const std::int64_t tiles = ir::tile_count(phase, head, extent);
  if (tiles == 0) return total;
  const Sampling sampling(tiles, phase.rows.tile * together, most_pairs);
  Counter counter(plan, extent, sampling.keys);
  // An odd step meets every place of a cell.
  const std::int64_t step = tiles > sampling.tiles ? (tiles / sampling.tiles) | 1 : 1;
  std::int64_t counted = 0;
  for (std::int64_t tile = 0; tile < tiles; tile += step, ++counted) {
    ir::rows_of_tile(phase, head, extent, tile, rows);
    ir::repeat_rows(rows, together);
    total += counter.count(phase, head, rows);
  }
  total.sampled = step > 1 || counter.sampled();
  return total.scaled(static_cast<double>(tiles) / static_cast<double>(counted * together));
}

}  // namespace weft::planner
