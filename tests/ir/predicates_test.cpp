#include "compiler/ir/predicates.h"

#include "compiler/ir/expr.h"

#include <gtest/gtest.h>

#include <functional>

namespace weft::ir {
namespace {

ExprPtr divided(ExprPtr x, std::int64_t by) { return apply(Op::divide, {std::move(x), constant(by)}); }
ExprPtr remainder(ExprPtr x, std::int64_t by) { return apply(Op::modulo, {std::move(x), constant(by)}); }

std::optional<PeriodicKey> of(ExprPtr key) {
  const Predicate p{.holds = nullptr, .key = std::move(key), .lo = variable(Variable::q), .hi = variable(Variable::q)};
  return periodic_key(p, Stationary::query);
}

/// What is said of a key is true of all keys.
void expect_true(const ExprPtr& key, const std::function<std::int64_t(std::int64_t)>& value) {
  const auto found = of(key);
  ASSERT_TRUE(found);
  for (std::int64_t k = 0; k < 5000; ++k) {
    const std::int64_t line = k / found->unit;
    ASSERT_EQ(found->modulus > 0 ? line % found->modulus : line, value(k)) << k;
  }
}

TEST(PeriodicKey, IsFoundInGrids) {
  const auto k = variable(Variable::k);
  expect_true(k, [](std::int64_t x) { return x; });
  expect_true(remainder(k, 64), [](std::int64_t x) { return x % 64; });
  expect_true(divided(k, 64), [](std::int64_t x) { return x / 64; });
  expect_true(remainder(divided(k, 8), 24), [](std::int64_t x) { return x / 8 % 24; });
  expect_true(divided(remainder(k, 192), 8), [](std::int64_t x) { return x % 192 / 8; });
  expect_true(remainder(remainder(k, 64), 2), [](std::int64_t x) { return x % 64 % 2; });
  expect_true(remainder(divided(remainder(k, 1000), 10), 5), [](std::int64_t x) { return x % 1000 / 10 % 5; });
}

TEST(PeriodicKey, IsNotClaimedOfOthers) {
  const auto k = variable(Variable::k);
  EXPECT_FALSE(of(remainder(remainder(k, 64), 3)));
  EXPECT_FALSE(of(divided(remainder(k, 64), 7)));
  EXPECT_FALSE(of(variable(Variable::q)));
  EXPECT_FALSE(of(apply(Op::add, {k, variable(Variable::q)})));
  EXPECT_FALSE(of(divided(divided(k, INT64_MAX / 2), 3)));
  EXPECT_FALSE(periodic_key({nullptr, k, k, k, 4}, Stationary::query)) << "a lag";
  EXPECT_FALSE(periodic_key({constant_bool(true), nullptr, nullptr, nullptr}, Stationary::query));
}

}  // namespace
}  // namespace weft::ir
