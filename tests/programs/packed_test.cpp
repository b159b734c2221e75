#include "compiler/ir/launchable.h"
#include "tests/programs/launches.h"
#include "tests/support/effort.h"
#include "tests/support/near.h"
#include "tests/support/pages.h"
#include "tests/support/random_numbers.h"
#include "tests/support/random_program.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

/// Sequences of different lengths that are packed behind one another, with rows of nobody before and behind them, or
/// with keys in pages: of any pattern each has the bits that it has in a batch of sequences as long as itself, and rows
/// of nobody have gradients of 0.
namespace weft::test {
namespace {

using Lengths = std::vector<std::int64_t>;

struct Sequences {
  Lengths q, k;                        ///< lengths
  Lengths first_q = {}, first_k = {};  ///< where they begin, and where the last ends
  std::int64_t rows = 0, keys = 0;     ///< of the packed tensors
};

/// One is as long as the program says, others are shorter where the pattern lets them, or have no queries.
Sequences drawn(const Program& program, const ir::Pattern& pattern, RandomNumbers& random) {
  const bool any = pattern.tokens.kind == ir::Tokens::Kind::any && pattern.grid.empty();
  const auto& s = program.shape;
  Sequences out;
  const auto longest = random.between(0, s.batch - 1);
  for (std::int64_t b = 0; b < s.batch; ++b) {
    out.q.push_back(b == longest ? s.n_q : random.pick<std::int64_t>({0, 1, random.between(0, s.n_q)}));
    out.k.push_back(b == longest || !any ? s.n_k : random.between(1, s.n_k));
  }
  const auto places = [&](const Lengths& lengths, Lengths& first) {
    first.push_back(random.pick<std::int64_t>({0, random.between(1, 70)}));
    for (const auto n : lengths) first.push_back(first.back() + n);
    return first.back() + random.pick<std::int64_t>({0, random.between(1, 140)});
  };
  out.rows = places(out.q, out.first_q);
  out.keys = places(out.k, out.first_k);
  return out;
}

/// [outer, B, between, N, inner bytes] of a dense tensor: entry b, places first .. first + count - 1 of N.
Bytes part(const Bytes& all, std::int64_t outer, std::int64_t batch, std::int64_t between, std::int64_t n,
           std::int64_t inner, std::int64_t b, std::int64_t first, std::int64_t count) {
  Bytes out;
  for (std::int64_t i = 0; i < outer; ++i) {
    for (std::int64_t j = 0; j < between; ++j) {
      const auto at = all.begin() + (((i * batch + b) * between + j) * n + first) * inner;
      out.insert(out.end(), at, at + count * inner);
    }
  }
  return out;
}

/// All that a launch of both passes writes.
class Outputs {
 public:
  static constexpr std::array kNames = {"O", "LSE", "branch LSE", "dQ", "dK", "dV"};
  static constexpr std::size_t kOfForward = 3;
  using Parts = std::array<Bytes, kNames.size()>;

  Outputs(const RunArgs& like, std::int64_t branches)
      : q_(like.q.extent), k_(like.k.extent), d_v_(like.v.extent[3]), branches_(branches), dtype_(like.q.dtype) {
    const auto room = [](std::int64_t count, std::size_t size) {
      return Bytes(static_cast<std::size_t>(count) * size, std::byte{0x7f});  // which no kernel writes
    };
    const std::int64_t rows = q_[0] * q_[1] * q_[2], keys = k_[0] * k_[1] * k_[2];
    all_ = {room(rows * d_v_, size()),  room(rows, sizeof(float)),  room(branches_ * rows, sizeof(float)),
            room(rows * q_[3], size()), room(keys * k_[3], size()), room(keys * d_v_, size())};
  }

  /// Those of the forward; a kernel without an LSE writes none.
  void give(RunArgs& args, bool lse, bool branch_lse) {
    args.out = dense_output(all_[0].data(), dtype_, {q_[0], q_[1], q_[2], d_v_});
    args.lse = args.branch_lse = {};
    if (lse) args.lse = dense_output(all_[1].data(), DType::f32, {q_[0], q_[2], q_[1]});
    if (branch_lse) args.branch_lse = dense_output(all_[2].data(), DType::f32, {branches_, q_[0], q_[2], q_[1]});
  }
  void give_gradients(RunArgs& args) {
    args.dq = dense_output(all_[3].data(), dtype_, {q_[0], q_[1], q_[2], q_[3]});
    args.dk = dense_output(all_[4].data(), dtype_, {k_[0], k_[1], k_[2], k_[3]});
    args.dv = dense_output(all_[5].data(), dtype_, {k_[0], k_[1], k_[2], d_v_});
  }

  Parts of(std::int64_t b, std::int64_t row, std::int64_t rows, std::int64_t key, std::int64_t keys) const {
    const auto bytes = static_cast<std::int64_t>(size());
    const std::int64_t f32 = sizeof(float);
    return {part(all_[0], 1, q_[0], 1, q_[1], q_[2] * d_v_ * bytes, b, row, rows),
            part(all_[1], 1, q_[0], q_[2], q_[1], f32, b, row, rows),
            part(all_[2], branches_, q_[0], q_[2], q_[1], f32, b, row, rows),
            part(all_[3], 1, q_[0], 1, q_[1], q_[2] * q_[3] * bytes, b, row, rows),
            part(all_[4], 1, k_[0], 1, k_[1], k_[2] * k_[3] * bytes, b, key, keys),
            part(all_[5], 1, k_[0], 1, k_[1], k_[2] * d_v_ * bytes, b, key, keys)};
  }

 private:
  std::size_t size() const { return size_of(dtype_); }
  std::array<std::int64_t, kMaxRank> q_, k_;
  std::int64_t d_v_, branches_;
  DType dtype_;
  Parts all_;
};

/// Rows of [B, n, heads, dim], packed; rows of nobody are NaN.
Bytes packed(const TensorView& view, const Lengths& lengths, const Lengths& first, std::int64_t total) {
  const auto row = static_cast<std::size_t>(view.stride[1]) * size_of(view.dtype);
  Bytes out(static_cast<std::size_t>(total) * row, std::byte{0xff});
  for (std::size_t b = 0; b < lengths.size(); ++b) {
    const auto from = b * static_cast<std::size_t>(view.stride[0]) * size_of(view.dtype);
    std::memcpy(out.data() + static_cast<std::size_t>(first[b]) * row, static_cast<const std::byte*>(view.data) + from,
                static_cast<std::size_t>(lengths[b]) * row);
  }
  return out;
}

TensorView of_packed(const Bytes& bytes, const TensorView& like, std::int64_t total) {
  return dense_view(bytes.data(), like.dtype, {1, total, like.extent[2], like.extent[3]});
}

/// Inputs of so many queries and keys: the first of each axis.
std::vector<NamedInput> cropped(const ir::Pattern& pattern, std::span<const NamedInput> inputs, ir::Shape shape) {
  std::vector<NamedInput> out(inputs.begin(), inputs.end());
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto& input = pattern.inputs[i];
    for (std::size_t axis = 0; axis < input.axes.size(); ++axis)
      out[i].view.extent[axis] = std::min(out[i].view.extent[axis], ir::extent_of(input.axes[axis], input, shape));
  }
  return out;
}

struct Way {
  const char* target;
  int programs;
  std::int64_t most_tokens;
  ir::DType dtype = ir::DType::f32;
};

struct Compared {
  int forward = 0, backward = 0, sizes_in_memory = 0, paged = 0;
};

/// Rows of K or V that each sequence of a batch has, in pages.
Bytes in_pages(Pages& pages, const TensorView& view) {
  const std::int64_t row = view.stride[1] * static_cast<std::int64_t>(size_of(view.dtype));
  std::vector<std::int64_t> first(pages.lengths.size());
  for (std::size_t b = 0; b < first.size(); ++b)
    first[b] = static_cast<std::int64_t>(b) * view.stride[0] / view.stride[1];
  return pages.fill(static_cast<const std::byte*>(view.data), row, first);
}

class Comparison {
  using Apart = std::vector<Outputs::Parts>;  ///< each sequence by itself

 public:
  Comparison(const Program& program, const Way& way)
      : program_(program),
        bound_(way.dtype == ir::DType::f32 ? 1e-4 : 4e-3),
        forward_(program, way.target),
        backward_(program, way.target, {.gradient = true}),
        paged_(program, way.target, {.paged = true}) {}

  /// What is wrong, in words; empty: nothing, or the pattern is refused.
  std::string run(Compared& compared) {
    if (!forward_.ok()) return "";
    RandomNumbers random(program_.seed);
    const Sequences of = drawn(program_, forward_.pattern(), random);
    std::string wrong;
    const auto with = [&](const Kernel&, const RunArgs& args) -> Status {
      wrong = compare(args, of, compared);
      return done;
    };
    const auto status = forward_.run(0, program_.shape.n_q, true, {}, with);
    return status.ok() ? wrong : status.error().message;
  }

 private:
  std::string compare(const RunArgs& args, const Sequences& of, Compared& compared) {
    const auto& s = program_.shape;
    const auto type = from_ir(program_.dtype);
    const ir::Shape of_d_out = {
        .batch = s.batch, .n_q = s.n_q, .n_k = 1, .heads = s.heads, .kv_heads = 1, .d = s.d_v, .d_v = 1};
    const Bytes d_out = stored(draw_tensors(of_d_out, program_.dtype, program_.seed + 1).q, type);
    RunArgs dense = args;
    dense.d_out = dense_view(d_out.data(), type, {s.batch, s.n_q, s.heads, s.d_v});

    Apart apart(of.q.size());
    for (std::size_t b = 0; b < of.q.size(); ++b) {
      if (of.q[b] == 0) continue;
      RunArgs some = dense;
      const auto inputs = cropped(forward_.pattern(), args.inputs,
                                  {.batch = s.batch, .n_q = of.q[b], .n_k = of.k[b], .heads = s.heads});
      some.q.extent[1] = some.d_out.extent[1] = of.q[b];
      some.k.extent[1] = some.v.extent[1] = of.k[b];
      some.inputs = inputs;
      Outputs outputs(some, branches());
      if (!run(some, outputs, forward_).ok()) return "";  // tokens of other sizes
      apart[b] = outputs.of(static_cast<std::int64_t>(b), 0, of.q[b], 0, of.k[b]);
    }

    const Bytes q = packed(args.q, of.q, of.first_q, of.rows), k = packed(args.k, of.k, of.first_k, of.keys),
                v = packed(args.v, of.k, of.first_k, of.keys),
                packed_d_out = packed(dense.d_out, of.q, of.first_q, of.rows);
    RunArgs together = args;
    together.q = of_packed(q, args.q, of.rows);
    together.k = of_packed(k, args.k, of.keys);
    together.v = of_packed(v, args.v, of.keys);
    together.d_out = of_packed(packed_d_out, dense.d_out, of.rows);
    together.cu_q = of.first_q;
    together.cu_k = of.first_k;
    if (auto wrong = check(together, of, apart, forward_); !wrong.empty()) return "packed: " + wrong;
    ++compared.forward;
    if (backward_.ok()) ++compared.backward;
    if (auto wrong = compare_in_memory(together, of, apart, forward_, compared); !wrong.empty()) return wrong;
    if (!paged_.ok()) return "";

    Pages pages(of.k, std::vector{4, 16, 48, 64}[program_.seed % 4]);
    const Bytes k_pages = in_pages(pages, args.k), v_pages = in_pages(pages, args.v);
    together.k = pages.view(k_pages.data(), args.k);
    together.v = pages.view(v_pages.data(), args.v);
    together.pages = pages.pages();
    together.cu_k = {};
    together.kv_lengths = of.k;
    // Keys in pages may be summed up in another order.
    Apart of_pages = apart;
    if (auto wrong = check(together, of, of_pages, paged_, bound_); !wrong.empty()) return "in pages: " + wrong;
    ++compared.paged;
    return compare_in_memory(together, of, of_pages, paged_, compared);
  }

  /// As `args` says, with sizes where kernels read them.
  std::string compare_in_memory(RunArgs args, const Sequences& of, Apart& apart, const Launches& forward,
                                Compared& compared) const {
    const auto ints = [](std::span<const std::int64_t> numbers) {
      return std::vector<std::int32_t>(numbers.begin(), numbers.end());
    };
    const auto at_q = ints(args.cu_q), at_k = ints(args.cu_k), lengths = ints(args.kv_lengths);
    std::vector<std::int64_t> offset(args.offset.begin(), args.offset.end());
    if (offset.size() == 1) offset.resize(of.q.size(), offset.front());
    const auto given = [](const auto& numbers) { return numbers.empty() ? nullptr : numbers.data(); };
    args.sizes_at = {.sequences = std::ssize(of.q),
                     .most_q = program_.shape.n_q,
                     .most_k = program_.shape.n_k,
                     .cu_q = given(at_q),
                     .cu_k = given(at_k),
                     .kv_lengths = given(lengths),
                     .offset = given(offset)};
    args.cu_q = args.cu_k = args.kv_lengths = args.offset = {};
    const auto wrong = check(args, of, apart, forward);
    if (wrong.find("sizes_at") != std::string::npos) return "";  // refused
    ++compared.sizes_in_memory;
    return wrong.empty() ? "" : fmt::format("{}, sizes in memory: {}", args.pages.data ? "in pages" : "packed", wrong);
  }

  /// With a bound, other bits are what is expected from then on.
  std::string check(const RunArgs& args, const Sequences& of, Apart& apart, const Launches& forward,
                    double bound = 0) const {
    Outputs outputs(args, branches());
    const bool backward = &forward == &forward_ && backward_.ok();
    if (const auto status = run(args, outputs, forward); !status.ok()) return status.error().message;
    for (std::size_t b = 0; b < of.q.size(); ++b) {
      if (of.q[b] == 0) continue;
      const auto keys = args.pages.data == nullptr ? of.k[b] : 0;
      const auto found = outputs.of(0, of.first_q[b], of.q[b], keys == 0 ? 0 : of.first_k[b], keys);
      for (std::size_t i = 0; i < found.size() && (backward || i < Outputs::kOfForward); ++i) {
        if (found[i] == apart[b][i] || (bound > 0 && is_near(found[i], apart[b][i], i, bound))) continue;
        return fmt::format("sequence {} ({} queries, {} keys): other bits of {}", b, of.q[b], of.k[b],
                           Outputs::kNames[i]);
      }
      if (bound > 0) apart[b] = found;
    }
    return backward ? wrong_of_nobody(outputs, of) : "";
  }

  bool is_near(const Bytes& a, const Bytes& b, std::size_t which, double bound) const {
    const auto dtype = which == 0 ? forward_.dtype() : DType::f32;
    return test::apart(numbers_of(a, dtype), numbers_of(b, dtype)) < bound;
  }

  /// Of rows outside of all sequences, and of keys that no query has.
  std::string wrong_of_nobody(const Outputs& outputs, const Sequences& of) const {
    const auto zero = [&](const Bytes& bytes) {
      const auto values = numbers_of(bytes, forward_.dtype());
      return std::all_of(values.begin(), values.end(), [](float value) { return value == 0; });
    };
    const auto all_zero = [&](std::int64_t row, std::int64_t rows, std::int64_t key, std::int64_t keys) {
      const auto parts = outputs.of(0, row, rows, key, keys);
      return zero(parts[3]) && zero(parts[4]) && zero(parts[5]);
    };
    if (!all_zero(0, of.first_q.front(), 0, of.first_k.front())) return "gradients before the first sequence";
    if (!all_zero(of.first_q.back(), of.rows - of.first_q.back(), of.first_k.back(), of.keys - of.first_k.back()))
      return "gradients behind the last sequence";
    for (std::size_t b = 0; b < of.q.size(); ++b) {
      if (of.q[b] == 0 && !all_zero(0, 0, of.first_k[b], of.k[b]))
        return fmt::format("gradients of the keys of sequence {}, which has no queries", b);
    }
    return "";
  }

  /// One pass or both.
  Status run(RunArgs args, Outputs& outputs, const Launches& of) const {
    const bool each = ir::per_branch(forward_.pattern().combine);
    outputs.give(args, !each && ir::has_lse(forward_.pattern()), program_.branch_lse);
    RunArgs forward = args;
    forward.d_out = {};
    WEFT_CHECK(of.kernel().run(forward));
    if (&of != &forward_ || !backward_.ok()) return done;
    outputs.give_gradients(args);
    return backward_.kernel().run(args);
  }

  std::int64_t branches() const { return std::ssize(forward_.pattern().branches); }

  const Program& program_;
  double bound_;
  Launches forward_, backward_, paged_;
};

class RandomPacked : public ::testing::TestWithParam<Way> {};

TEST_P(RandomPacked, HaveTheBitsOfEachSequence) {
  const Way& way = GetParam();
  const int programs = programs_on(way.target, way.programs, 4);
  Compared compared;
  for (int i = 0; i < programs; ++i) {
    const auto seed = 9'400'000 + static_cast<std::uint64_t>(i);
    Program program = random_program(seed, {.most_tokens = way.most_tokens, .most_heads = 3, .nesting = 2});
    program.dtype = way.dtype;
    program.shape.batch = 1 + i % 4;
    const auto offsets = program.shape.offset.size();
    if (offsets > 1) program.shape.offset.resize(1);
    const auto pattern = lowered(program);
    if (!pattern) continue;
    program.branch_lse = ir::per_branch(pattern->combine);  // which a backward pass reads
    const auto wrong = Comparison(program, way).run(compared);
    ASSERT_EQ(wrong, "") << way.target << ", program " << i << "\n" << to_file(program);
  }
  fmt::print("{} packed, {} with gradients, {} in pages, {} with sizes in memory\n", compared.forward,
             compared.backward, compared.paged, compared.sizes_in_memory);
  EXPECT_GT(compared.forward, programs / 3);
  EXPECT_GT(compared.backward, programs / 5);
  EXPECT_GT(compared.paged, programs / 5);
  EXPECT_GT(compared.sizes_in_memory, programs / 10);
}

INSTANTIATE_TEST_SUITE_P(, RandomPacked,
                         ::testing::Values(Way{"cpu", 40, 200}, Way{"cpu:x86-64", 10, 300},
                                           Way{"emulate:sm_61", 6, 150}, Way{"emulate:sm_80", 6, 200, ir::DType::f16}),
                         [](const auto& row) { return fmt::format("way_{}", row.index); });

}  // namespace
}  // namespace weft::test
