#pragma once

#include "compiler/ir/plan.h"
#include "compiler/walk/portable.h"
#include "compiler/walk/words.h"

#include <array>
#include <cstdint>
#include <vector>

/// What a plan becomes once the number of heads is known: tables of numbers that interpreters, cost
/// model and kernels walk. Their size depends on heads, branches and rates, never on lengths.
namespace weft::ir {

/// A congruence with its phase evaluated for one head: `(v % segment) % rate == phase`.
struct ResolvedCongruence {
  std::int64_t segment = 0;  ///< 0: without end
  std::int64_t rate = 1;
  std::int64_t phase = 0;  ///< in [0, rate)
  bool negated = false;
  bool holds(std::int64_t v) const;
  bool operator==(const ResolvedCongruence&) const = default;
};

/// One range of one head.
struct Term {
  std::int64_t at = 0;  ///< of its words, as of all that follows (compiler/walk/words.h)
  int branch = 0;       ///< group of terms that count once: the branch, or 0 for all under Weight::one
  ResolvedCongruence stream;
  std::vector<ResolvedCongruence> filters;
  std::vector<Bound> lo, hi;
  std::vector<RowCondition> rows;
  std::uint64_t row_need = 0;  ///< bits of HeadTable::row_bits that a row must meet
  std::uint64_t row_miss = 0;  ///< … must not meet
  std::vector<PredicateUse> predicates;
};

struct PassTable {
  std::int64_t at = 0;
  std::vector<Term> terms;  ///< sorted by branch
};

/// Rows of one cell. Residue vectors that agree share one. Its size is that of the classes, not of the cell: tile
/// number t is found by walking the classes' tile counts.
struct CellTable {
  /// Row j of a class is cell start + lcm * (j / |R|) + R[j % |R|].
  struct Class {
    std::vector<std::int64_t> residues;
    std::vector<std::uint64_t> bits;  ///< per residue: members of row_bits that the row meets
    std::int64_t rows = 0;            ///< in a whole cell
    std::int64_t tiles = 0;           ///< that they fill
  };
  std::vector<Class> classes;  ///< those with the most to walk first
  std::int64_t tiles = 0;
};

struct HeadTable {
  std::int64_t at = 0;
  std::vector<ResolvedCongruence> row_bits;  ///< bit i of a row: does it meet row_bits[i]?
  std::size_t class_bits = 0;                ///< the first so many are known from the row's class
  std::vector<PassTable> passes;
  /// Cells of the row order, for this head's branches: the gcd of their segments. 0: this head's tiles
  /// are consecutive rows (no branch of it takes part, or the cells would be too small or too many).
  std::int64_t cell = 0;
  std::int64_t lcm = 1;     ///< of the rates that take part
  std::int64_t period = 1;  ///< cells after which residues repeat
  std::int64_t tiles_per_cell = 1;
  std::vector<int> cells;  ///< CellTable per cell number mod period
};

struct PhaseTable {
  std::vector<HeadTable> head;  ///< by head, after `head_of`
  std::vector<int> head_of;     ///< head h uses head[head_of[h]]: heads that compute alike share a table
  std::vector<CellTable> cell_tables;
  const HeadTable& of(std::int64_t h) const {
    return head[static_cast<std::size_t>(head_of[static_cast<std::size_t>(h)])];
  }
};

struct Tables {
  std::int64_t heads = 0;
  std::vector<PhaseTable> phases;
  /// All of it as walks and kernels read it: compiler/walk/words.h.
  std::vector<std::int64_t> words;
  std::int64_t most_terms = 0;  ///< of any pass of any head: a kernel's scratch grows with it
};

/// The words of a bound; `below` of a condition on rows.
std::array<std::int64_t, walk::kBoundWords> words_of(const Bound& bound, bool below = false);

/// How the plan cuts keys: what compiler/walk/chunks.h reads; `ranges`: to find out where chunks begin, too.
std::vector<std::int64_t> words_of_cuts(const Plan& plan, bool ranges = true);

/// Makes `tables.words` of the rest.
void make_words(const Plan& plan, Tables& tables);

/// Errors are the user's: tables above the size limit (very many heads × branches).
Result<Tables> make_tables(const Plan& plan, std::int64_t heads);

}  // namespace weft::ir
