#include "compiler/ring/portions.h"

namespace weft::ring {

namespace {

/// A walk over pairs for every portion takes long.
constexpr std::int64_t kPortions = 32, kWalkedPortions = 4;

bool needs_nothing(const Needs& needs) {
  return std::all_of(needs.sets.begin(), needs.sets.end(), [](const Runs& runs) { return runs.empty(); });
}

}  // namespace

std::vector<Portion> portions_of(const Relation& relation, const Split& split, std::int64_t rank) {
  const auto& own = split.computed(rank);
  std::vector<Portion> out;
  for (auto& rows : cut(split.rows_of(rank), relation.is_closed() ? kPortions : kWalkedPortions))
    out.push_back({.cell = {std::move(rows)}, .news = {}});
  if (split.moves_queries()) {
    const auto& moved = split.moved;
    moved.each_stretch(rank, [&](std::int64_t first, std::int64_t end) {
      out.push_back({.cell = {moved.rows, moved.keys_of(first, end, relation.shape().n_k)}, .news = {}, .moved = true});
    });
  }
  for (auto& portion : out) {
    portion.news = std::move(relation.needs_by_cell({portion.cell}, own)[0]);
    portion.local = needs_nothing(portion.news);
  }
  const auto others = std::stable_partition(out.begin(), out.end(), [](const Portion& of) { return of.local; });
  std::vector<Cell> in_order;
  for (auto at = others; at != out.end(); ++at) in_order.push_back(at->cell);
  auto news = relation.needs_by_cell(in_order, own);
  for (std::size_t i = 0; i < news.size(); ++i) others[static_cast<std::ptrdiff_t>(i)].news = std::move(news[i]);
  return out;
}

double row_bytes(const Relation& relation) {
  return static_cast<double>((relation.shape().d + relation.shape().d_v) * ir::size_of(relation.plan().bind.dtype));
}

double bytes_of(const Relation& relation, const Needs& needs) {
  double rows = 0;
  for (const int set : needs.of) rows += static_cast<double>(count_of(needs.sets[static_cast<std::size_t>(set)]));
  return rows * row_bytes(relation) * static_cast<double>(relation.shape().batch) /
         static_cast<double>(relation.entries());
}

}  // namespace weft::ring
