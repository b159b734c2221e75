#include "compiler/ir/tables.h"

#include "compiler/ir/predicates.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <string>

namespace weft::ir {
namespace {

/// Words of all tables of a plan; far above anything real, and a bound for hostile patterns.
constexpr std::int64_t kMostResidues = 4096;    ///< of a class table
constexpr std::int64_t kMostClassRows = 65536;  ///< residues × cells of a period
constexpr std::size_t kMostWords = std::size_t{1} << 24;

ResolvedCongruence resolve(const Congruence& c, std::int64_t h, std::int64_t heads) {
  ResolvedCongruence out{.segment = c.segment, .rate = c.rate, .phase = 0, .negated = c.negated};
  if (c.phase) out.phase = floor_mod(evaluate_head(*c.phase, h, heads), c.rate);
  return out;
}

/// No number has this residue: positions in a segment stay below its length.
bool impossible(const ResolvedCongruence& c) { return !c.negated && c.segment > 0 && c.phase >= c.segment; }

/// A bound that the head alone turns into one of another kind, as `q + w` does where the head says w; else itself.
Bound resolve(const Bound& b, const Plan& plan, Stationary side, std::int64_t h, std::int64_t heads) {
  if (b.kind != Bound::Kind::form || b.b != 0) return b;
  const ExprPtr& form = plan.forms[static_cast<std::size_t>(b.a)];
  if (!reads(*form, Variable::h)) return b;
  ExprPtr e = replace(replace(form, Variable::h, constant(h)), Variable::heads, constant(heads));
  Bound out{.kind = Bound::Kind::constant, .a = 0, .b = 0, .add = b.add};
  const bool shifted = e->op == Op::add && e->args[1]->op == Op::constant;
  if (shifted) {
    out.add += e->args[1]->integer;
    e = e->args[0];
  }
  const auto is_row = [&](const Expr& x) { return x.op == Op::variable && x.variable == row_variable(side); };
  const auto is_number = [](const Expr& x) { return x.op == Op::constant; };
  if (is_number(*e)) return out.add += e->integer, out;
  out.kind = Bound::Kind::row;
  if (is_row(*e)) return out;
  out.kind = Bound::Kind::segment;
  if (e->op != Op::multiply || !is_number(*e->args[1]) || e->args[0]->op != Op::divide) return b;
  out.a = e->args[1]->integer;
  const Expr& quotient = *e->args[0];
  const bool starts_segment =
      is_row(*quotient.args[0]) && is_number(*quotient.args[1]) && quotient.args[1]->integer == out.a && out.a > 0;
  return starts_segment ? out : b;
}

class HeadBuilder {
 public:
  HeadBuilder(const Plan& plan, const Phase& phase, std::int64_t h, std::int64_t heads)
      : plan_(plan), phase_(phase), h_(h), heads_(heads) {}

  HeadTable build() {
    // Members of the row order come first, so that class residues know their bits.
    for (const auto& by : phase_.rows.by) {
      if (by.rate > 1 && used(by)) bit_of(resolve(by, h_, heads_));
    }
    if (phase_.rows.modulus > 0) {
      choose_patches();
    } else if (phase_.rows.classes) {
      choose_cells();
    }
    for (const auto& pass : phase_.passes) table_.passes.push_back(build(pass));
    return std::move(table_);
  }

 private:
  /// Does the head take part in the range?
  bool runs(const KeyRange& range) const {
    return range.heads.contains(h_, heads_) &&
           std::all_of(range.when.begin(), range.when.end(),
                       [&](const HeadCondition& c) { return evaluate_head(*c.holds, h_, heads_) != 0; });
  }

  bool used(const Congruence& by) const {
    for (const auto& pass : phase_.passes) {
      for (const auto& range : pass.ranges) {
        if (!runs(range)) continue;
        for (auto c : range.row_congruences) {
          c.negated = by.negated;
          if (c == by) return true;
        }
      }
    }
    return false;
  }

  /// Cells in which every member has one residue; none when they would be too many or too small.
  void choose_cells() {
    std::int64_t gcd = 0;
    std::int64_t lcm = 1;
    for (const auto& c : table_.row_bits) {
      if (c.rate > kMostResidues) return;
      gcd = std::gcd(gcd, c.segment);
      lcm = std::lcm(lcm, c.rate);
      if (lcm > kMostResidues) return;
    }
    if (table_.row_bits.empty()) return;
    if (gcd == 0) gcd = lcm * phase_.rows.tile;
    if (gcd < phase_.rows.tile / 2) return;
    std::int64_t period = 1;
    for (const auto& c : table_.row_bits) {
      const std::int64_t repeat = c.segment > 0 ? c.segment / gcd : c.rate / std::gcd(c.rate, gcd);
      if (repeat > kMostClassRows) return;
      period = std::lcm(period, repeat);
      if (period * lcm > kMostClassRows) return;
    }
    table_.class_bits = table_.row_bits.size();
    table_.cell = gcd;
    table_.lcm = lcm;
    table_.period = period;
  }

  /// Are there keys that are kept for being a multiple of the modulus away, by this head or by any?
  bool lags(bool here) const {
    const auto asks = [&](const PredicateUse& use) {
      return !use.negated && plan_.predicates[static_cast<std::size_t>(use.number)].modulus == phase_.rows.modulus;
    };
    for (const auto& pass : phase_.passes) {
      for (const auto& range : pass.ranges) {
        if ((!here || runs(range)) && std::any_of(range.predicates.begin(), range.predicates.end(), asks)) return true;
      }
    }
    return false;
  }

  /// Cells as long as fill a tile with one patch's rows.
  void choose_patches() {
    const RowMap& rows = phase_.rows;
    const std::int64_t patch = rows.patch * rows.patch_lines;
    if (rows.modulus > kMostResidues || (lags(false) && !lags(true))) return;
    table_.lcm = rows.modulus;
    table_.cell = rows.modulus * std::max<std::int64_t>(1, rows.tile / patch);
  }

  /// Bit number, or -1 when all 64 are taken (then the condition cannot be kept: see build).
  int bit_of(ResolvedCongruence c) {
    c.negated = false;
    auto& bits = table_.row_bits;
    const auto at = std::find(bits.begin(), bits.end(), c);
    if (at != bits.end()) return static_cast<int>(at - bits.begin());
    if (bits.size() == 64) return -1;
    bits.push_back(c);
    return static_cast<int>(bits.size()) - 1;
  }

  PassTable build(const Pass& pass) {
    PassTable out;
    for (const auto& range : pass.ranges) {
      if (!runs(range)) continue;
      Term term{.branch = pass.weight == Weight::one ? 0 : range.branch,
                .stream = {},
                .filters = {},
                .lo = range.lo,
                .hi = range.hi,
                .rows = range.rows,
                .predicates = range.predicates};
      for (auto* list : {&term.lo, &term.hi}) {
        for (auto& b : *list) b = resolve(b, plan_, phase_.stationary, h_, heads_);
      }
      if (add(range, term)) out.terms.push_back(std::move(term));
    }
    std::stable_sort(out.terms.begin(), out.terms.end(),
                     [](const Term& a, const Term& b) { return a.branch < b.branch; });
    return out;
  }

  /// False when the head keeps nothing of the range.
  bool add(const KeyRange& range, Term& term) {
    term.stream = resolve(range.stream, h_, heads_);
    if (term.stream.rate == 1) term.stream = {};
    if (impossible(term.stream)) return false;
    for (const auto& filter : range.filters) {
      const auto c = resolve(filter, h_, heads_);
      if (c.rate == 1) {
        if (c.negated) return false;
        continue;
      }
      if (impossible(c)) return false;
      term.filters.push_back(c);
    }
    for (const auto& row : range.row_congruences) {
      const auto c = resolve(row, h_, heads_);
      if (c.rate == 1) {
        if (c.negated) return false;
        continue;
      }
      if (impossible(c)) return false;
      const int bit = bit_of(c);
      if (bit < 0) return overflow_ = true, false;
      (c.negated ? term.row_miss : term.row_need) |= std::uint64_t{1} << bit;
    }
    return (term.row_need & term.row_miss) == 0;
  }

 public:
  bool overflow() const { return overflow_; }

 private:
  const Plan& plan_;
  const Phase& phase_;
  std::int64_t h_, heads_;
  HeadTable table_;
  bool overflow_ = false;
};

/// Streamed rows per row that members `bits` bring, roughly: only used to decide what shares a tile.
double weight_of(const HeadTable& head, std::uint64_t bits) {
  double sum = 1;
  for (std::size_t i = 0; i < head.row_bits.size(); ++i) {
    if ((bits >> i) & 1) {
      const auto& c = head.row_bits[i];
      sum += static_cast<double>(c.segment > 0 ? c.segment : 4096) / static_cast<double>(c.rate);
    }
  }
  return sum;
}

bool any_term_lives(const HeadTable& head, std::uint64_t bits) {
  const std::uint64_t known = head.class_bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << head.class_bits) - 1;
  for (const auto& pass : head.passes) {
    for (const auto& term : pass.terms) {
      if ((term.row_need & known & ~bits) == 0 && (term.row_miss & known & bits) == 0) return true;
    }
  }
  return false;
}

struct Row {
  std::int64_t residue;
  std::uint64_t bits;
};

std::int64_t rows_in_cell(const std::vector<Row>& rows, const HeadTable& head) {
  const std::int64_t rest_of_cell = head.cell % head.lcm;
  const auto rest = std::count_if(rows.begin(), rows.end(), [&](const Row& r) { return r.residue < rest_of_cell; });
  return (head.cell / head.lcm) * static_cast<std::int64_t>(rows.size()) + rest;
}

std::uint64_t any_bits(const std::vector<Row>& rows) {
  std::uint64_t bits = 0;
  for (const auto& row : rows) bits |= row.bits;
  return bits;
}

/// Classes that fill less than a tile share tiles with the class that adds least to what is walked.
void share_tiles(std::vector<std::vector<Row>>& classes, const HeadTable& head, int tile) {
  std::stable_sort(classes.begin(), classes.end(), [](const auto& a, const auto& b) { return a.size() > b.size(); });
  std::vector<std::vector<Row>> out;
  for (auto& rows : classes) {
    const std::int64_t count = rows_in_cell(rows, head);
    std::vector<Row>* best = nullptr;
    if (count < tile && any_term_lives(head, any_bits(rows))) {
      double least = weight_of(head, any_bits(rows));
      for (auto& other : out) {
        const std::int64_t filled = rows_in_cell(other, head);
        if (filled + count > tile || !any_term_lives(head, any_bits(other))) continue;
        const double added = weight_of(head, any_bits(other) | any_bits(rows)) - weight_of(head, any_bits(other));
        if (added < least) {
          least = added;
          best = &other;
        }
      }
    }
    if (best != nullptr) {
      best->insert(best->end(), rows.begin(), rows.end());
      std::sort(best->begin(), best->end(), [](const Row& a, const Row& b) { return a.residue < b.residue; });
    } else {
      out.push_back(std::move(rows));
    }
  }
  classes = std::move(out);
}

/// 0 … n - 1 in groups of at most `size` numbers that stand `step` apart.
std::vector<std::vector<std::int64_t>> apart(std::int64_t n, std::int64_t step, std::int64_t size) {
  std::vector<std::vector<std::int64_t>> out;
  for (std::int64_t first = 0; first < std::min(step, n); ++first) {
    for (std::int64_t x = first; x < n; x += step) {
      if ((x - first) / step % size == 0) out.emplace_back();
      out.back().push_back(x);
    }
  }
  return out;
}

/// Patches of the modulus, in order; at its far sides they may be smaller.
CellTable make_patches(const HeadTable& head, const RowMap& rows) {
  const std::int64_t line = rows.line > 0 ? rows.line : rows.modulus;
  const auto across = apart(line, rows.step, rows.patch);
  CellTable out;
  for (const auto& ys : apart(rows.modulus / line, rows.line_step, rows.patch_lines)) {
    for (const auto& xs : across) {
      CellTable::Class made;
      for (auto y : ys) {
        for (auto x : xs) made.residues.push_back(y * line + x);
      }
      made.bits.assign(made.residues.size(), 0);
      made.rows = head.cell / head.lcm * static_cast<std::int64_t>(made.residues.size());
      made.tiles = (made.rows + rows.tile - 1) / rows.tile;
      out.tiles += made.tiles;
      out.classes.push_back(std::move(made));
    }
  }
  return out;
}

CellTable make_cell(const HeadTable& head, int tile, std::int64_t cell) {
  std::map<std::uint64_t, std::vector<Row>> by_bits;
  const std::int64_t start = cell * head.cell;
  for (std::int64_t t = 0; t < std::min(head.lcm, head.cell); ++t) {
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < head.class_bits; ++i) {
      if (head.row_bits[i].holds(start + t)) bits |= std::uint64_t{1} << i;
    }
    by_bits[bits].push_back({t, bits});
  }
  std::vector<std::vector<Row>> classes;
  classes.reserve(by_bits.size());
  for (auto& [bits, rows] : by_bits) classes.push_back(std::move(rows));
  share_tiles(classes, head, tile);

  CellTable out;
  for (const auto& rows : classes) {
    CellTable::Class made;
    made.rows = rows_in_cell(rows, head);
    for (const auto& row : rows) {
      made.residues.push_back(row.residue);
      made.bits.push_back(row.bits);
    }
    made.tiles = (made.rows + tile - 1) / tile;
    out.tiles += made.tiles;
    out.classes.push_back(std::move(made));
  }
  const auto weight = [&](const CellTable::Class& c) {
    std::uint64_t bits = 0;
    for (auto b : c.bits) bits |= b;
    return weight_of(head, bits);
  };
  std::stable_sort(out.classes.begin(), out.classes.end(),
                   [&](const auto& a, const auto& b) { return weight(a) > weight(b); });
  return out;
}

/// Everything a cell table is made from, as text: equal text, equal table.
std::string cell_key(const HeadTable& head, std::int64_t cell) {
  std::string key = std::to_string(head.cell) + "/" + std::to_string(head.lcm);
  for (std::size_t i = 0; i < head.class_bits; ++i) {
    const auto& c = head.row_bits[i];
    const std::int64_t start = cell * head.cell;
    const std::int64_t in_segment = c.segment > 0 ? floor_mod(start, c.segment) : start;
    key += " " + std::to_string(c.segment) + ":" + std::to_string(c.rate) + ":" +
           std::to_string(floor_mod(c.phase - in_segment, c.rate));
  }
  for (const auto& pass : head.passes) {
    for (const auto& term : pass.terms) {
      key += "," + std::to_string(term.row_need) + "-" + std::to_string(term.row_miss);
    }
  }
  return key;
}

std::string text_of(const ResolvedCongruence& c) {
  return std::to_string(c.segment) + "%" + std::to_string(c.rate) + "=" + std::to_string(c.phase) +
         (c.negated ? "!" : "") + " ";
}

std::string text_of(const Bound& b) {
  return std::to_string(static_cast<int>(b.kind)) + "," + std::to_string(b.a) + "," + std::to_string(b.b) + "," +
         std::to_string(b.add) + " ";
}

/// Equal text, equal work: heads that agree share one table.
std::string head_key(const HeadTable& head) {
  std::string key;
  for (const auto& c : head.row_bits) key += text_of(c);
  for (const auto& pass : head.passes) {
    key += "|";
    for (const auto& term : pass.terms) {
      key += "t" + std::to_string(term.branch) + " " + text_of(term.stream);
      for (const auto& c : term.filters) key += "f" + text_of(c);
      for (const auto& b : term.lo) key += "l" + text_of(b);
      for (const auto& b : term.hi) key += "h" + text_of(b);
      for (const auto& r : term.rows) key += (r.below ? "<" : ">") + text_of(r.bound);
      for (const auto& p : term.predicates) key += (p.negated ? "p!" : "p") + std::to_string(p.number) + " ";
      key += std::to_string(term.row_need) + "-" + std::to_string(term.row_miss);
    }
  }
  return key;
}

}  // namespace

bool ResolvedCongruence::holds(std::int64_t v) const {
  const std::int64_t in_segment = segment > 0 ? floor_mod(v, segment) : v;
  return (floor_mod(in_segment, rate) == phase) != negated;
}

Result<Tables> make_tables(const Plan& plan, std::int64_t heads) {
  Tables out;
  out.heads = heads;
  std::size_t words = 0;
  for (const auto& phase : plan.phases) {
    PhaseTable table;
    std::map<std::string, int> head_numbers;
    std::map<std::string, int> cell_numbers;
    for (std::int64_t h = 0; h < heads; ++h) {
      HeadBuilder builder(plan, phase, h, heads);
      HeadTable head = builder.build();
      if (builder.overflow()) {
        return user_error("one head has more than 64 different dilations of its rows; Weft's limit is 64");
      }
      const auto [at, is_new] = head_numbers.try_emplace(head_key(head), static_cast<int>(table.head.size()));
      table.head_of.push_back(at->second);
      if (!is_new) continue;
      if (head.cell > 0) {
        for (std::int64_t cell = 0; cell < head.period; ++cell) {
          const std::string key = cell_key(head, cell);
          const auto [place, fresh] = cell_numbers.try_emplace(key, static_cast<int>(table.cell_tables.size()));
          if (fresh) {
            table.cell_tables.push_back(phase.rows.modulus > 0 ? make_patches(head, phase.rows)
                                                               : make_cell(head, phase.rows.tile, cell));
            const auto& made = table.cell_tables.back();
            for (const auto& c : made.classes) words += 2 * c.residues.size() + 4;
          }
          head.cells.push_back(place->second);
          const auto& made = table.cell_tables[static_cast<std::size_t>(place->second)];
          head.tiles_per_cell = std::max(head.tiles_per_cell, made.tiles);
        }
        words += head.cells.size();
      }
      for (const auto& pass : head.passes) words += pass.terms.size() * 32;
      if (words > kMostWords) {
        return user_error(
            "the tables of this pattern grow too large: too many branches, heads and dilation rates at once");
      }
      table.head.push_back(std::move(head));
    }
    out.phases.push_back(std::move(table));
  }
  make_words(plan, out);
  return out;
}

}  // namespace weft::ir
