#include "compiler/ir/tables.h"

#include <algorithm>
#include <bit>

namespace weft::ir {
namespace {

using namespace walk;

static_assert(kBoundConstant == static_cast<int>(Bound::Kind::constant));
static_assert(kBoundRow == static_cast<int>(Bound::Kind::row));
static_assert(kBoundSegment == static_cast<int>(Bound::Kind::segment));
static_assert(kBoundInput == static_cast<int>(Bound::Kind::input));
static_assert(kBoundPart == static_cast<int>(Bound::Kind::part));
static_assert(kBoundForm == static_cast<int>(Bound::Kind::form));

class Words {
 public:
  explicit Words(Tables& tables) : tables_(tables) {}

  void run(const Plan& plan) {
    words().resize(2 + tables_.phases.size());
    words()[0] = static_cast<std::int64_t>(tables_.phases.size());
    for (std::size_t p = 0; p < tables_.phases.size(); ++p) words()[1 + p] = phase(plan.phases[p], tables_.phases[p]);
    words()[1 + tables_.phases.size()] = here();
    const auto cuts = words_of_cuts(plan);
    words().insert(words().end(), cuts.begin(), cuts.end());
  }

 private:
  std::vector<std::int64_t>& words() { return tables_.words; }
  std::int64_t here() const { return static_cast<std::int64_t>(tables_.words.size()); }
  void put(std::int64_t word) { tables_.words.push_back(word); }
  void set(std::int64_t at, std::int64_t word) { tables_.words[static_cast<std::size_t>(at)] = word; }

  std::int64_t phase(const Phase& plan, PhaseTable& table) {
    std::vector<std::int64_t> cells;
    for (const auto& cell : table.cell_tables) cells.push_back(cell_table(cell));
    std::vector<std::int64_t> heads;
    for (auto& h : table.head) heads.push_back(head(plan, h, cells));
    const std::int64_t at = here();
    put(static_cast<std::int64_t>(plan.passes.size()));
    put(plan.rows.longest_first ? 1 : 0);
    for (int number : table.head_of) put(heads[static_cast<std::size_t>(number)]);
    return at;
  }

  std::int64_t cell_table(const CellTable& cell) {
    std::vector<std::int64_t> classes;
    for (const auto& c : cell.classes) {
      classes.push_back(here());
      put(c.rows);
      put(c.tiles);
      put(static_cast<std::int64_t>(c.residues.size()));
      for (auto r : c.residues) put(r);
      for (auto b : c.bits) put(static_cast<std::int64_t>(b));
    }
    const std::int64_t at = here();
    put(cell.tiles);
    for (auto c : classes) put(c);
    return at;
  }

  std::int64_t head(const Phase& plan, HeadTable& h, const std::vector<std::int64_t>& cells) {
    std::vector<std::int64_t> passes;
    for (std::size_t p = 0; p < h.passes.size(); ++p) passes.push_back(pass(plan.passes[p], h.passes[p]));
    const std::int64_t bits = here();
    for (const auto& c : h.row_bits) {
      put(c.segment);
      put(c.rate);
      put(c.phase);
    }
    const std::int64_t cells_at = here();
    for (int cell : h.cells) put(cells[static_cast<std::size_t>(cell)]);
    h.at = here();
    put(h.cell);
    put(h.lcm);
    put(h.period);
    put(h.tiles_per_cell);
    put(static_cast<std::int64_t>(h.class_bits));
    put(static_cast<std::int64_t>(h.row_bits.size()));
    put(bits);
    put(cells_at);
    for (auto p : passes) put(p);
    return h.at;
  }

  std::int64_t pass(const Pass& plan, PassTable& table) {
    table.at = here();
    put(static_cast<std::int64_t>(table.terms.size()));
    put(plan.out ? 1 : 0);
    put(std::bit_cast<std::int64_t>(plan.factor));
    put(plan.lse ? 1 : 0);
    put(plan.lse_slot);
    tables_.most_terms = std::max(tables_.most_terms, static_cast<std::int64_t>(table.terms.size()));
    const std::int64_t terms = here();
    words().resize(words().size() + table.terms.size() * kTermWords);
    for (std::size_t t = 0; t < table.terms.size(); ++t)
      term(terms + static_cast<std::int64_t>(t) * kTermWords, table.terms[t]);
    return table.at;
  }

  void term(std::int64_t at, Term& t) {
    t.at = at;
    set(at + kBranch, t.branch);
    set(at + kSegment, t.stream.segment);
    set(at + kRate, t.stream.rate);
    set(at + kResidue, t.stream.phase);
    set(at + kNeed, static_cast<std::int64_t>(t.row_need));
    set(at + kMiss, static_cast<std::int64_t>(t.row_miss));
    set(at + kLoCount, static_cast<std::int64_t>(t.lo.size()));
    set(at + kLoAt, here());
    for (const auto& b : t.lo) bound(b, false);
    set(at + kHiCount, static_cast<std::int64_t>(t.hi.size()));
    set(at + kHiAt, here());
    for (const auto& b : t.hi) bound(b, false);
    set(at + kRowCount, static_cast<std::int64_t>(t.rows.size()));
    set(at + kRowAt, here());
    for (const auto& c : t.rows) bound(c.bound, c.below);
    set(at + kFilterCount, static_cast<std::int64_t>(t.filters.size()));
    set(at + kFilterAt, here());
    for (const auto& c : t.filters) {
      put(c.segment);
      put(c.rate);
      put(c.phase);
      put(c.negated ? 1 : 0);
    }
    set(at + kPairCount, static_cast<std::int64_t>(t.predicates.size()));
    set(at + kPairAt, here());
    for (const auto& use : t.predicates) {
      put(use.number);
      put(use.negated ? 1 : 0);
    }
    set(at + kWhole, t.stream.rate == 1 && t.filters.empty() && t.predicates.empty() ? 1 : 0);
  }

  void bound(const Bound& b, bool below) {
    for (const std::int64_t word : words_of(b, below)) put(word);
  }

  Tables& tables_;
};

}  // namespace

std::array<std::int64_t, kBoundWords> words_of(const Bound& b, bool below) {
  return {static_cast<std::int64_t>(b.kind), b.a, b.b, b.add, below ? 1 : 0};
}

std::vector<std::int64_t> words_of_cuts(const Plan& plan, bool ranges) {
  std::vector<std::int64_t> out = {std::ssize(plan.cuts), plan.choices.tile_k, 0};
  for (const Cut& cut : plan.cuts) out.insert(out.end(), {cut.rows, cut.keys, cut.most});
  if (plan.cuts.empty() || !ranges) return out;
  // Those that the caller's tensors give leave a range as wide as the others say.
  const auto is_closed = [](const Bound& b) { return b.kind != Bound::Kind::input && b.kind != Bound::Kind::form; };
  for (const Pass& pass : plan.phases.front().passes) {
    for (const KeyRange& range : pass.ranges) {
      ++out[kCutRanges];
      out.push_back(std::count_if(range.lo.begin(), range.lo.end(), is_closed));
      out.push_back(std::count_if(range.hi.begin(), range.hi.end(), is_closed));
      for (const auto* bounds : {&range.lo, &range.hi}) {
        for (const Bound& b : *bounds) {
          if (!is_closed(b)) continue;
          const auto words = words_of(b);
          out.insert(out.end(), words.begin(), words.end());
        }
      }
    }
  }
  return out;
}

void make_words(const Plan& plan, Tables& tables) {
  Words(tables).run(plan);
  tables.words.resize(std::max<std::size_t>(tables.words.size(), walk::kLeastWords));
}

}  // namespace weft::ir
