#include "compiler/ring/portions.h"

namespace weft::ring {

namespace {

/// A walk over pairs for every portion takes long.
constexpr std::int64_t kPortions = 32, kWalkedPortions = 4;

bool needs_nothing(const Needs& needs) {
  return std::all_of(needs.sets.begin(), needs.sets.end(), [](const Runs& runs) { return runs.empty(); });
}

}  // namespace

std::vector<Portion> portions_of(const Relation& relation, const Runs& own) {
  std::vector<Portion> out;
  for (auto& rows : cut(own, relation.is_closed() ? kPortions : kWalkedPortions)) {
    Portion portion{.rows = std::move(rows), .news = {}, .local = false};
    portion.local = needs_nothing(relation.needs_by_portion({portion.rows}, own)[0]);
    out.push_back(std::move(portion));
  }
  std::stable_partition(out.begin(), out.end(), [](const Portion& portion) { return portion.local; });
  std::vector<Runs> in_order;
  for (const auto& portion : out) in_order.push_back(portion.rows);
  auto news = relation.needs_by_portion(in_order, own);
  for (std::size_t i = 0; i < out.size(); ++i) out[i].news = std::move(news[i]);
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
