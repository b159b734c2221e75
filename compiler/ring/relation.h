#pragma once

#include "compiler/base/result.h"
#include "compiler/ir/predicates.h"
#include "compiler/ir/schedule.h"
#include "compiler/ring/split.h"
#include "compiler/ring/stretches.h"

#include <optional>
#include <span>
#include <utility>
#include <vector>

/// What the ring asks of a pattern: which keys some rows keep, and how many pairs.
namespace weft::ring {

/// Keys that rows keep beside those of the rows' own tokens, for each head of K and V. Heads that need the same share
/// a set.
struct Needs {
  std::vector<Runs> sets;
  std::vector<int> of;  ///< by batch entry and kv head: of(entry, kv)
  std::int64_t kv_heads = 1;
  /// Entries that need the same are kept once.
  const Runs& at(std::int64_t entry, std::int64_t kv) const {
    const auto entries = std::ssize(of) / kv_heads;
    return sets[static_cast<std::size_t>(of[static_cast<std::size_t>((entries > 1 ? entry : 0) * kv_heads + kv)])];
  }
  /// Of some heads alone, which count from 0.
  Needs of_heads(const Heads& heads) const;
};

/// The keys that each row keeps, by some heads together, as runs; of neighbours that keep the same they are there once.
class KeysOfRows {
 public:
  struct Keys {
    std::int32_t first = 0, count = 0;
    bool operator==(const Keys&) const = default;
  };
  /// Row by row, of each its keys in any order, also several times.
  void add(std::vector<Keys> of_row);
  std::span<const Keys> of(std::int64_t row) const {
    const auto [begin, end] = rows_[static_cast<std::size_t>(row)];
    return std::span(keys_).subspan(begin, end - begin);
  }
  bool as_before(std::int64_t row) const {
    return row > 0 && rows_[static_cast<std::size_t>(row)] == rows_[static_cast<std::size_t>(row) - 1];
  }

 private:
  std::vector<std::pair<std::size_t, std::size_t>> rows_;
  std::vector<Keys> keys_;
};

/// A plan at one size, where tokens are queries and keys. Immutable; keeps references to all it is given.
class Relation {
 public:
  /// User error where tokens are not queries and keys.
  static Result<Relation> make(const ir::Plan& plan, const ir::Tables& tables, const ir::Shape& shape,
                               const std::vector<ir::Tensor>& inputs);

  /// Needs and pairs in closed form; else by a walk over all pairs.
  bool is_closed() const { return closed_; }
  /// Why nothing is known of some rows alone, so that whoever computes a row computes all, of some heads; empty where
  /// it is. Nothing but all rows may then be asked about, and pairs are taken to be spread evenly.
  const std::optional<Error>& undivided() const { return undivided_; }
  const ir::Plan& plan() const { return *plan_; }
  const ir::Tables& tables() const { return *tables_; }
  const ir::Shape& shape() const { return *shape_; }
  /// Entries of the batch that are asked about: 1 where all are alike.
  std::int64_t entries() const { return entries_; }

  Needs needs_of(const Runs& rows) const { return std::move(needs_by_cell({{rows}}, rows)[0]); }
  /// Of cells, for a rank that owns `own`: what is not its own, each without what those before it need.
  std::vector<Needs> needs_by_cell(const std::vector<Cell>& cells, const Runs& own) const;
  /// Kept pairs of these rows, counted with multiplicity, over the batch and all heads, or those of some heads of K and
  /// V. Of some keys alone, where they were walked, as if a key had the mean multiplicity of its row.
  double pairs_of(const Runs& rows) const { return pairs_of({rows}, {0, shape_->kv_heads}); }
  double pairs_of(const Cell& cell, const Heads& heads) const;
  /// The same by head of K and V.
  std::vector<double> pairs_by_head(const Cell& cell, const Heads& heads) const;
  /// No row of these has more, over the batch and all heads. No number where nothing is known without a look at rows.
  double most_pairs_of_row(const Run& rows) const;

 private:
  Relation() = default;
  std::vector<Needs> closed_needs(const std::vector<Cell>& cells, const Runs& own) const;
  std::vector<Needs> walked_needs(const std::vector<Cell>& cells, const Runs& own) const;
  std::vector<double> closed_pairs(const Cell& cell, const Heads& heads) const;
  double closed_pairs_of_head(const Cell& cell, std::int64_t entry, std::size_t phase, std::size_t table,
                              const ir::Extent& extent) const;
  double walked_pairs(const Cell& cell, std::int64_t kv) const;
  double even_pairs(const Cell& cell, std::int64_t heads) const;
  double share_of_keys(std::int64_t kv, std::int64_t row, const Keys& keys) const;
  void read_rows();
  ir::Extent extent_of(const ir::Phase& phase, std::int64_t entry) const;
  void make_forms();
  /// Of the terms of one pass, in their order.
  const std::vector<TermForm>& forms(std::int64_t entry, std::size_t phase, std::size_t table, std::size_t pass) const {
    return forms_[static_cast<std::size_t>(entry)][phase][table][pass];
  }

  const ir::Plan* plan_ = nullptr;
  const ir::Tables* tables_ = nullptr;
  const ir::Shape* shape_ = nullptr;
  const std::vector<ir::Tensor>* inputs_ = nullptr;
  bool closed_ = true;
  std::optional<Error> undivided_;
  double all_pairs_ = 0;  ///< of those that are undivided
  std::int64_t entries_ = 1;
  using Forms = std::vector<TermForm>;
  /// Of plans with closed forms: by entry, phase, table and pass.
  std::vector<std::vector<std::vector<std::vector<Forms>>>> forms_;
  /// Of plans that are walked, by head of K and V: pairs of the rows below each, at last of all; and by entry and head
  /// the keys.
  std::vector<std::vector<double>> pairs_before_;
  std::vector<KeysOfRows> keys_;
};

}  // namespace weft::ring
