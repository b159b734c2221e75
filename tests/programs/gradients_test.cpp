#include "tests/programs/gradient_checks.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

/// Gradients that kernels compute, against the interpreter's.
namespace weft::test {
namespace {

class RandomGradients : public ::testing::TestWithParam<GradientWay> {};

TEST_P(RandomGradients, AreTheInterpreters) { check_random_gradients(GetParam(), 11'000'000); }

INSTANTIATE_TEST_SUITE_P(, RandomGradients,
                         ::testing::Values(GradientWay{"cpu", 48, 200}, GradientWay{"cpu", 16, 150, ir::DType::f16},
                                           GradientWay{"cpu", 16, 150, ir::DType::bf16},
                                           GradientWay{"cpu:x86-64", 24, 150}, GradientWay{"emulate:sm_61", 8, 150},
                                           GradientWay{"emulate:sm_61", 6, 150, ir::DType::f16},
                                           GradientWay{"emulate:sm_80", 8, 150, ir::DType::f16},
                                           GradientWay{"emulate:sm_80", 6, 150, ir::DType::bf16},
                                           GradientWay{"emulate:sm_75", 6, 150, ir::DType::f16}),
                         [](const auto& row) { return fmt::format("way_{}", row.index); });

}  // namespace
}  // namespace weft::test
