/// Backward passes of sequences of different lengths: packed behind one another, or padded to one length. Each must
/// have the bits of a launch of its own, and what belongs to no sequence has no gradient.

#include "tests/engine/problem.h"
#include "tests/support/effort.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace weft::test {
namespace {

constexpr std::int64_t kHeads = 4, kKvHeads = 2, kDim = 16;
constexpr float kPoison = std::numeric_limits<float>::quiet_NaN();
/// Without rows, without keys, without either; some need several units of rows.
const std::vector<std::int64_t> kQueries = {3, 1, 70, 0, 33, 5, 0, 700}, kKeys = {40, 129, 70, 12, 65, 0, 0, 700};
/// Rows and keys in front of the first sequence and behind the last are nobody's.
constexpr std::int64_t kBefore = 2, kBehind = 9;

std::vector<std::int64_t> places(const std::vector<std::int64_t>& lengths) {
  std::vector<std::int64_t> out = {kBefore};
  for (auto n : lengths) out.push_back(out.back() + n);
  return out;
}

/// With some room.
std::int64_t longest(const std::vector<std::int64_t>& cu) {
  std::int64_t out = 1;
  for (std::size_t i = 1; i < cu.size(); ++i) out = std::max(out, cu[i] - cu[i - 1] + 5);
  return out;
}

/// Of all sequences: [rows, H, d] and [keys, H_kv, d], LSE and dLSE [slots, H, rows].
struct Tensors {
  std::int64_t rows, keys, slots;
  std::vector<float> q, k, v, d_out, d_lse, bias;
  std::vector<float> out, lse, dq, dk, dv, d_bias;

  Tensors(std::int64_t row_count, std::int64_t key_count, std::int64_t branches)
      : rows(row_count),
        keys(key_count),
        slots(branches),
        q(numbers(rows * kHeads * kDim, 1)),
        k(numbers(keys * kKvHeads * kDim, 2)),
        v(numbers(keys * kKvHeads * kDim, 3)),
        d_out(numbers(rows * kHeads * kDim, 4)),
        d_lse(numbers(slots * rows * kHeads, 5)),
        bias(numbers(kHeads, 6)),
        out(q.size(), kPoison),
        lse(d_lse.size(), kPoison),
        dq(q.size(), kPoison),
        dk(k.size(), kPoison),
        dv(k.size(), kPoison),
        d_bias(kHeads, 0) {}
};

struct PatternOf {
  const char* text;
  std::int64_t slots = 1;  ///< LSEs of a row
  bool per_branch = false, biased = false, padded = false;
  bool chooses = false;  ///< keys, for sizes that the host knows
};

/// A forward and a backward launch of some rows and keys of the tensors.
class Launches {
 public:
  Launches(const PatternOf& pattern, const char* target) : pattern_(pattern) {
    for (const bool gradient : {false, true}) {
      auto kernel = engine_.compile(pattern.text, {.dim = kDim,
                                                   .dtype = DType::f32,
                                                   .branch_lse = pattern.per_branch && !gradient,
                                                   .gradient = gradient,
                                                   .target = target});
      if (!kernel) throw std::runtime_error(kernel.error().message);
      (gradient ? backward_ : forward_) = std::move(*kernel);
    }
  }

  struct Part {
    std::int64_t first_row = 0, rows = 0, first_key = 0, keys = 0;
    std::vector<std::int64_t> cu_q = {}, cu_k = {};
    std::int64_t batch = 1;                ///< entries of so many rows and keys, one behind the other
    std::vector<std::int32_t> valid = {};  ///< of a padded batch: keys of each entry
    bool in_memory = false;                ///< kernels read cu_q and cu_k; no gradients of inputs
  };
  /// What is said of a launch that is refused; empty: it ran.
  std::string run(Tensors& of, const Part& part, int threads = 0) const {
    const auto rows_at = [&](auto& x) { return x.data() + part.first_row * kHeads * kDim; };
    const auto keys_at = [&](auto& x) { return x.data() + part.first_key * kKvHeads * kDim; };
    const std::vector<std::int64_t> of_rows = {part.batch, part.rows, kHeads, kDim},
                                    of_keys = {part.batch, part.keys, kKvHeads, kDim};
    const auto lse_of = [&](auto view) {
      const auto lead = static_cast<std::size_t>(view.rank - 3);
      if (lead > 0) view.stride[0] = kHeads * of.rows;
      view.stride[lead] = part.rows, view.stride[lead + 1] = of.rows, view.stride[lead + 2] = 1;
      return view;
    };
    std::vector<std::int64_t> of_lse = {part.batch, kHeads, part.rows};
    if (pattern_.per_branch) of_lse.insert(of_lse.begin(), pattern_.slots);
    std::vector<NamedInput> inputs;
    if (pattern_.biased) inputs.push_back({"bias", dense_view(of.bias.data(), DType::f32, {kHeads})});
    if (pattern_.padded) inputs.push_back({"valid", dense_view(part.valid.data(), DType::i32, {part.batch})});
    const std::vector<NamedOutput> d_inputs = {{"bias", dense_output(of.d_bias.data(), DType::f32, {kHeads})}};
    RunArgs args{.q = dense(rows_at(of.q), of_rows),
                 .k = dense(keys_at(of.k), of_keys),
                 .v = dense(keys_at(of.v), of_keys),
                 .out = output(rows_at(of.out), of_rows),
                 .inputs = inputs,
                 .cu_q = part.cu_q,
                 .cu_k = part.cu_k,
                 .threads = threads};
    const std::vector<std::int32_t> at_q(part.cu_q.begin(), part.cu_q.end()), at_k(part.cu_k.begin(), part.cu_k.end());
    if (part.in_memory) {
      args.cu_q = args.cu_k = {};
      args.sizes_at = {.sequences = std::ssize(at_q) - 1,
                       .most_q = longest(part.cu_q),
                       .most_k = longest(part.cu_k),
                       .cu_q = at_q.data(),
                       .cu_k = at_k.data()};
    }
    (pattern_.per_branch ? args.branch_lse : args.lse) = lse_of(output(of.lse.data() + part.first_row, of_lse));
    if (const auto ran = forward_->run(args); !ran.ok()) return ran.error().message;
    args.d_out = dense(rows_at(of.d_out), of_rows);
    args.d_lse = lse_of(dense(of.d_lse.data() + part.first_row, of_lse));
    args.dq = output(rows_at(of.dq), of_rows);
    args.dk = output(keys_at(of.dk), of_keys);
    args.dv = output(keys_at(of.dv), of_keys);
    if (pattern_.biased && !part.in_memory) {
      of.d_bias.assign(kHeads, kPoison);
      args.d_inputs = d_inputs;
    }
    const auto ran = backward_->run(args);
    return ran.ok() ? "" : ran.error().message;
  }

 private:
  static TensorView dense(const float* data, const std::vector<std::int64_t>& extent) {
    TensorView out = dense_view(data, DType::f32, {1});
    shape(out, extent);
    return out;
  }
  static OutputView output(float* data, const std::vector<std::int64_t>& extent) {
    OutputView out = dense_output(data, DType::f32, {1});
    shape(out, extent);
    return out;
  }
  template <typename View>
  static void shape(View& view, const std::vector<std::int64_t>& extent) {
    view.rank = static_cast<int>(extent.size());
    std::int64_t stride = 1;
    for (auto axis = extent.size(); axis-- > 0;) {
      view.extent[axis] = extent[axis];
      view.stride[axis] = stride;
      stride *= extent[axis];
    }
  }

  PatternOf pattern_;
  Engine engine_{{.no_cache = true}};
  std::optional<Kernel> forward_, backward_;
};

/// Text of kernels for GPUs, run on the host.
constexpr const char* kGpu = "emulate:sm_61";

class PackedGradients : public ::testing::TestWithParam<PatternOf> {
 protected:
  const std::vector<std::int64_t> cu_q = places(kQueries), cu_k = places(kKeys);
  const std::int64_t rows = cu_q.back() + kBehind, keys = cu_k.back() + kBehind;

  /// The GPU takes every other pattern.
  static std::vector<const char*> targets() {
    const std::string_view name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    const auto pattern = static_cast<std::size_t>(name.back() - '0');
    return takes_turn_on(kGpu, pattern) ? std::vector{"cpu", kGpu} : std::vector{"cpu"};
  }

  Tensors fresh() const { return {rows, keys, GetParam().slots}; }
  Launches::Part all() const { return {0, rows, 0, keys, cu_q, cu_k}; }

  /// A launch for each sequence; what they leave out is 0, and inputs get what all of them give.
  Tensors apart(const char* target) const {
    const Launches launches(GetParam(), target);
    auto out = fresh();
    for (auto* x : {&out.dq, &out.dk, &out.dv}) std::fill(x->begin(), x->end(), 0.0F);
    std::vector<float> d_bias(kHeads, 0);
    for (std::size_t b = 0; b < kQueries.size(); ++b) {
      if (kQueries[b] == 0 || kKeys[b] == 0) continue;
      EXPECT_EQ(launches.run(out, {cu_q[b], kQueries[b], cu_k[b], kKeys[b]}), "") << "sequence " << b;
      std::transform(d_bias.begin(), d_bias.end(), out.d_bias.begin(), d_bias.begin(), std::plus<>());
    }
    out.d_bias = d_bias;
    return out;
  }
};

TEST_P(PackedGradients, AreAsIfAlone) {
  const auto want = apart("cpu");
  auto got = fresh();
  ASSERT_EQ(Launches(GetParam(), "cpu").run(got, all()), "");
  EXPECT_EQ(got.dq, want.dq);
  EXPECT_EQ(got.dk, want.dk);
  EXPECT_EQ(got.dv, want.dv);
  EXPECT_LT(largest_difference(got.d_bias, want.d_bias), 1e-4);
}

TEST_P(PackedGradients, AreThoseOfTheMeaning) {
  const auto want = apart("interpreter");
  for (const char* target : targets()) {
    auto got = fresh();
    ASSERT_EQ(Launches(GetParam(), target).run(got, all()), "");
    EXPECT_LT(largest_difference(got.dq, want.dq), 1e-4) << target;
    EXPECT_LT(largest_difference(got.dk, want.dk), 1e-4) << target;
    EXPECT_LT(largest_difference(got.dv, want.dv), 1e-4) << target;
    EXPECT_LT(largest_difference(got.d_bias, want.d_bias), 1e-3) << target;
    EXPECT_GT(largest_difference(got.dk, std::vector<float>(got.dk.size(), 0)), 1e-2)
        << "there is something to compare";
  }
}

TEST_P(PackedGradients, AreTheSameWithAnyNumberOfThreads) {
  const Launches launches(GetParam(), "cpu");
  auto one = fresh(), many = fresh();
  ASSERT_EQ(launches.run(one, all(), 1), "");
  ASSERT_EQ(launches.run(many, all(), 7), "");
  EXPECT_EQ(one.dq, many.dq);
  EXPECT_EQ(one.dk, many.dk);
  EXPECT_EQ(one.dv, many.dv);
  EXPECT_EQ(one.d_bias, many.d_bias);
}

/// What stands in front of sequences and behind them is not read, and has gradients of 0.
TEST_P(PackedGradients, OfWhatIsInNoSequenceAreZero) {
  for (const char* target : targets()) {
    const Launches launches(GetParam(), target);
    auto want = fresh(), got = fresh();
    const auto spoil = [](std::vector<float>& x, std::int64_t row, std::int64_t count) {
      std::fill_n(x.begin(), kBefore * row, kPoison);
      std::fill_n(x.begin() + (count - kBehind) * row, kBehind * row, kPoison);
    };
    for (auto* x : {&got.q, &got.d_out}) spoil(*x, kHeads * kDim, rows);
    for (auto* x : {&got.k, &got.v}) spoil(*x, kKvHeads * kDim, keys);
    ASSERT_EQ(launches.run(want, all()), "");
    ASSERT_EQ(launches.run(got, all()), "");
    EXPECT_EQ(got.dq, want.dq);
    EXPECT_EQ(got.dk, want.dk);
    EXPECT_EQ(got.dv, want.dv);
    const auto is_zero = [](const std::vector<float>& x, std::int64_t row, std::int64_t first, std::int64_t count) {
      const auto begin = x.begin() + first * row;
      return std::all_of(begin, begin + count * row, [](float value) { return value == 0; });
    };
    EXPECT_TRUE(is_zero(got.dq, kHeads * kDim, 0, kBefore));
    EXPECT_TRUE(is_zero(got.dq, kHeads * kDim, rows - kBehind, kBehind));
    for (const auto* x : {&got.dk, &got.dv}) {
      EXPECT_TRUE(is_zero(*x, kKvHeads * kDim, 0, kBefore));
      EXPECT_TRUE(is_zero(*x, kKvHeads * kDim, keys - kBehind, kBehind));
      EXPECT_TRUE(is_zero(*x, kKvHeads * kDim, cu_k[3], kKeys[3])) << "a sequence without rows";
    }
    EXPECT_TRUE(is_zero(got.dq, kHeads * kDim, cu_q[5], kQueries[5])) << "a sequence without keys";
  }
}

/// Kernels find out where sequences are, and what is left over.
TEST_P(PackedGradients, SizesMayStandInMemory) {
  if (GetParam().chooses) return;
  for (const char* target : targets()) {
    const Launches launches(GetParam(), target);
    auto want = fresh(), got = fresh();
    auto part = all();
    ASSERT_EQ(launches.run(want, part), "") << target;
    part.in_memory = true;
    ASSERT_EQ(launches.run(got, part), "") << target;
    EXPECT_EQ(got.dq, want.dq) << target;
    EXPECT_EQ(got.dk, want.dk) << target;
    EXPECT_EQ(got.dv, want.dv) << target;
  }
}

/// Only empty sequences: everything is 0, and nothing is left as it was.
TEST_P(PackedGradients, OfEmptySequencesAreZero) {
  const std::vector<std::int64_t> none = {0, 0, 0};
  for (const char* target : targets()) {
    const Launches launches(GetParam(), target);
    for (const bool in_memory : {false, true}) {
      if (in_memory && GetParam().chooses) continue;
      auto got = fresh();
      Launches::Part part{0, rows, 0, keys, none, none};
      part.in_memory = in_memory;
      ASSERT_EQ(launches.run(got, part), "");
      for (const auto* x : {&got.dq, &got.dk, &got.dv}) EXPECT_EQ(*x, std::vector<float>(x->size(), 0)) << target;
      if (!in_memory) {
        EXPECT_EQ(got.d_bias, std::vector<float>(kHeads, 0)) << target;
      }
    }
  }
}

/// Sequences of one length are the entries of a batch, and draw what these draw for dropout.
TEST_P(PackedGradients, OfEqualLengthsAreThoseOfABatch) {
  constexpr std::int64_t kRows = 33, kCount = 3;
  auto dropped = GetParam();
  const auto text = std::string(dropped.text).insert(std::string_view(dropped.text).size() - 1, "dropout 0.25; ");
  dropped.text = text.c_str();
  const Launches launches(dropped, "cpu");
  Tensors batch(kCount * kRows, kCount * kRows, dropped.slots), packed = batch;
  ASSERT_EQ(launches.run(batch, {.rows = kRows, .keys = kRows, .batch = kCount}), "");
  const std::vector<std::int64_t> cu = {0, kRows, 2 * kRows, 3 * kRows};
  ASSERT_EQ(launches.run(packed, {.rows = kCount * kRows, .keys = kCount * kRows, .cu_q = cu, .cu_k = cu}), "");
  EXPECT_EQ(packed.dq, batch.dq);
  EXPECT_EQ(packed.dk, batch.dk);
  EXPECT_EQ(packed.dv, batch.dv);
  EXPECT_LT(largest_difference(packed.d_bias, batch.d_bias), 1e-4);
  // The control: with a draw of its own the second entry would differ.
  Tensors alone = batch;
  ASSERT_EQ(launches.run(alone, {.first_row = kRows, .rows = kRows, .first_key = kRows, .keys = kRows}), "");
  EXPECT_NE(alone.dq, batch.dq);
}

/// Entries of one length whose last rows and keys are padding: each has the gradients of the others alone, padding has
/// 0, and keys that stand there are not read.
TEST(PaddedGradients, AreThoseOfTheTokensThatCount) {
  constexpr std::int64_t kRows = 150, kCount = 4;
  const PatternOf pattern{.text = "pattern p { input valid: i32[batch]; keep lengths(valid); }", .padded = true};
  const Launches launches(pattern, "cpu");
  const std::vector<std::int32_t> valid = {150, 17, 0, 64};
  Tensors batch(kCount * kRows, kCount * kRows, 1), apart = batch;
  for (auto* x : {&apart.dq, &apart.dk, &apart.dv}) std::fill(x->begin(), x->end(), 0.0F);
  for (std::int64_t b = 0; b < kCount; ++b) {
    const auto keys = valid[static_cast<std::size_t>(b)];
    if (keys > 0) {
      EXPECT_EQ(launches.run(apart, {b * kRows, keys, b * kRows, keys, {}, {}, 1, {keys}}), "");
    }
    for (auto* x : {&batch.k, &batch.v}) {
      const auto begin = x->begin() + b * kRows * kKvHeads * kDim;
      std::fill(begin + keys * kKvHeads * kDim, begin + kRows * kKvHeads * kDim, kPoison);
    }
  }
  ASSERT_EQ(launches.run(batch, {0, kRows, 0, kRows, {}, {}, kCount, valid}), "");
  EXPECT_EQ(batch.dq, apart.dq);
  // Rows of few queries stand in other tiles, which add up in another order.
  EXPECT_LT(largest_difference(batch.dk, apart.dk), 1e-6);
  EXPECT_LT(largest_difference(batch.dv, apart.dv), 1e-6);
}

constexpr PatternOf kPatterns[] = {
    {.text = "pattern p { keep causal; }"},
    {.text = "pattern p { keep window(20, 0); }"},
    {.text = "pattern p { branches dilated(segments: [16, 64], rates: [1, 3]); keep causal; }"},
    {.text = "pattern p { branch window(9, 0); branch sink(2) & causal; combine sum; }",
     .slots = 2,
     .per_branch = true},
    {.text = "pattern p { input bias: f32[heads]; score s * 2 + bias[h] * (q - k); keep window(30, 0); }",
     .biased = true},
    {.text = "pattern p { branch blocks(16, window(1, 1) | random(2, seed: 7)); }", .chooses = true}};

INSTANTIATE_TEST_SUITE_P(Patterns, PackedGradients, ::testing::ValuesIn(kPatterns));

}  // namespace
}  // namespace weft::test
