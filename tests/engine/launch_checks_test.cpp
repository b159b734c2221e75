/// A launch that cannot be right is refused before anything is written, by name, dimension, found and expected.

#include "problem.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>

namespace weft::test {
namespace {

class LaunchChecks : public ::testing::Test {
 protected:
  Engine engine_{{.no_cache = true}};
  Problem problem_{2, 12, 2, 16};

  /// The message of launching `text` after `spoil` has changed the arguments; empty where it ran.
  std::string message(const std::string& text, const std::function<void(RunArgs&)>& spoil) {
    const auto kernel = engine_.compile(text, {.dim = 16, .dtype = DType::f32, .target = "interpreter"});
    if (!kernel) return kernel.error().message;
    auto args = problem_.args();
    spoil(args);
    const auto status = kernel->run(args);
    if (status.ok()) return {};
    EXPECT_EQ(status.error().kind, ErrorKind::user);
    EXPECT_TRUE(std::isnan(problem_.out[0])) << "something was written";
    return status.error().message;
  }
  std::string message(const std::function<void(RunArgs&)>& spoil) { return message(kCausal, spoil); }
};

TEST_F(LaunchChecks, ControlNothingSpoiled) {
  EXPECT_EQ(message([](RunArgs&) {}), "");
  EXPECT_FALSE(std::isnan(problem_.out[0]));
}

TEST_F(LaunchChecks, Data) {
  EXPECT_EQ(message([](RunArgs& a) { a.k.data = nullptr; }), "k has no data");
  EXPECT_EQ(message([](RunArgs& a) { a.out.data = nullptr; }), "out has no data");
  EXPECT_EQ(message([](RunArgs& a) { a.v.data = static_cast<const std::byte*>(a.v.data) + 2; }),
            "v starts at an address that is no multiple of 4 bytes");
  EXPECT_EQ(message([](RunArgs& a) { a.v.dtype = DType::f16; }), "v is f16; expected f32");
  EXPECT_EQ(message([](RunArgs& a) { a.q.dtype = DType::i32; }), "q is i32; expected a float type");
  EXPECT_EQ(message([](RunArgs& a) { a.q.rank = 3; }), "q has 3 dimensions; expected 4");
}

TEST_F(LaunchChecks, SlicesOfHeads) {
  const auto cut = [&](std::int64_t first, std::int64_t of) {
    return message(kCausal, [&](RunArgs& a) {
      a.k.extent[2] = a.v.extent[2] = 1;
      a.head_slice = {.first = first, .of = of};
    });
  };
  const auto outside = [](std::int64_t first, std::int64_t of) {
    return "the slice has 2 heads from head " + std::to_string(first) + " on, of " + std::to_string(of) +
           "; it must lie in one of 1 to 65535";
  };
  for (const auto first : {std::int64_t{-2}, std::int64_t{3}, std::numeric_limits<std::int64_t>::max()})
    EXPECT_EQ(cut(first, 4), outside(first, 4));
  for (const auto of : {std::int64_t{-4}, std::int64_t{1}, std::int64_t{65536}}) EXPECT_EQ(cut(0, of), outside(0, of));
  for (const auto& [first, of] : {std::pair<std::int64_t, std::int64_t>{1, 4}, {0, 5}}) {
    EXPECT_EQ(cut(first, of), "the slice has heads " + std::to_string(first) + " to " + std::to_string(first + 1) +
                                  " of " + std::to_string(of) +
                                  ", and 2 heads share one of k and v: it must begin and end between such groups");
  }
  EXPECT_EQ(cut(2, 4), "");
}

TEST_F(LaunchChecks, Slices) {
  const auto cut = [&](std::int64_t first, std::int64_t of, const std::string& text = kCausal) {
    return message(text, [&](RunArgs& a) {
      for (auto* extent : {&a.q.extent[1], &a.out.extent[1], &a.lse.extent[2]}) *extent = 4;
      a.slice = {.first = first, .of = of};
    });
  };
  const auto outside = [](std::int64_t first, std::int64_t of) {
    return "the slice has 4 rows from row " + std::to_string(first) + " on, of a sequence of " + std::to_string(of) +
           "; it must lie in one of 1 to 2147483647";
  };
  for (const auto first : {std::int64_t{-1}, std::int64_t{9}, std::numeric_limits<std::int64_t>::max()})
    EXPECT_EQ(cut(first, 12), outside(first, 12));
  for (const auto of :
       {std::int64_t{-12}, std::int64_t{3}, std::int64_t{1} << 31, std::numeric_limits<std::int64_t>::min()})
    EXPECT_EQ(cut(0, of), outside(0, of));
  EXPECT_EQ(cut(1, 0), outside(1, 0));
  EXPECT_EQ(cut(0, 12, "pattern p { keep blocks(4, top(1, by: pooled)); }"),
            "blocks(4, top(1, by: pooled, causal: false)) scores blocks by the mean of their queries: a slice of the "
            "rows has not all of "
            "them");
  const std::int64_t cu[] = {0, 4};
  EXPECT_EQ(message([&](RunArgs& a) {
              a.slice = {.first = 0, .of = 12};
              for (auto* view : {&a.q, &a.k, &a.v}) view->extent[0] = 1;
              a.out.extent[0] = a.lse.extent[0] = 1;
              a.cu_q = a.cu_k = cu;
            }),
            "the interpreter takes tensors of one length: no cu_q, cu_k or pages");
  EXPECT_EQ(cut(8, 12), "");
}

TEST_F(LaunchChecks, Extents) {
  EXPECT_EQ(message([](RunArgs& a) { a.k.extent[0] = 1; }),
            "k, dimension 0 (batch): the extent is 1; expected 2, as in q");
  EXPECT_EQ(message([](RunArgs& a) { a.v.extent[1] = 11; }),
            "v, dimension 1 (tokens): the extent is 11; expected 12, as in k");
  EXPECT_EQ(message([](RunArgs& a) { a.out.extent[2] = 1; }),
            "out, dimension 2 (heads): the extent is 1; expected 2, as in q");
  EXPECT_EQ(message([](RunArgs& a) { a.q.extent[1] = 0; }),
            "q, dimension 1 (tokens): the extent is 0; it must be at least 1");
  EXPECT_EQ(message([](RunArgs& a) { a.lse.extent[1] = 3; }),
            "lse, dimension 1 (heads): the extent is 3; expected 2, as in q");
  EXPECT_EQ(message("pattern p { heads 4; }", [](RunArgs&) {}), "the tensors have heads 2; the pattern is bound to 4");
  EXPECT_EQ(message("pattern p { tokens multiple_of 8; }", [](RunArgs&) {}),
            "k has 12 tokens; the pattern says tokens multiple_of 8");
  EXPECT_EQ(message("pattern p { grid 3, 5; keep axial; }", [](RunArgs&) {}),
            "k has 12 tokens; the pattern's grid has 15 cells");
}

TEST_F(LaunchChecks, Strides) {
  EXPECT_EQ(message([](RunArgs& a) { a.k.stride[3] = 2; }),
            "k, dimension 3 (dim): the stride is 2; the last dimension must be contiguous (1)");
  EXPECT_EQ(message([](RunArgs& a) { a.out.stride[0] = 0; }),
            "out, dimension 0 (batch): the stride is 0; an output cannot overlap itself");
  EXPECT_EQ(message([](RunArgs& a) { a.q.stride[1] = INT64_MAX / 4; }).substr(0, 24), "q, dimension 1 (tokens):");
  EXPECT_EQ(message([](RunArgs& a) { a.q.stride[1] = INT64_MIN / 4; }).substr(0, 24), "q, dimension 1 (tokens):");
}

TEST_F(LaunchChecks, TooManyTokens) {
  EXPECT_NE(message([](RunArgs& a) {
              for (auto* extent : {&a.k.extent, &a.v.extent}) (*extent)[1] = std::int64_t{1} << 31;
              for (auto* stride : {&a.k.stride, &a.v.stride}) *stride = {0, 0, 0, 1};
            }).find("2147483648 tokens"),
            std::string::npos);
}

TEST_F(LaunchChecks, Offsets) {
  const std::vector<std::int64_t> three(3, 0), far(1, INT64_MAX);
  EXPECT_EQ(message([&](RunArgs& a) { a.offset = three; }),
            "3 offsets are given; expected one, or one per batch entry (2)");
  EXPECT_NE(message([&](RunArgs& a) { a.offset = far; }).find("is beyond"), std::string::npos);
}

TEST_F(LaunchChecks, Inputs) {
  const std::string text = "pattern p { input n: i32[batch]; keep lengths(n); }";
  const std::vector<std::int32_t> lengths = {12, 5};
  const std::vector<NamedInput> good = {{"n", dense_view(lengths.data(), DType::i32, {2})}};
  const std::vector<NamedInput> twice = {good[0], good[0]};
  const std::vector<NamedInput> named = {{"m", good[0].view}};
  const std::vector<NamedInput> typed = {{"n", dense_view(lengths.data(), DType::f32, {2})}};
  const std::vector<NamedInput> longer = {{"n", dense_view(lengths.data(), DType::i32, {3})}};
  EXPECT_EQ(message(text, [](RunArgs&) {}), "input 'n' is missing");
  EXPECT_EQ(message(text, [&](RunArgs& a) { a.inputs = twice; }), "input 'n' is given twice");
  EXPECT_EQ(message(text, [&](RunArgs& a) { a.inputs = named; }), "the pattern has no input 'm'");
  EXPECT_EQ(message(text, [&](RunArgs& a) { a.inputs = typed; }), "input 'n' is f32; expected i32");
  EXPECT_EQ(message(text, [&](RunArgs& a) { a.inputs = longer; }),
            "input 'n', dimension 0 (batch): the extent is 3; expected 2, from the sizes of q and k");
  EXPECT_EQ(message(text, [&](RunArgs& a) { a.inputs = good; }), "");
}

TEST_F(LaunchChecks, LseOfSums) {
  EXPECT_EQ(message("pattern p { branch window(1, 0); branch sink(1); combine sum; }", [](RunArgs&) {}),
            "combine sum has an LSE per branch only: ask for branch_lse");
}

TEST_F(LaunchChecks, KernelsCheckTheCompiledType) {
  const auto kernel = engine_.compile(kCausal, {.dim = 16, .dtype = DType::f16});
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  const auto status = kernel->run(problem_.args());
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().message, "q is f32; expected f16");
}

}  // namespace
}  // namespace weft::test
