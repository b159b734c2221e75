#include "compiler/base/float16.h"
#include "tests/engine/problem.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

/// The bounds of section 10 of the semantics hold however long a row is: sums of numbers of one sign lose what random
/// signs hide. Tokens that are no step apart make any number of equal keys without memory.
namespace weft::test {
namespace {

constexpr std::int64_t kDim = 16;

struct Form {
  const char* name;
  std::int64_t n_q;
  const char* pattern;
  bool lse = true;
};

/// Every key and row has one multiplicity, and no row a condition that leaves it without keys.
constexpr Form kFew = {"few", 1, "pattern p { branch all; }"};
constexpr Form kFull = {"full", 64, "pattern p { branch all; }"};
constexpr Form kPartial = {"partial", 5, "pattern p { keep where((q * k) % 3 != 1); }"};
constexpr Form kForms[] = {
    kFew,
    {"few, by pairs", 2, "pattern p { branch all; score s + 0 * k; }"},
    {"narrow", 20, "pattern p { branch all; }"},
    kFull,
    kPartial,
    {"mean", 64, "pattern p { branch all; branch all; combine mean; }", false},
    {"phases", 20, "pattern p { branch window(9m, 9m); branch lag(64); }"},
};

struct Way {
  const char* target;
  DType dtype = DType::f32;
  const char* name = "";  ///< in the test's
};

/// Numbers in the memory of a type.
class Stored {
 public:
  Stored(const std::vector<float>& numbers, DType dtype) : floats_(numbers), dtype_(dtype) {
    for (float x : numbers) halves_.push_back(dtype == DType::bf16 ? float_to_bf16(x) : float_to_half(x));
  }
  void* data() { return dtype_ == DType::f32 ? static_cast<void*>(floats_.data()) : halves_.data(); }
  double at(std::int64_t i) const {
    const auto place = static_cast<std::size_t>(i);
    if (dtype_ == DType::f32) return static_cast<double>(floats_[place]);
    return static_cast<double>(dtype_ == DType::bf16 ? bf16_to_float(halves_[place]) : half_to_float(halves_[place]));
  }

 private:
  std::vector<float> floats_;
  std::vector<std::uint16_t> halves_;
  DType dtype_;
};

const Kernel& compiled(const Way& way, const std::string& text) {
  static const Engine engine({.no_cache = true});
  static std::map<std::string, Kernel> kernels;
  const auto name = fmt::format("{} {} {}", way.target, static_cast<int>(way.dtype), text);
  if (const auto found = kernels.find(name); found != kernels.end()) return found->second;
  auto kernel = engine.compile(text, {.dim = kDim, .dtype = way.dtype, .target = way.target});
  EXPECT_TRUE(kernel.ok()) << (kernel.ok() ? "" : kernel.error().message);
  return kernels.emplace(name, kernel.value()).first->second;
}

struct Results {
  Stored out;
  std::vector<float> lse;
};

/// Rows of zeros as Q, and as K. V repeats one row, or has one for each key.
Results run(const Way& way, const Form& form, std::int64_t keys, const std::vector<float>& v) {
  Stored zeros(std::vector<float>(kDim, 0), way.dtype), values(v, way.dtype);
  Results results{Stored(std::vector<float>(static_cast<std::size_t>(form.n_q * kDim), -7), way.dtype),
                  std::vector<float>(static_cast<std::size_t>(form.n_q), -7)};
  const auto rows = [&](Stored& s, std::int64_t n, std::int64_t step) {
    TensorView view = dense_view(s.data(), way.dtype, {1, n, 1, kDim});
    view.stride = {0, step, 0, 1};
    return view;
  };
  RunArgs args{.q = rows(zeros, form.n_q, 0),
               .k = rows(zeros, keys, 0),
               .v = rows(values, keys, std::ssize(v) == kDim ? 0 : kDim),
               .out = dense_output(results.out.data(), way.dtype, {1, form.n_q, 1, kDim})};
  if (form.lse) args.lse = dense_output(results.lse.data(), DType::f32, {1, 1, form.n_q});
  const auto status = compiled(way, form.pattern).run(args);
  EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message);
  return results;
}

double bound_of(DType dtype, std::int64_t keys, double score) {
  if (dtype == DType::f32) return 2e-6 * (1 + std::log2(static_cast<double>(keys))) + 2e-7 * score;
  return (dtype == DType::f16 ? 2e-3 : 1.6e-2) + 2e-7 * score;
}

/// Column c of O is to be want(c), of values up to `largest`, of scores up to `score`.
void expect_columns(const Way& way, const Form& form, std::int64_t keys, const std::vector<float>& v, double largest,
                    double score, const std::function<double(std::int64_t)>& want) {
  const auto got = run(way, form, keys, v);
  double worst = 0;
  for (std::int64_t i = 0; i < form.n_q * kDim; ++i) worst = std::max(worst, std::abs(got.out.at(i) - want(i % kDim)));
  EXPECT_LE(worst / largest, bound_of(way.dtype, keys, score))
      << keys << " keys, " << form.name << ": " << form.pattern;
}

/// One row of V for all keys, a number of its own in each column.
void expect_constants(const Way& way, const Form& form, std::int64_t keys, double score = 0) {
  std::vector<float> v;
  for (std::int64_t c = 0; c < kDim; ++c) v.push_back(0.7F + 0.1234F * static_cast<float>(c));
  const Stored stored(v, way.dtype);
  expect_columns(way, form, keys, v, static_cast<double>(v.back()), score,
                 [&](std::int64_t c) { return stored.at(c); });
}

class LongRows : public ::testing::TestWithParam<Way> {};

TEST_P(LongRows, OfEqualValues) {
  for (const Form& form : kForms) {
    for (int log : {10, 13, 16, 19}) expect_constants(GetParam(), form, std::int64_t{1} << log);
  }
}

/// Largest scores come last, again and again, by more than the slack of what weights are measured from.
TEST_P(LongRows, OfUnequalWeights) {
  const Form steps = {"steps", 1, "pattern p { branch all; score s + 0.011 * (k % 4093); }"};
  const Form rising = {"rising", 20, "pattern p { branch all; score s + 0.0011 * k - 0.01 * (k % 37); }"};
  for (int log : {12, 16, 19}) {
    expect_constants(GetParam(), steps, std::int64_t{1} << log, 45);
    expect_constants(GetParam(), rising, std::int64_t{1} << log, 600);
  }
  const Form tenths = {"tenths", 64, "pattern p { branch all; score s - 0.1 * (k % 10); }"};
  double sum = 0;
  for (int i = 0; i < 10; ++i) sum += std::exp(-0.1 * i);
  const auto lse = static_cast<double>(run(GetParam(), tenths, 1'000'000, std::vector<float>(kDim, 3)).lse[0]);
  const double bound = GetParam().dtype == DType::f32 ? 4e-6 : GetParam().dtype == DType::f16 ? 1e-3 : 1e-2;
  EXPECT_NEAR(lse, std::log(sum * 1e5), bound);
}

TEST_P(LongRows, OfAlternatingAndOneSidedValues) {
  constexpr std::int64_t kKeys = 1 << 17;
  const Way& way = GetParam();
  std::vector<float> alternating, one_sided;
  std::vector<double> sums(kDim, 0);
  for (std::int64_t k = 0; k < kKeys; ++k) {
    for (std::int64_t c = 0; c < kDim; ++c)
      alternating.push_back((k / (std::int64_t{1} << c) % 2 == 0 ? 1 : -1) * (0.7F + 0.01F * static_cast<float>(c)));
  }
  for (float x : numbers(kKeys * kDim, 5)) one_sided.push_back(1.5F + 0.5F * x);
  const Stored stored(one_sided, way.dtype);
  for (std::int64_t i = 0; i < kKeys * kDim; ++i) sums[static_cast<std::size_t>(i % kDim)] += stored.at(i);
  for (const Form& form : {kFew, kFull}) {
    expect_columns(way, form, kKeys, alternating, 0.85, 0, [](std::int64_t) { return 0; });
    expect_columns(way, form, kKeys, one_sided, 2, 0,
                   [&](std::int64_t c) { return sums[static_cast<std::size_t>(c)] / kKeys; });
  }
}

/// An infinity stays one, and a NaN.
TEST_P(LongRows, OfStrangeValues) {
  constexpr std::int64_t kKeys = 1 << 16;
  for (const Form& form : {kFew, kFull, kPartial}) {
    for (const std::int64_t at : {std::int64_t{3}, std::int64_t{40'002}, kKeys - 1}) {
      std::vector<float> v(static_cast<std::size_t>(kKeys * kDim), 1);
      const auto row = static_cast<std::size_t>(at * kDim);
      v[row] = std::numeric_limits<float>::infinity();
      v[row + 1] = -v[row];
      v[row + 2] = std::numeric_limits<float>::quiet_NaN();
      const auto got = run(GetParam(), form, kKeys, v);
      const auto what = fmt::format("{} at {}", form.name, at);
      EXPECT_EQ(got.out.at(0), static_cast<double>(v[row])) << what;
      EXPECT_EQ(got.out.at(1), -static_cast<double>(v[row])) << what;
      EXPECT_TRUE(std::isnan(got.out.at(2))) << what;
      EXPECT_NEAR(got.out.at(3), 1, 2e-3) << what;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, LongRows,
                         ::testing::Values(Way{"cpu", DType::f32, "f32"}, Way{"cpu", DType::f16, "f16"},
                                           Way{"cpu", DType::bf16, "bf16"}, Way{"cpu:x86-64-v3", DType::f32, "avx2"},
                                           Way{"cpu:x86-64", DType::f32, "sse"}),
                         [](const auto& of) { return std::string(of.param.name); });

/// So long that sums of f32 which take up a key at a time would be 11 % off.
TEST(LongestRows, OfEqualValues) {
  for (int log : {23, 27}) expect_constants({"cpu"}, kFew, std::int64_t{1} << log);
  expect_constants({"cpu"}, kFull, std::int64_t{1} << 23);
}

/// Plain lanes, in chunks of keys (one row) and not.
TEST(EmulatedLongRows, OfEqualValues) {
  expect_constants({"emulate:sm_61"}, kFew, 16'384);
  expect_constants({"emulate:sm_61"}, {"tiles", 300, "pattern p { branch all; }"}, 6'144);
}

}  // namespace
}  // namespace weft::test
