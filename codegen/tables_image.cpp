#include "codegen/tables_image.h"

#include <algorithm>
#include <bit>
#include <type_traits>

namespace weft::codegen {
namespace {

static_assert(kBoundConstant == static_cast<int>(ir::Bound::Kind::constant));
static_assert(kBoundRow == static_cast<int>(ir::Bound::Kind::row));
static_assert(kBoundSegment == static_cast<int>(ir::Bound::Kind::segment));
static_assert(kBoundInput == static_cast<int>(ir::Bound::Kind::input));
static_assert(kBoundPart == static_cast<int>(ir::Bound::Kind::part));
static_assert(kBoundForm == static_cast<int>(ir::Bound::Kind::form));

static_assert(ir::kMostInputs == kWeftMostInputs && ir::kMostLists == kWeftMostLists);
static_assert(ir::kMostAxes == std::extent_v<decltype(weft_input::extents)>);

class Imager {
 public:
  TablesImage run(const ir::Plan& plan, const ir::Tables& tables) {
    words().resize(1 + tables.phases.size());
    words()[0] = static_cast<std::int64_t>(tables.phases.size());
    for (std::size_t p = 0; p < tables.phases.size(); ++p) words()[1 + p] = phase(plan.phases[p], tables.phases[p]);
    return std::move(image_);
  }

 private:
  std::vector<std::int64_t>& words() { return image_.words; }
  std::int64_t here() const { return static_cast<std::int64_t>(image_.words.size()); }
  void put(std::int64_t word) { image_.words.push_back(word); }
  void set(std::int64_t at, std::int64_t word) { image_.words[static_cast<std::size_t>(at)] = word; }

  std::int64_t phase(const ir::Phase& plan, const ir::PhaseTable& table) {
    std::vector<std::int64_t> cells;
    for (const auto& cell : table.cell_tables) cells.push_back(cell_table(cell));
    std::vector<std::int64_t> heads;
    for (const auto& h : table.head) heads.push_back(head(plan, h, cells));
    const std::int64_t at = here();
    put(static_cast<std::int64_t>(plan.passes.size()));
    put(plan.rows.longest_first ? 1 : 0);
    for (int number : table.head_of) put(heads[static_cast<std::size_t>(number)]);
    return at;
  }

  std::int64_t cell_table(const ir::CellTable& cell) {
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

  std::int64_t head(const ir::Phase& plan, const ir::HeadTable& h, const std::vector<std::int64_t>& cells) {
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
    const std::int64_t at = here();
    put(h.cell);
    put(h.lcm);
    put(h.period);
    put(h.tiles_per_cell);
    put(static_cast<std::int64_t>(h.class_bits));
    put(static_cast<std::int64_t>(h.row_bits.size()));
    put(bits);
    put(cells_at);
    for (auto p : passes) put(p);
    return at;
  }

  std::int64_t pass(const ir::Pass& plan, const ir::PassTable& table) {
    const std::int64_t at = here();
    put(static_cast<std::int64_t>(table.terms.size()));
    put(plan.out ? 1 : 0);
    put(std::bit_cast<std::int64_t>(plan.factor));
    put(plan.lse ? 1 : 0);
    put(plan.lse_slot);
    image_.most_terms = std::max(image_.most_terms, static_cast<std::int64_t>(table.terms.size()));
    const std::int64_t terms = here();
    words().resize(words().size() + table.terms.size() * kTermWords);
    for (std::size_t t = 0; t < table.terms.size(); ++t)
      term(terms + static_cast<std::int64_t>(t) * kTermWords, table.terms[t]);
    return at;
  }

  void term(std::int64_t at, const ir::Term& t) {
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

  void bound(const ir::Bound& b, bool below) {
    put(static_cast<std::int64_t>(b.kind));
    put(b.a);
    put(b.b);
    put(b.add);
    put(below ? 1 : 0);
  }

  TablesImage image_;
};

}  // namespace

TablesImage make_image(const ir::Plan& plan, const ir::Tables& tables) { return Imager().run(plan, tables); }

}  // namespace weft::codegen
