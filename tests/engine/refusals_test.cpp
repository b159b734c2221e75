#include "problem.h"

#include <gtest/gtest.h>

#include <deque>

/// What one target refuses all refuse, in the same words.
namespace weft::test {
namespace {

constexpr std::int64_t kTokens = 12, kHeads = 2, kDim = 16;

struct Case {
  const char* text;
  const char* message;
  std::vector<std::int64_t> offset = {};
  std::int64_t queries = kTokens;
};

const Case kCases[] = {
    {"pattern p { branch window(3, 0) on heads 0..4; }", "a branch runs on heads 0..4, there are 2"},
    {"pattern p { branch neighborhood(size: 3); }",
     "neighborhood needs as many queries as keys; there are 5 and 12",
     {},
     5},
    {"pattern p { keep blocks(2, neighborhood(size: 3)); }",
     "neighborhood needs as many queries as keys; there are 5 and 12",
     {},
     5},
    {"pattern p { branch neighborhood(size: 3); }",
     "neighborhood needs the whole sequence; the queries begin at position 4",
     {4}},
    {"pattern p { branch neighborhood(size: 3); }",
     "neighborhood needs the whole sequence; the queries begin at position 1",
     {0, 1}},
    {"pattern p { branch sink(1) | (causal & neighborhood(size: 7, dilation: 2)); }",
     "neighborhood: size times dilation is 14, more than 12 tokens"},
    {"pattern p { keep blocks(4, neighborhood(size: 4)); }",
     "neighborhood: size times dilation is 4, more than 3 tokens"},
    {"pattern p { input x: f32[queries]; score s + x[q]; }",
     "query positions begin at -3 and the pattern uses them as an index; give an offset",
     {-3}},
    {"pattern p { input x: i32[tokens]; keep document(x); }",
     "query positions begin at -1 and the pattern uses them as an index; give an offset",
     {2, -1}},
    // Indices beyond an end, for a pair that is surely kept.
    {"pattern p { input x: f32[10]; score s + x[q]; }",
     "x[q] is read at 11, and axis 0 of 'x' has the extent 10 (batch entry 1, head 1, query 11, key 0)"},
    {"pattern p { input x: f32[1]; score s + x[h]; keep causal; }",
     "x[h] is read at 1, and axis 0 of 'x' has the extent 1 (batch entry 1, head 1, query 11, key 0)"},
    {"pattern p { input x: i32[2]; keep causal & where(x[q - k] > 0); }",
     "x[q - k] is read at 11, and axis 0 of 'x' has the extent 2 (batch entry 1, head 1, query 11, key 0)"},
    {"pattern p { keep where(0 <= q - k < [3, 4][h + 1]); }",
     "index h + 1 of a list is 2, and the list has 2 items (batch entry 1, head 1, query 11, key 0)"},
    {"pattern p { input x: i32[queries]; score select(x[k] > 2, s, 2 * s); }",
     "x[k] is read at 5, and axis 0 of 'x' has the extent 5 (batch entry 1, head 1, query 4, key 5)",
     {0},
     5},
    {"pattern p { input x: u8[2, 3]; keep blocks(4, table(x)); }",
     "'x' is read at 2, and axis 0 of 'x' has the extent 2 (batch entry 1, head 1, query 11, key 0)"},
};

/// Right, although an interval of every index leaves its extent.
const char* const kRight[] = {
    "pattern p { input x: f32[4]; score s + x[q - k]; keep window(3, 0); }",
    "pattern p { input x: f32[9]; score s + x[q - k + 4]; keep blocks(2, window(1, 1)) & where(abs(q - k) < 5); }",
    "pattern p { input x: f32[3]; score select(q < 3, s + x[q], s); }",
    "pattern p { input x: i32[12]; keep where(k > 0 and x[k - 1] >= 0) | sink(1); }",
    "pattern p { input x: f32[1]; branch where(h == 0); score s + x[h]; }",
    "pattern p { input x: f32[10]; keep where(q < 10); score s + x[q]; }",
    "pattern p { input x: f32[12]; input at: i32[12]; score s + x[at[k] + 100]; }",
    "pattern p { keep where(q - k < select(h < 1, [5][0], [5, 7][h])); }",
    "pattern p { input x: i32[10]; keep where(x[q] > 0 and q < 10); }",
    "pattern p { input x: i32[10]; keep where(q >= 10 or not (q < 10 and x[q] < 0)); }",
    "pattern p { input x: i32[10]; input y: i32[12]; keep where(x[q] > 0 and y[q] > 1); }",
    "pattern p { input x: f32[6]; score s + x[q / 2]; keep segment(4); }",
};

class Refusals : public ::testing::Test {
 protected:
  Engine engine_{{.no_cache = true}};
  Problem problem_{2, kTokens, kHeads, kDim};
  const std::vector<std::int32_t> integers_ = std::vector<std::int32_t>(64, 1);

  /// Views of zeros, or of ones, of the extents that each input wants; `text` has one or two inputs.
  std::string run(const Case& c, const std::string& target) {
    const auto kernel = engine_.compile(c.text, {.dim = kDim, .dtype = DType::f32, .target = target});
    if (!kernel) return "not compiled: " + kernel.error().message;
    auto args = problem_.args();
    args.q.extent[1] = args.out.extent[1] = args.lse.extent[2] = c.queries;
    std::vector<NamedInput> inputs;
    const std::string text = c.text;
    for (std::size_t at = text.find("input "); at != std::string::npos; at = text.find("input ", at + 1))
      inputs.push_back(input_of(text.substr(at + 6, text.find(']', at) - at - 5), c));
    args.inputs = inputs;
    args.offset = c.offset;
    problem_.out.assign(problem_.out.size(), std::numeric_limits<float>::quiet_NaN());
    const auto status = kernel->run(args);
    if (status.ok()) return "";
    EXPECT_EQ(status.error().kind, ErrorKind::user);
    EXPECT_TRUE(std::isnan(problem_.out[0])) << "something was written";
    return status.error().message;
  }

  /// Of `x: f32[3, queries]`.
  NamedInput input_of(const std::string& declaration, const Case& c) {
    const auto bracket = declaration.find('[');
    const std::string type = declaration.substr(bracket - 3, 3);
    const DType dtype = type == "f32" ? DType::f32 : type == "i32" ? DType::i32 : DType::u8;
    TensorView view{.data = integers_.data(), .dtype = dtype, .rank = 0};
    for (std::size_t at = bracket + 1; at < declaration.size() && declaration[at] != ']';) {
      const std::string axis = declaration.substr(at, declaration.find_first_of(",]", at) - at);
      view.extent[static_cast<std::size_t>(view.rank++)] = axis == "queries"  ? c.queries
                                                           : axis == "tokens" ? kTokens
                                                                              : std::stoll(axis);
      at = declaration.find_first_not_of(", ]", at + axis.size());
      if (at == std::string::npos) break;
    }
    for (int axis = view.rank - 1, stride = 1; axis >= 0; --axis) {
      view.stride[static_cast<std::size_t>(axis)] = stride;
      stride *= static_cast<int>(view.extent[static_cast<std::size_t>(axis)]);
    }
    names_.push_back(declaration.substr(0, declaration.find(':')));
    return {names_.back(), view};
  }

  std::deque<std::string> names_;
};

TEST_F(Refusals, AreTheSameEverywhere) {
  for (const auto& c : kCases) {
    for (const char* target : {"interpreter", "cpu"}) EXPECT_EQ(run(c, target), c.message) << target << ": " << c.text;
  }
}

TEST_F(Refusals, RightProgramsAreNotRefused) {
  for (const char* text : kRight) {
    for (const char* target : {"interpreter", "cpu"}) EXPECT_EQ(run({text, ""}, target), "") << target << ": " << text;
  }
}

}  // namespace
}  // namespace weft::test
