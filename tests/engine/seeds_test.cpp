#include "tests/engine/problem.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

/// The seed of dropout, said or read where it stands.
namespace weft::test {
namespace {

constexpr std::int64_t kTokens = 70, kHeads = 2, kDim = 16;
constexpr const char* kText = "pattern p { keep causal; dropout 0.4; }";

/// One pass over the same tensors.
class SeedsOn : public ::testing::TestWithParam<const char*> {
 protected:
  using Numbers = std::vector<float>;

  void SetUp() override {
    for (const bool gradient : {false, true}) {
      auto kernel =
          engine_.compile(kText, {.dim = kDim, .dtype = DType::f32, .gradient = gradient, .target = GetParam()});
      ASSERT_TRUE(kernel.ok()) << kernel.error().message;
      kernels_.push_back(std::move(*kernel));
    }
  }

  RunArgs args(std::uint64_t seed, const std::uint64_t* at) {
    const std::initializer_list<std::int64_t> extents = {1, kTokens, kHeads, kDim};
    RunArgs out{.q = dense_view(q_.data(), DType::f32, extents),
                .k = dense_view(k_.data(), DType::f32, extents),
                .v = dense_view(v_.data(), DType::f32, extents),
                .out = dense_output(out_.data(), DType::f32, extents),
                .lse = dense_output(lse_.data(), DType::f32, {1, kHeads, kTokens})};
    out.dropout_seed = seed;
    out.dropout_seed_at = at;
    return out;
  }

  /// O, and dQ, dK and dV of O itself.
  std::array<Numbers, 4> both(std::uint64_t seed, const std::uint64_t* at) {
    std::array<Numbers, 4> made;
    auto forward = args(seed, at);
    EXPECT_EQ(why(kernels_[0].run(forward)), "");
    made[0] = out_;
    for (std::size_t i = 1; i < 4; ++i) made[i].assign(out_.size(), -7);
    const std::initializer_list<std::int64_t> extents = {1, kTokens, kHeads, kDim};
    forward.d_out = dense_view(made[0].data(), DType::f32, extents);
    forward.dq = dense_output(made[1].data(), DType::f32, extents);
    forward.dk = dense_output(made[2].data(), DType::f32, extents);
    forward.dv = dense_output(made[3].data(), DType::f32, extents);
    EXPECT_EQ(why(kernels_[1].run(forward)), "");
    return made;
  }

  static std::string why(const Status& status) { return status.ok() ? "" : status.error().message; }

  static constexpr std::int64_t kCount = kTokens * kHeads * kDim;
  const Engine engine_{{.no_cache = true}};
  std::vector<Kernel> kernels_;
  Numbers q_ = numbers(kCount, 1), k_ = numbers(kCount, 2), v_ = numbers(kCount, 3), out_ = Numbers(kCount),
          lse_ = Numbers(kHeads * kTokens);
};

TEST_P(SeedsOn, StandWhereTheyAreRead) {
  const std::uint64_t five = 5, many = 0x123456789abcdef0;
  const auto said = both(5, nullptr);
  EXPECT_EQ(both(77, &five), said) << "what is said besides does not count";
  EXPECT_EQ(both(0, &many), both(many, nullptr)) << "all 64 bits count";
  EXPECT_NE(both(5, &many)[0], said[0]);
}

TEST_P(SeedsOn, AreLookedAtFirst) {
  alignas(8) std::array<std::byte, 16> bytes = {};
  const auto* const askew = reinterpret_cast<const std::uint64_t*>(bytes.data() + 4);
  EXPECT_EQ(why(kernels_[0].run(args(0, askew))), "dropout_seed_at is misaligned; expected a multiple of 8 bytes");
  const auto* const inside = reinterpret_cast<const std::uint64_t*>(out_.data() + 8);
  EXPECT_NE(why(kernels_[0].run(args(0, inside))).find("dropout_seed_at"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Targets, SeedsOn, ::testing::Values("interpreter", "cpu", "emulate:sm_61", "emulate:sm_80"),
                         [](const auto& of) {
                           std::string name = of.param;
                           for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
                           return name;
                         });

}  // namespace
}  // namespace weft::test
