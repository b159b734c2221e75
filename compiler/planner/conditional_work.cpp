#include "compiler/planner/conditional_work.h"

#include "compiler/ir/few_rows.h"
#include "compiler/ir/schedule.h"

#include <algorithm>

namespace weft::planner {
namespace {

using ir::Extent;
using ir::PassTable;
using ir::TileRows;
using ir::Zone;

constexpr std::int64_t kSampledTiles = 96;
constexpr std::int64_t kSampledKeys = 32768;  ///< of one zone
constexpr std::int64_t kPieces = 16;          ///< that they are taken from

/// Calls `visit` for stretches of a zone; returns how many keys one of those looked at stands for.
template <typename Visit>
double sample(const Zone& zone, const Visit& visit) {
  const std::int64_t length = zone.hi - zone.lo;
  if (length <= kSampledKeys) {
    visit(zone);
    return 1;
  }
  const std::int64_t each = kSampledKeys / kPieces;
  Zone part = zone;
  for (std::int64_t i = 0; i < kPieces; ++i) {
    part.lo = zone.lo + (length - each) * i / (kPieces - 1);
    part.hi = part.lo + each;
    visit(part);
  }
  return static_cast<double>(length) / static_cast<double>(kSampledKeys);
}

double up(double keys, int step) {
  return static_cast<double>((static_cast<std::int64_t>(keys) + step - 1) / step * step);
}

class Counter {
 public:
  Counter(const ir::Plan& plan, const Extent& extent) : plan_(plan), choices_(plan.choices), extent_(extent) {}

  Work count(const ir::Phase& phase, const ir::HeadTable& head, const TileRows& rows) {
    Work work;
    if (rows.x.empty()) return work;
    work.row_tiles = 1;
    for (std::size_t p = 0; p < head.passes.size(); ++p) pass(phase.passes[p], head.passes[p], rows, work);
    return work;
  }

 private:
  void pass(const ir::Pass& plan, const PassTable& table, const TileRows& rows, Work& work) {
    ir::zones_of_tile(table, rows, extent_, zones_);
    const bool on_gpu = choices_.kernel_class != ir::KernelClass::vector;
    const auto block = ir::full_block(plan_, rows.x.size(), extent_.x_end - extent_.x_begin);
    double full = 0, masked = 0;
    for (const Zone& zone : zones_) {
      if (!zone.full) continue;
      Walked walked;
      const double factor = sample(zone, [&](const Zone& part) { walk(table, rows, part, nullptr, walked); });
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
      const double factor = sample(zone, [&](const Zone& part) { walk(table, rows, part, &groups, walked); });
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
  };

  void walk(const PassTable& table, const TileRows& rows, const Zone& part, Groups* groups, Walked& out) const {
    const auto sub_q = static_cast<std::size_t>(choices_.sub_q);
    ir::for_each_hit(table, part, rows, extent_, [&](const ir::Hit& hit) {
      ++out.hits;
      const std::int64_t group = groups != nullptr ? groups->keys++ / choices_.sub_k : 0;
      for (std::size_t r = 0; r < rows.x.size(); ++r) {
        const int weight = ir::weight_of(table, hit, part.full, rows, r, extent_);
        out.kept += weight;
        if (weight == 0 || groups == nullptr || groups->last[r / sub_q] >= group) continue;
        groups->last[r / sub_q] = group;
        ++out.groups;
      }
    });
  }

  const ir::Plan& plan_;
  const ir::Choices& choices_;
  const Extent& extent_;
  std::vector<Zone> zones_;
};

}  // namespace

bool lists_in_runs(const ir::Plan& plan, const PassTable& pass, const Zone& zone, const TileRows& rows) {
  if (zone.terms.size() != 1) return false;
  const auto& uses = pass.terms[static_cast<std::size_t>(zone.terms.front())].predicates;
  return std::all_of(uses.begin(), uses.end(), [&](const ir::PredicateUse& use) {
    const auto number = static_cast<std::size_t>(use.number);
    const auto& of_tile = rows.predicates[number];
    if (of_tile.on_row_only) return !(of_tile.some_meet && of_tile.some_fail);
    const auto& condition = plan.predicates[number];
    return of_tile.runs.size() == 1 || (condition.key && condition.modulus == 0 && !use.negated);
  });
}

Work count_conditional(const ir::Plan& plan, const ir::Phase& phase, const ir::PhaseTable& table,
                       const ir::HeadTable& head, const Extent& extent, std::int64_t together) {
  Work total;
  TileRows rows;
  Counter counter(plan, extent);
  const std::int64_t tiles = ir::tile_count(phase, head, extent);
  // An odd step meets every place of a cell.
  const std::int64_t step = tiles > kSampledTiles ? (tiles / kSampledTiles) | 1 : 1;
  std::int64_t sampled = 0;
  for (std::int64_t tile = 0; tile < tiles; tile += step, ++sampled) {
    ir::rows_of_tile(phase, table, head, extent, tile, rows);
    ir::repeat_rows(rows, together);
    total += counter.count(phase, head, rows);
  }
  return sampled > 0 ? total.scaled(static_cast<double>(tiles) / static_cast<double>(sampled * together)) : total;
}

}  // namespace weft::planner
