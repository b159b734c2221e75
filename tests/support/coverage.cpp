#include "tests/support/coverage.h"

#include "compiler/ir/plan_interpreter.h"
#include "compiler/ir/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace weft::test {
namespace {

bool by_branch(const ir::Pattern& p) { return p.combine == ir::Combine::sum || p.combine == ir::Combine::mean; }

}  // namespace

Coverage::Coverage(const ir::Pattern& p, const ir::Shape& s)
    : shape_(s),
      slots_(by_branch(p) ? static_cast<std::int64_t>(p.branches.size()) : 1),
      weight_(static_cast<std::size_t>(slots_ * s.batch * s.heads * s.n_q * s.n_k), 0) {}

int& Coverage::at(std::int64_t slot, std::int64_t b, std::int64_t h, std::int64_t row, std::int64_t k) {
  const auto& s = shape_;
  return weight_[static_cast<std::size_t>((((slot * s.batch + b) * s.heads + h) * s.n_q + row) * s.n_k + k)];
}

bool Coverage::empty() const {
  return std::all_of(weight_.begin(), weight_.end(), [](int weight) { return weight == 0; });
}

std::string Coverage::add(const ir::Plan& plan, const ir::InputValues& inputs, const ir::Tensor* q_values,
                          const ir::Tensor* k_values) {
  const auto tables = ir::make_tables(plan, shape_.heads);
  if (!tables.ok()) return tables.error().message;
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, int>, std::map<int, int>> visits;
  std::string wrong;
  const auto count = [&](const ir::Visit& v) {
    const ir::Pass& pass = plan.phases[static_cast<std::size_t>(v.phase)].passes[static_cast<std::size_t>(v.pass)];
    if (!pass.out) return;  // only its LSE is wanted
    const bool by_key = plan.phases[static_cast<std::size_t>(v.phase)].stationary == ir::Stationary::key;
    const std::int64_t q = by_key ? v.y : v.x;
    const std::int64_t k = by_key ? v.x : v.y;
    // A phase visits a pair once in a pass; several phases add up.
    if (++visits[{v.b, v.h, q, k, v.pass}][v.phase] > 1) wrong = "a pair is visited twice in one phase";
    at(slots_ > 1 ? pass.branches.front() : 0, v.b, v.h, q - shape_.offset_of(v.b), k) += v.weight;
  };
  ir::visit_pairs(plan, *tables, shape_, inputs, count, q_values, k_values);
  return wrong;
}

std::string Coverage::difference(const ir::Pattern& pattern, const ir::InputValues& inputs, const ir::Tensor* q,
                                 const ir::Tensor* k) {
  const ir::PairEvaluator meaning(pattern, shape_, inputs, q, k);
  for (std::int64_t slot = 0; slot < slots_; ++slot) {
    for (std::int64_t row = 0; row < shape_.batch * shape_.heads * shape_.n_q; ++row) {
      const std::int64_t b = row / (shape_.heads * shape_.n_q), h = row / shape_.n_q % shape_.heads;
      const std::int64_t position = row % shape_.n_q + shape_.offset_of(b);
      for (std::int64_t key = 0; key < shape_.n_k; ++key) {
        const int want = slots_ > 1 ? (meaning.keeps(static_cast<std::size_t>(slot), b, h, position, key) ? 1 : 0)
                                    : meaning.multiplicity(b, h, position, key);
        const int got = at(slot, b, h, row % shape_.n_q, key);
        if (got == want) continue;
        return fmt::format("branch slot {} b {} h {} q {} k {}: weight {}, meant {}", slot, b, h, position, key, got,
                           want);
      }
    }
  }
  return "";
}

}  // namespace weft::test
