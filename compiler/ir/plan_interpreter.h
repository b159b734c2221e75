#pragma once

#include "compiler/ir/pattern_interpreter.h"
#include "compiler/ir/plan.h"
#include "compiler/ir/tables.h"
#include "compiler/ir/tensor.h"

#include <cstdint>
#include <functional>
#include <vector>

/// Plans executed in f64: visits exactly the pairs that a kernel of the plan visits, in its order, and
/// trusts `full` where a kernel would. Says nothing about speed and everything about coverage.
namespace weft::ir {

/// One visited pair. `weight` is 0 where the mask of a partial tile discards it.
struct Visit {
  int phase = 0;
  int pass = 0;
  std::int64_t b = 0, h = 0;
  std::int64_t x = 0, y = 0;  ///< positions, stationary and streamed
  int weight = 0;
};

/// Calls `visit` for every pair of every phase. Lists of pooled scores need q and k.
void visit_pairs(const Plan& plan, const Tables& tables, const Shape& shape, const std::vector<Tensor>& inputs,
                 const std::function<void(const Visit&)>& visit, const Tensor* q = nullptr, const Tensor* k = nullptr);

/// O, LSE and per-branch LSE as the plan computes them (branch_lse is empty unless a pass writes it).
/// Queries must be stationary.
Result<Outcome> interpret_plan(const Plan& plan, const Shape& shape, const Tensor& q, const Tensor& k, const Tensor& v,
                               const InputValues& inputs);

}  // namespace weft::ir
