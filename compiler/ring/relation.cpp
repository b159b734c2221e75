#include "compiler/ring/relation.h"

#include "compiler/planner/analysis.h"
#include "compiler/planner/bounded_work.h"
#include "compiler/ring/pairs.h"
#include "compiler/ring/pieces.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
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
void add_foreign(const TermForm& form, const Run& rows, const Runs& own, const Keys& keys, std::vector<Piece>& out) {
  const bool owned = std::any_of(own.begin(), own.end(), [&](const Run& of) {
    return of.stride == 1 && of.first <= rows.first && rows.end() <= of.end();
  });
  if (rows.stride > 1 || !owned) return add_pieces(form, rows, keys.first, keys.end, out);
  const std::int64_t inside = first_inside(form, rows), outside = first_outside(form, rows);
  const std::int64_t before = std::min(rows.first, keys.end), behind = std::max(rows.end(), keys.first);
  if (inside > rows.first) add_pieces(form, {rows.first, inside - rows.first}, keys.first, before, out);
  if (outside < rows.end()) add_pieces(form, {outside, rows.end() - outside}, behind, keys.end, out);
}

/// All hits of one head: visit(row, key, its weight, pass number).
template <typename Visit>
void walk(const ir::Phase& phase, const ir::HeadTable& head, const ir::Extent& extent, std::int64_t rows_of_all,
          const Visit& visit) {
  const auto tiles = ir::tiles_of_rows(phase, head, extent, 0, rows_of_all);
  ir::TileRows rows;
  std::vector<ir::Zone> zones;
  for (std::int64_t tile = tiles.first; tile < tiles.end; ++tile) {
    ir::rows_of_tile(phase, head, extent, tile, rows);
    for (std::size_t p = 0; p < head.passes.size(); ++p) {
      ir::zones_of_tile(head.passes[p], rows, extent, zones);
      for (const auto& zone : zones) {
        ir::for_each_hit(head.passes[p], zone, rows, extent, [&](const ir::Hit& hit) {
          for (std::size_t r = 0; r < rows.x.size(); ++r) {
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

/// Those that reach where some of `of` do, as far as their intervals say: of many cells few are neighbours.
std::vector<Piece> meeting(const std::vector<Piece>& pieces, const std::vector<Piece>& of) {
  std::int64_t lo = std::numeric_limits<std::int64_t>::max(), hi = std::numeric_limits<std::int64_t>::min();
  for (const auto& piece : of) lo = std::min(lo, piece.lo), hi = std::max(hi, piece.hi);
  std::vector<Piece> out;
  std::copy_if(pieces.begin(), pieces.end(), std::back_inserter(out),
               [&](const Piece& piece) { return piece.lo < hi && piece.hi > lo; });
  return out;
}

/// Pairs that the terms of a pass keep, of each branch its union; nothing where rows have to be looked at one by one.
std::optional<double> pairs_of_pass(std::span<const TermForm> terms, const Run& rows, const Keys& keys) {
  double pairs = 0;
  while (!terms.empty()) {
    const auto other = std::find_if(terms.begin(), terms.end(), [&](const TermForm& term) {
      return term.term().branch != terms.front().term().branch;
    });
    const auto of_branch = terms.first(static_cast<std::size_t>(other - terms.begin()));
    if (of_branch.size() > 1) {
      const auto together = pairs_of_union(of_branch, rows, keys);
      if (!together) return std::nullopt;
      pairs += *together;
    } else {
      if (!of_branch[0].term().filters.empty()) return std::nullopt;
      pairs += ring::pairs_of(of_branch[0], rows, keys);
    }
    terms = terms.subspan(of_branch.size());
  }
  return pairs;
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

void KeysOfRows::add(std::vector<Keys> of_row) {
  std::sort(of_row.begin(), of_row.end(), [](const Keys& a, const Keys& b) { return a.first < b.first; });
  const auto begin = keys_.size();
  for (const auto& keys : of_row) {
    if (keys_.size() == begin || keys_.back().first + keys_.back().count < keys.first) {
      keys_.push_back(keys);
      continue;
    }
    auto& last = keys_.back();
    last.count = std::max(last.count, keys.first + keys.count - last.first);
  }
  if (!rows_.empty()) {
    const auto [first, end] = rows_.back();
    const auto before = std::span(keys_).subspan(first, end - first), now = std::span(keys_).subspan(begin);
    if (std::equal(before.begin(), before.end(), now.begin(), now.end())) {
      keys_.resize(begin);
      rows_.push_back(rows_.back());
      return;
    }
  }
  rows_.emplace_back(begin, keys_.size());
}

Result<Relation> Relation::make(const ir::Plan& plan, const ir::Tables& tables, const ir::Shape& shape,
                                const std::vector<ir::Tensor>& inputs) {
  if (shape.n_q != shape.n_k) {
    return user_error(fmt::format("a ring splits tokens that are queries and keys; here are {} queries and {} keys",
                                  shape.n_q, shape.n_k));
  }
  Relation out;
  out.plan_ = &plan;
  out.tables_ = &tables;
  out.shape_ = &shape;
  out.inputs_ = &inputs;
  out.closed_ = has_closed_forms(plan);
  out.entries_ = planner::differs_by_entry(plan, shape) ? shape.batch : 1;
  for (const auto& list : plan.lists) {
    if (list.kind != ir::List::Kind::top || list.input >= 0 || list.summarizes()) continue;
    out.undivided_ = user_error(fmt::format(
        "{}: 'top({}, by: pooled)' pools all queries and keys, which no rank of a ring has unless there is a "
        "head of k and v for each; 'by: input(…)' takes scores that every rank has",
        plan.name, list.count));
  }
  if (out.closed_ && !out.undivided_) {
    out.make_forms();
    return out;
  }
  out.all_pairs_ = planner::count_work(plan, tables, shape, inputs).pairs;
  if (!out.undivided_ && out.all_pairs_ > kMostWalked) {
    out.undivided_ = user_error(fmt::format(
        "{}: needs of a ring are looked for pair by pair where conditions have no closed form, up to {:.0e} pairs; "
        "{} tokens have {:.1e}",
        plan.name, kMostWalked, shape.n_q, out.all_pairs_));
  }
  if (out.undivided_) return out;
  out.read_rows();
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
  return ir::extent_of(*shape_, entry, phase.stationary, inputs_, tables_);
}

Needs Needs::of_heads(const Heads& heads) const {
  if (heads.count == kv_heads) return *this;
  Needs out{.sets = sets, .of = {}, .kv_heads = heads.count};
  for (std::int64_t entry = 0; entry * kv_heads < std::ssize(of); ++entry) {
    const auto first = of.begin() + entry * kv_heads + heads.first;
    out.of.insert(out.of.end(), first, first + heads.count);
  }
  return out;
}

std::vector<Needs> Relation::needs_by_cell(const std::vector<Cell>& cells, const Runs& own) const {
  if (cells.empty()) return {};  // of a rank without tokens
  if (undivided_) {
    const Needs nothing{
        .sets = {{}}, .of = std::vector<int>(static_cast<std::size_t>(shape_->kv_heads)), .kv_heads = shape_->kv_heads};
    return std::vector(cells.size(), nothing);
  }
  return closed_ ? closed_needs(cells, own) : walked_needs(cells, own);
}

std::vector<Needs> Relation::closed_needs(const std::vector<Cell>& cells, const Runs& own) const {
  std::vector<Needs> out(cells.size());
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
      for (std::size_t i = 0; i < cells.size(); ++i) {
        std::vector<Piece> pieces;
        const Keys keys{cells[i].keys.first, std::min(cells[i].keys.end, shape_->n_k)};
        for (const auto& [p, table] : tables) {
          const auto number = static_cast<std::size_t>(table);
          for (std::size_t pass = 0; pass < tables_->phases[p].head[number].passes.size(); ++pass) {
            for (const auto& form : forms(entry, p, number, pass)) {
              for (const auto& run : cells[i].rows) add_foreign(form, run, own, keys, pieces);
            }
          }
        }
        out[i].sets.push_back(disjoint(pieces, own, meeting(before, pieces)));
        before.insert(before.end(), pieces.begin(), pieces.end());
      }
    }
  }
  return out;
}

std::vector<Needs> Relation::walked_needs(const std::vector<Cell>& cells, const Runs& own) const {
  std::vector<Needs> out(cells.size());
  for (auto& needs : out) needs.kv_heads = shape_->kv_heads;
  const auto owned = marks_of(own, shape_->n_k);
  for (const auto& keys_of : keys_) {
    std::vector<char> had = owned;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      std::vector<char> marked(had.size(), 0);
      const auto& [first, end] = cells[i].keys;
      for (const auto& run : cells[i].rows) {
        for (std::int64_t at = 0; at < run.count; ++at) {
          const std::int64_t row = run.first + at * run.stride;
          if (at > 0 && run.stride == 1 && keys_of.as_before(row)) continue;
          for (const auto& keys : keys_of.of(row)) {
            const auto from = std::max<std::int64_t>(keys.first, first);
            const auto to = std::min<std::int64_t>(keys.first + keys.count, end);
            if (from < to) std::fill(marked.begin() + from, marked.begin() + to, char{1});
          }
        }
      }
      for (std::size_t key = 0; key < had.size(); ++key) {
        if (had[key] != 0) marked[key] = 0;
        had[key] = static_cast<char>(had[key] | marked[key]);
      }
      out[i].of.push_back(static_cast<int>(out[i].sets.size()));
      out[i].sets.push_back(runs_of(marked));
    }
  }
  return out;
}

double Relation::even_pairs(const Cell& cell, std::int64_t heads) const {
  return all_pairs_ * static_cast<double>(count_of(cell.rows)) / static_cast<double>(shape_->n_q) *
         static_cast<double>(heads) / static_cast<double>(shape_->kv_heads);
}

std::vector<double> Relation::pairs_by_head(const Cell& cell, const Heads& heads) const {
  if (!undivided_ && closed_) return closed_pairs(cell, heads);
  std::vector<double> pairs;
  for (std::int64_t kv = heads.first; kv < heads.end(); ++kv)
    pairs.push_back(undivided_ ? even_pairs(cell, 1) : walked_pairs(cell, kv));
  return pairs;
}

double Relation::most_pairs_of_row(const Run& rows) const {
  if (undivided_ || !closed_) return std::numeric_limits<double>::infinity();
  double most = 0;
  for (std::int64_t entry = 0; entry < entries_; ++entry) {
    for (std::size_t p = 0; p < plan_->phases.size(); ++p) {
      const auto& tables = tables_->phases[p];
      for (std::size_t t = 0; t < tables.head.size(); ++t) {
        double of_head = 0;
        for (std::size_t s = 0; s < tables.head[t].passes.size(); ++s) {
          if (!plan_->phases[p].passes[s].out) continue;
          for (const auto& form : forms(entry, p, t, s)) of_head += ring::most_pairs_of_row(form, rows);
        }
        most += of_head *
                static_cast<double>(std::count(tables.head_of.begin(), tables.head_of.end(), static_cast<int>(t)));
      }
    }
  }
  return most * static_cast<double>(shape_->batch) / static_cast<double>(entries_);
}

double Relation::pairs_of(const Cell& cell, const Heads& heads) const {
  if (undivided_) return even_pairs(cell, heads.count);
  const auto by_head = pairs_by_head(cell, heads);
  return std::accumulate(by_head.begin(), by_head.end(), 0.0);
}

double Relation::walked_pairs(const Cell& cell, std::int64_t kv) const {
  const bool all = cell.keys == Keys();
  const auto& before = pairs_before_[static_cast<std::size_t>(kv)];
  double pairs = 0;
  for (const auto& run : cell.rows) {
    if (run.stride == 1 && all) {
      pairs += before[static_cast<std::size_t>(run.end())] - before[static_cast<std::size_t>(run.first)];
      continue;
    }
    for (std::int64_t i = 0; i < run.count; ++i) {
      const auto x = static_cast<std::size_t>(run.first + i * run.stride);
      pairs += (before[x + 1] - before[x]) * (all ? 1 : share_of_keys(kv, run.first + i * run.stride, cell.keys));
    }
  }
  return pairs;
}

std::vector<double> Relation::closed_pairs(const Cell& cell, const Heads& of) const {
  const std::int64_t group = shape_->heads / shape_->kv_heads;
  const double alike = static_cast<double>(shape_->batch) / static_cast<double>(entries_);
  std::vector<double> pairs(static_cast<std::size_t>(of.count), 0);
  for (std::int64_t entry = 0; entry < entries_; ++entry) {
    for (std::size_t p = 0; p < plan_->phases.size(); ++p) {
      const auto& phase = plan_->phases[p];
      const auto& tables = tables_->phases[p];
      auto extent = extent_of(phase, entry);
      extent.y_begin = std::max(extent.y_begin, cell.keys.first);
      extent.y_end = std::min(extent.y_end, cell.keys.end);
      for (std::size_t t = 0; t < tables.head.size(); ++t) {
        // Query heads of one that share it, of each head of K and V.
        const auto heads_of = [&, first = tables.head_of.begin() + of.first * group](std::size_t kv) {
          const auto at = first + static_cast<std::int64_t>(kv) * group;
          return std::count(at, at + group, static_cast<int>(t));
        };
        double of_head = 0;
        bool known = false;
        for (std::size_t kv = 0; kv < pairs.size(); ++kv) {
          const auto heads = heads_of(kv);
          if (heads == 0) continue;
          if (!known) of_head = closed_pairs_of_head(cell, entry, p, t, extent), known = true;
          pairs[kv] += of_head * static_cast<double>(heads) * alike;
        }
      }
    }
  }
  return pairs;
}

double Relation::closed_pairs_of_head(const Cell& cell, std::int64_t entry, std::size_t phase, std::size_t table,
                                      const ir::Extent& extent) const {
  const auto& head = tables_->phases[phase].head[table];
  double pairs = 0;
  for (std::size_t s = 0; s < head.passes.size(); ++s) {
    if (!plan_->phases[phase].passes[s].out) continue;
    for (const auto& run : cell.rows) {
      const auto closed = pairs_of_pass(forms(entry, phase, table, s), run, cell.keys);
      pairs += closed ? *closed : planner::pairs_of_rows(*plan_, head, s, extent, run.first, run.count, run.stride);
    }
  }
  return pairs;
}

double Relation::share_of_keys(std::int64_t kv, std::int64_t row, const Keys& keys) const {
  double all = 0, some = 0;
  for (std::int64_t entry = 0; entry < entries_; ++entry) {
    for (const auto& of : keys_[static_cast<std::size_t>(entry * shape_->kv_heads + kv)].of(row)) {
      const auto from = std::max<std::int64_t>(of.first, keys.first);
      const auto to = std::min<std::int64_t>(of.first + of.count, keys.end);
      all += of.count;
      some += static_cast<double>(std::max<std::int64_t>(0, to - from));
    }
  }
  return all > 0 ? some / all : 0;
}

void Relation::read_rows() {
  const ir::PairValues values(*plan_, *shape_, *inputs_);
  const std::int64_t group = shape_->heads / shape_->kv_heads;
  const auto rows = static_cast<std::size_t>(shape_->n_q);
  pairs_before_.assign(static_cast<std::size_t>(shape_->kv_heads), std::vector<double>(rows + 1, 0));
  for (std::int64_t entry = 0; entry < entries_; ++entry) {
    for (std::int64_t kv = 0; kv < shape_->kv_heads; ++kv) {
      auto& pairs = pairs_before_[static_cast<std::size_t>(kv)];
      std::vector<std::vector<KeysOfRows::Keys>> keys(rows);
      for (std::size_t p = 0; p < plan_->phases.size(); ++p) {
        const auto& phase = plan_->phases[p];
        auto extent = extent_of(phase, entry);
        extent.pairs = &values;
        for (extent.h = kv * group; extent.h < (kv + 1) * group; ++extent.h) {
          walk(phase, tables_->phases[p].of(extent.h), extent, shape_->n_q,
               [&](std::int64_t x, std::int64_t y, int weight, std::size_t pass) {
                 if (phase.passes[pass].out) pairs[static_cast<std::size_t>(x) + 1] += weight;
                 auto& of_row = keys[static_cast<std::size_t>(x)];
                 const auto key = static_cast<std::int32_t>(y);
                 if (!of_row.empty() && of_row.back().first + of_row.back().count == key)
                   ++of_row.back().count;
                 else
                   of_row.push_back({key, 1});
               });
        }
      }
      auto& of_rows = keys_.emplace_back();
      for (auto& of_row : keys) of_rows.add(std::move(of_row));
    }
  }
  const double times = static_cast<double>(shape_->batch) / static_cast<double>(entries_);
  for (auto& pairs : pairs_before_) {
    for (std::size_t x = 1; x < pairs.size(); ++x) pairs[x] = pairs[x] * times + pairs[x - 1];
  }
}

}  // namespace weft::ring
