#pragma once

#include "compiler/base/result.h"
#include "compiler/ir/predicates.h"
#include "compiler/ir/schedule.h"
#include "compiler/ring/owners.h"
#include "compiler/ring/stretches.h"

#include <memory>
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
};

/// A plan at one size, where tokens are queries and keys. Immutable; keeps references to all it is given.
class Relation {
 public:
  /// User error that names what of the pattern, or which size, a ring cannot have.
  static Result<Relation> make(const ir::Plan& plan, const ir::Tables& tables, const ir::Shape& shape,
                               const std::vector<ir::Tensor>& inputs);

  /// Needs and pairs in closed form; else by a walk over all pairs.
  bool is_closed() const { return closed_; }
  const ir::Plan& plan() const { return *plan_; }
  const ir::Tables& tables() const { return *tables_; }
  const ir::Shape& shape() const { return *shape_; }
  /// Entries of the batch that are asked about: 1 where all are alike.
  std::int64_t entries() const { return entries_; }

  Needs needs_of(const Runs& rows) const { return std::move(needs_by_portion({rows}, rows)[0]); }
  /// Of portions of the rows that own `own`, each without what those before it need.
  std::vector<Needs> needs_by_portion(const std::vector<Runs>& portions, const Runs& own) const;
  /// Kept pairs of these rows, counted with multiplicity, over batch and heads.
  double pairs_of(const Runs& rows) const;

 private:
  Relation() = default;
  std::vector<Needs> closed_needs(const std::vector<Runs>& portions, const Runs& own) const;
  std::vector<Needs> walked_needs(const std::vector<Runs>& portions, const Runs& own) const;
  double closed_pairs(const Runs& rows) const;
  void count_rows();
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
  std::int64_t entries_ = 1;
  using Forms = std::vector<TermForm>;
  /// Of plans with closed forms: by entry, phase, table and pass.
  std::vector<std::vector<std::vector<std::vector<Forms>>>> forms_;
  std::shared_ptr<const ir::PairValues> values_;  ///< of plans that are walked
  std::vector<double> pairs_before_;              ///< of these: pairs of the rows below each, at last of all
};

}  // namespace weft::ring
