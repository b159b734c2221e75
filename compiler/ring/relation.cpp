#include "compiler/ring/relation.h"

#include "compiler/planner/analysis.h"
#include "compiler/planner/bounded_work.h"
#include "compiler/ring/pairs.h"
#include "compiler/ring/pieces.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace weft::ring {

namespace {

/// Pairs that are walked at most: a second a walk.
constexpr double kMostWalked = 1 << 28;

bool has_closed_forms(const ir::Plan& plan) { return plan.predicates.empty() && plan.forms.empty(); }

/// Rows [begin, end) whose interval begins below the first of them, and those whose interval ends behind the last: the
/// others reach no key of anyone else. Bounds never fall as rows grow.
std::int64_t first_inside(const TermForm& form, const Run& rows) {
  std::int64_t low = rows.first, high = rows.end();
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (form.lo(middle) >= rows.first)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}
std::int64_t first_outside(const TermForm& form, const Run& rows) {
  std::int64_t low = rows.first, high = rows.end();
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (form.hi(middle) > rows.end())
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

/// What rows ask for, but for keys among themselves where these are the rank's own, as the rows are unless it computes
/// something of other ranks' rows.
void add_foreign(const TermForm& form, const Run& rows, const Runs& own, std::int64_t tokens, std::vector<Piece>& out) {
  const bool owned = std::any_of(own.begin(), own.end(), [&](const Run& of) {
    return of.stride == 1 && of.first <= rows.first && rows.end() <= of.end();
  });
  if (rows.stride > 1 || !owned) return add_pieces(form, rows, 0, tokens, out);
  const std::int64_t inside = first_inside(form, rows), outside = first_outside(form, rows);
  if (inside > rows.first) add_pieces(form, {rows.first, inside - rows.first}, 0, rows.first, out);
  if (outside < rows.end()) add_pieces(form, {outside, rows.end() - outside}, rows.end(), tokens, out);
}

/// Hits of the tiles that hold rows of [begin, end) of one head: visit(y, its weight for row x, x, pass number).
/// `wants` says of which rows and keys the weight is asked for.
template <typename Wants, typename Visit>
void walk(const ir::Phase& phase, const ir::HeadTable& head, const ir::Extent& extent, const Run& among,
          const Wants& wants, const Visit& visit) {
  const auto tiles = ir::tiles_of_rows(phase, head, extent, among.first, among.end());
  ir::TileRows rows;
  std::vector<ir::Zone> zones;
  for (std::int64_t tile = tiles.first; tile < tiles.end; ++tile) {
    ir::rows_of_tile(phase, head, extent, tile, rows);
    for (std::size_t p = 0; p < head.passes.size(); ++p) {
      ir::zones_of_tile(head.passes[p], rows, extent, zones);
      for (const auto& zone : zones) {
        ir::for_each_hit(head.passes[p], zone, rows, extent, [&](const ir::Hit& hit) {
          for (std::size_t r = 0; r < rows.x.size(); ++r) {
            if (!wants(rows.x[r], hit.y)) continue;
            const int weight = ir::weight_of(head.passes[p], hit, zone.full, rows, r, extent);
            if (weight > 0) visit(rows.x[r], hit.y, weight, p);
          }
        });
      }
    }
  }
}

Runs runs_of(const std::vector<char>& marked) {
  Runs out;
  for (std::int64_t i = 0; i < std::ssize(marked); ++i) {
    if (marked[static_cast<std::size_t>(i)] == 0) continue;
    if (!out.empty() && out.back().end() == i)
      ++out.back().count;
    else
      out.push_back({i, 1});
  }
  return out;
}

/// Phases and numbers of their tables that some heads use, each once.
using TablesOfHeads = std::vector<std::pair<std::size_t, int>>;
TablesOfHeads tables_of_heads(const ir::Plan& plan, const ir::Tables& tables, std::int64_t first, std::int64_t end) {
  TablesOfHeads out;
  for (std::size_t p = 0; p < plan.phases.size(); ++p) {
    for (std::int64_t h = first; h < end; ++h)
      out.emplace_back(p, tables.phases[p].head_of[static_cast<std::size_t>(h)]);
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

/// The rows' tokens, one mark each.
std::vector<char> marks_of(const Runs& rows, std::int64_t tokens) {
  std::vector<char> out(static_cast<std::size_t>(tokens), 0);
  for (const auto& run : rows) {
    for (std::int64_t i = 0; i < run.count; ++i) out[static_cast<std::size_t>(run.first + i * run.stride)] = 1;
  }
  return out;
}

}  // namespace

Result<Relation> Relation::make(const ir::Plan& plan, const ir::Tables& tables, const ir::Shape& shape,
                                const std::vector<ir::Tensor>& inputs) {
  if (shape.n_q != shape.n_k) {
    return user_error(fmt::format("a ring splits tokens that are queries and keys; here are {} queries and {} keys",
                                  shape.n_q, shape.n_k));
  }
  for (const auto& list : plan.lists) {
    if (list.kind != ir::List::Kind::top || list.input >= 0 || list.summarizes()) continue;
    return user_error(
        fmt::format("{}: 'top({}, by: pooled)' pools all queries and keys, which no rank of a ring has; 'by: input(…)' "
                    "takes scores that every rank has",
                    plan.name, list.count));
  }
  Relation out;
  out.plan_ = &plan;
  out.tables_ = &tables;
  out.shape_ = &shape;
  out.inputs_ = &inputs;
  out.closed_ = has_closed_forms(plan);
  out.entries_ = planner::differs_by_entry(plan, shape) ? shape.batch : 1;
  if (out.closed_) {
    out.make_forms();
    return out;
  }
  if (const double pairs = planner::count_work(plan, tables, shape, inputs).pairs; pairs > kMostWalked) {
    return user_error(fmt::format(
        "{}: needs of a ring are looked for pair by pair where conditions have no closed form, up to {:.0e} pairs; "
        "{} tokens have {:.1e}",
        plan.name, kMostWalked, shape.n_q, pairs));
  }
  out.values_ = std::make_shared<const ir::PairValues>(plan, shape, inputs);
  out.count_rows();
  return out;
}

void Relation::make_forms() {
  forms_.resize(static_cast<std::size_t>(entries_));
  for (std::int64_t entry = 0; entry < entries_; ++entry) {
    auto& of_entry = forms_[static_cast<std::size_t>(entry)];
    for (std::size_t p = 0; p < plan_->phases.size(); ++p) {
      const auto extent = extent_of(plan_->phases[p], entry);
      auto& of_phase = of_entry.emplace_back();
      for (const auto& head : tables_->phases[p].head) {
        auto& of_head = of_phase.emplace_back();
        for (const auto& pass : head.passes) {
          auto& of_pass = of_head.emplace_back();
          for (const auto& term : pass.terms) of_pass.emplace_back(term, head, extent);
        }
      }
    }
  }
}

ir::Extent Relation::extent_of(const ir::Phase& phase, std::int64_t entry) const {
  auto extent = ir::extent_of(*shape_, entry, phase.stationary, inputs_, tables_);
  extent.pairs = values_.get();
  return extent;
}

std::vector<Needs> Relation::needs_by_portion(const std::vector<Runs>& portions, const Runs& own) const {
  if (portions.empty()) return {};  // of a rank without tokens
  return closed_ ? closed_needs(portions, own) : walked_needs(portions, own);
}

std::vector<Needs> Relation::closed_needs(const std::vector<Runs>& portions, const Runs& own) const {
  std::vector<Needs> out(portions.size());
  for (auto& needs : out) needs.kv_heads = shape_->kv_heads;
  const std::int64_t group = shape_->heads / shape_->kv_heads;
  for (std::int64_t entry = 0; entry < entries_; ++entry) {
    // Which tables the query heads of a kv head have: kv heads with the same ones need the same.
    std::map<TablesOfHeads, int> known;
    for (std::int64_t kv = 0; kv < shape_->kv_heads; ++kv) {
      const auto tables = tables_of_heads(*plan_, *tables_, kv * group, (kv + 1) * group);
      const auto [at, is_new] = known.try_emplace(tables, static_cast<int>(out[0].sets.size()));
      for (auto& needs : out) needs.of.push_back(at->second);
      if (!is_new) continue;
      std::vector<Piece> before;
      for (std::size_t i = 0; i < portions.size(); ++i) {
        std::vector<Piece> pieces;
        for (const auto& [p, table] : tables) {
          const auto number = static_cast<std::size_t>(table);
          for (std::size_t pass = 0; pass < tables_->phases[p].head[number].passes.size(); ++pass) {
            for (const auto& form : forms(entry, p, number, pass)) {
              for (const auto& run : portions[i]) add_foreign(form, run, own, shape_->n_k, pieces);
            }
          }
        }
        out[i].sets.push_back(disjoint(pieces, own, before));
        before.insert(before.end(), pieces.begin(), pieces.end());
      }
    }
  }
  return out;
}

std::vector<Needs> Relation::walked_needs(const std::vector<Runs>& portions, const Runs& own) const {
  std::vector<Needs> out(portions.size());
  for (auto& needs : out) needs.kv_heads = shape_->kv_heads;
  const std::int64_t group = shape_->heads / shape_->kv_heads;
  const auto owned = marks_of(own, shape_->n_k);
  for (std::int64_t entry = 0; entry < entries_; ++entry) {
    for (std::int64_t kv = 0; kv < shape_->kv_heads; ++kv) {
      std::vector<char> had = owned;
      for (std::size_t i = 0; i < portions.size(); ++i) {
        const auto asked = marks_of(portions[i], shape_->n_k);
        std::vector<char> marked(had.size(), 0);
        for (std::size_t p = 0; p < plan_->phases.size(); ++p) {
          auto extent = extent_of(plan_->phases[p], entry);
          for (std::int64_t h = kv * group; h < (kv + 1) * group; ++h) {
            extent.h = h;
            const auto wanted = [&](std::int64_t x, std::int64_t y) {
              return asked[static_cast<std::size_t>(x)] != 0 && had[static_cast<std::size_t>(y)] == 0;
            };
            const auto mark = [&](std::int64_t, std::int64_t y, int, std::size_t) {
              had[static_cast<std::size_t>(y)] = marked[static_cast<std::size_t>(y)] = 1;
            };
            for (const auto& run : portions[i])
              walk(plan_->phases[p], tables_->phases[p].of(h), extent, run, wanted, mark);
          }
        }
        out[i].of.push_back(static_cast<int>(out[i].sets.size()));
        out[i].sets.push_back(runs_of(marked));
      }
    }
  }
  return out;
}

double Relation::pairs_of(const Runs& rows) const {
  if (closed_) return closed_pairs(rows);
  double pairs = 0;
  for (const auto& run : rows) {
    if (run.stride == 1) {
      pairs += pairs_before_[static_cast<std::size_t>(run.end())] - pairs_before_[static_cast<std::size_t>(run.first)];
      continue;
    }
    for (std::int64_t i = 0; i < run.count; ++i) {
      const auto x = static_cast<std::size_t>(run.first + i * run.stride);
      pairs += pairs_before_[x + 1] - pairs_before_[x];
    }
  }
  return pairs;
}

double Relation::closed_pairs(const Runs& rows) const {
  double pairs = 0;
  for (std::int64_t entry = 0; entry < entries_; ++entry) {
    for (std::size_t p = 0; p < plan_->phases.size(); ++p) {
      const auto& phase = plan_->phases[p];
      const auto& tables = tables_->phases[p];
      const auto extent = extent_of(phase, entry);
      for (std::size_t t = 0; t < tables.head.size(); ++t) {
        const auto& head = tables.head[t];
        const auto heads = std::count(tables.head_of.begin(), tables.head_of.end(), static_cast<int>(t));
        double of_head = 0;
        for (std::size_t s = 0; s < head.passes.size(); ++s) {
          if (!phase.passes[s].out) continue;
          const auto& terms = head.passes[s].terms;
          const bool simple = std::adjacent_find(terms.begin(), terms.end(), [](const ir::Term& a, const ir::Term& b) {
                                return a.branch == b.branch;
                              }) == terms.end();
          for (const auto& run : rows) {
            // Terms of one branch are a union, which is counted row by row.
            if (!simple ||
                std::any_of(terms.begin(), terms.end(), [](const ir::Term& term) { return !term.filters.empty(); })) {
              of_head += planner::pairs_of_rows(*plan_, head, s, extent, run.first, run.count, run.stride);
              continue;
            }
            for (const auto& form : forms(entry, p, t, s)) of_head += ring::pairs_of(form, run);
          }
        }
        pairs += of_head * static_cast<double>(heads);
      }
    }
  }
  return pairs * static_cast<double>(shape_->batch) / static_cast<double>(entries_);
}

void Relation::count_rows() {
  std::vector<double> pairs(static_cast<std::size_t>(shape_->n_q) + 1, 0);
  for (std::int64_t entry = 0; entry < entries_; ++entry) {
    for (std::size_t p = 0; p < plan_->phases.size(); ++p) {
      const auto& phase = plan_->phases[p];
      auto extent = extent_of(phase, entry);
      for (std::int64_t h = 0; h < shape_->heads; ++h) {
        extent.h = h;
        walk(
            phase, tables_->phases[p].of(h), extent, {0, shape_->n_q}, [](std::int64_t, std::int64_t) { return true; },
            [&](std::int64_t x, std::int64_t, int weight, std::size_t pass) {
              if (phase.passes[pass].out) pairs[static_cast<std::size_t>(x) + 1] += weight;
            });
      }
    }
  }
  const double times = static_cast<double>(shape_->batch) / static_cast<double>(entries_);
  for (std::size_t x = 1; x < pairs.size(); ++x) pairs[x] = pairs[x] * times + pairs[x - 1];
  pairs_before_ = std::move(pairs);
}

}  // namespace weft::ring
