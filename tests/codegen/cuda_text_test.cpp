#include "codegen/cuda/emit.h"
#include "codegen/cuda/headers.h"
#include "codegen/cuda/readable.h"
#include "compiler/ir/lower.h"
#include "compiler/ir/pattern_interpreter.h"
#include "compiler/ir/range_text.h"
#include "compiler/planner/planner.h"
#include "dsl/parse.h"
#include "runtime/nvrtc/compile.h"
#include "tests/codegen/any_kernel.h"
#include "tests/support/blessed.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

/// The emitted CUDA text as text: tests/data/kernel_* hold a pattern, its plan and the part of the text that depends
/// on it. WEFT_BLESS=1 writes them anew.
namespace weft::testing {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> kernel_cases() {
  std::vector<fs::path> cases;
  for (const auto& folder : test::data_cases()) {
    if (folder.filename().string().starts_with("kernel_")) cases.push_back(folder);
  }
  return cases;
}

ir::Pattern pattern_of(const Source& source) {
  const auto file = dsl::parse(source);
  EXPECT_TRUE(file.ok()) << source.text;
  auto pattern = ir::lower(*file, file->patterns.front().name, {});
  EXPECT_TRUE(pattern.ok()) << pattern.error().message;
  return std::move(*pattern);
}

ir::Plan plan_of(const ir::Pattern& pattern, const Target& target) {
  const ir::Bind bind{.d = *pattern.dim, .d_v = pattern.dim_v.value_or(*pattern.dim), .dtype = *pattern.dtype};
  auto plan = planner::plan(pattern, bind, target);
  EXPECT_TRUE(plan.ok()) << plan.error().message;
  return std::move(*plan);
}

/// The thin text with every header put back, the last one first: what stands before it is thin still.
std::string put_back(std::string text) {
  for (int i = codegen::cuda::kHeaderCount - 1; i >= 0; --i) {
    const auto line = fmt::format("#include \"{}\"\n", codegen::cuda::kHeaders[i].name);
    const auto at = text.find(line);
    if (at == std::string::npos) continue;
    TextWriter whole;
    codegen::cuda::write_header(whole, codegen::cuda::kHeaders[i]);
    // A blank line stands before the first of some in a row, and before every header of the whole text.
    const std::size_t blank = std::string_view(text).substr(0, at).ends_with("\"\n") ? 0 : 1;
    text.replace(at - blank, line.size() + blank, whole.text());
  }
  return text;
}

class CudaText : public ::testing::TestWithParam<fs::path> {};

/// The plan is that of sm_61; cases that have a `plan.sm_80.txt` are planned for its matrix instructions, too.
void expect_blessed(const fs::path& folder, const std::string& target_name, const char* plan_file) {
  const Source source{"input.weft", test::read_text(folder / "input.weft")};
  const Target target = find_target(target_name).value();
  const ir::Plan plan = plan_of(pattern_of(source), target);
  EXPECT_EQ(ir::verify(plan), std::vector<std::string>());
  EXPECT_EQ(test::compare_blessed(folder / plan_file, ir::print(plan)), "");
  const auto text = codegen::cuda::emit(plan, target).text;
  EXPECT_EQ(test::compare_blessed(folder / ("cuda." + target_name + ".cu"), codegen::cuda::thin(text)), "");
  EXPECT_TRUE(put_back(codegen::cuda::thin(text)) == text) << "the thin text is another kernel";
  EXPECT_TRUE(text == codegen::cuda::emit(plan, target).text) << "two emissions of one plan differ";
  const auto again = ir::parse_plan(ir::print(plan));
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_TRUE(text == codegen::cuda::emit(*again, target).text) << "the plan's text is not the whole plan";
}

TEST_P(CudaText, IsAsBlessed) {
  expect_blessed(GetParam(), "sm_61", "plan.txt");
  if (fs::exists(GetParam() / "plan.sm_80.txt")) expect_blessed(GetParam(), "sm_80", "plan.sm_80.txt");
}

INSTANTIATE_TEST_SUITE_P(Data, CudaText, ::testing::ValuesIn(kernel_cases()),
                         [](const auto& of) { return of.param.filename().string(); });

TEST(CudaTexts, DoNotDependOnTheNumbersOfAPattern) {
  const Target target = find_target("sm_61").value();
  const auto text = [&](const std::string& body) {
    const Source source{"input.weft", "pattern p { heads 8; dim 64; dtype f32; " + body + " }"};
    return codegen::cuda::emit(plan_of(pattern_of(source), target), target).text;
  };
  const auto three = text("branches dilated(segments: [2048, 4096, 8192], rates: [1, 2, 4]);");
  EXPECT_TRUE(three == text("branches dilated(segments: [512, 1024], rates: [1, 2]);"));
  const auto causal = text("keep causal;");
  EXPECT_TRUE(causal == text("keep window(100, 7);"));
  EXPECT_FALSE(three == causal) << "the code of steps and classes is left out where nothing needs it";
  EXPECT_FALSE(three == text("branch causal; branch window(5, 0); combine sum;"));
}

/// As much text for each condition, however many there are; so NVRTC, which needs the square of a text's length, gets
/// a text that it can take of every plan.
TEST(CudaTexts, GrowWithTheConditionsOnPairsOnly) {
  const Target target = find_target("sm_61").value();
  const auto bytes = [&](std::size_t conditions) {
    std::string text = "pattern p { heads 8; dim 64; dtype f32; keep causal";
    for (std::size_t i = 0; i < conditions; ++i)
      text += fmt::format(" & where((q * {} + k * k) % {} != {})", 1000 + i, 2000 + i, i);
    const auto plan = plan_of(pattern_of({"input.weft", text + "; }"}), target);
    EXPECT_EQ(plan.predicates.size(), conditions);
    return static_cast<double>(codegen::cuda::emit(plan, target).text.size());
  };
  const double few = bytes(32), some = bytes(64), many = bytes(128), most = bytes(ir::kMostPredicates);
  EXPECT_LT((some - few) / 32, 1000) << "bytes of a condition";
  EXPECT_NEAR((many - some) / 64, (some - few) / 32, 40);
  EXPECT_NEAR((most - many) / 128, (some - few) / 32, 40);
  EXPECT_LT(most, static_cast<double>(nvrtc::Options{}.largest_text));
}

/// Every row of targets.def, head dim and type: a block of threads has the shared memory that it asks for.
TEST(CudaTexts, FitEveryArchitecture) {
  const char* const bodies[] = {"branches dilated(segments: [256, 512, 1024], rates: [1, 2, 4]);",
                                "branch causal; branch window(5, 0); combine sum;",
                                "input doc: i32[batch, tokens]; keep causal & document(doc); score softcap(s, 9.0);"};
  int fitting = 0;
  for (const char* const body : bodies) {
    const auto pattern = pattern_of({"input.weft", fmt::format("pattern p {{ heads 8; {} }}", body)});
    for (const Target& target : known_targets()) {
      if (target.kind != TargetKind::cuda) continue;
      for (std::int64_t d = 1; d <= 256; d += d == 1 ? 7 : 8) {
        for (const auto dtype : {ir::DType::f32, ir::DType::f16, ir::DType::bf16}) {
          for (const std::int64_t d_v : {d, std::int64_t{256}}) {
            const auto plan = planner::plan(pattern, {.d = d, .d_v = d_v, .dtype = dtype}, target);
            ASSERT_TRUE(plan.ok()) << plan.error().message;
            const auto terms = ir::make_tables(*plan, 8).value().most_terms;
            for (const auto regime : ir::regimes_of(*plan)) {
              EXPECT_LE(codegen::cuda::shared_memory(*plan, regime).with_terms(terms), target.shared_per_block)
                  << target.name << ", d " << d << ", d_v " << d_v << ", " << ir::to_string(dtype) << ": " << body;
            }
            ++fitting;
          }
        }
      }
    }
  }
  EXPECT_GT(fitting, 5000);
}

TEST(CudaTexts, HoldNoWordOfTheUsers) {
  const Target target = find_target("sm_61").value();
  const Source source{
      "input.weft", "pattern sesame { heads 8; dim 64; dtype f32; input caraway: i32[batch]; keep lengths(caraway); }"};
  const ir::Plan plan = plan_of(pattern_of(source), target);
  const auto plain = codegen::cuda::emit(plan, target);
  EXPECT_EQ(plain.text.find("sesame"), std::string::npos);
  EXPECT_EQ(plain.text.find("caraway"), std::string::npos);
  // The text for people quotes all of it, as comments that nothing can break out of.
  const auto quoted = codegen::cuda::readable(plain, plan, "pattern sesame {\\\n*/ #error \r }", {"lengths(caraway)"});
  EXPECT_NE(quoted.find("//   pattern sesame {?\n//   */ #error ? }\n"), std::string::npos) << quoted.substr(0, 300);
  EXPECT_NE(quoted.find("//   branch 0: lengths(caraway)\n//       k < caraway[b], q < caraway[b]\n"),
            std::string::npos)
      << quoted.substr(0, 600);
  EXPECT_TRUE(quoted.ends_with(codegen::cuda::thin(plain.text)));
}

TEST(CudaTexts, SayWhatEachRangeKeeps) {
  const auto said = [](const std::string& body) {
    const auto pattern = pattern_of({"input.weft", "pattern p { heads 8; dim 64; dtype f32; " + body + " }"});
    const auto plan = plan_of(pattern, find_target("sm_61").value());
    std::vector<std::string> out;
    for (const auto& range : plan.phases[0].passes[0].ranges) {
      out.push_back(fmt::format("{}", fmt::join(ir::conditions_of(plan, range, plan.phases[0].stationary), ", ")));
    }
    return out;
  };
  using Lines = std::vector<std::string>;
  EXPECT_EQ(said("branch all;"), Lines{""});
  EXPECT_EQ(said("keep window(100, 7);"), Lines{"q - 100 <= k < q + 8"});
  EXPECT_EQ(said("keep causal & dilated(segment: 4096, rate: 2, phase: h % 2);"),
            Lines{"q / 4096 * 4096 <= k <= q, k % 4096 % 2 == h % 2, q % 4096 % 2 == h % 2"});
  EXPECT_EQ(said("keep causal - sink(4);"), Lines{"4 <= k <= q"});
  EXPECT_EQ(said("branch blocks(64, random(3, seed: 7));"), Lines{"k / 64 is one of 3 blocks drawn for q / 64"});
  EXPECT_EQ(said("keep causal & where(q * k % 3 != 0);"), Lines{"k <= q, q * k % 3 != 0"});
}

/// A length is an argument: one emulated kernel, a thousand lengths, each right.
TEST(CudaTexts, AThousandLengthsAreOneKernel) {
  const Source source{"input.weft", "pattern p { heads 1; dim 8; dtype f32; keep window(40, 0); }"};
  const ir::Pattern pattern = pattern_of(source);
  const auto kernel = AnyKernel::make(pattern, {.d = 8, .d_v = 8}, find_target("sm_61").value());
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  for (std::int64_t n = 1; n <= 1000; ++n) {
    const ir::Shape shape{
        .batch = 1, .n_q = std::min<std::int64_t>(n, 5), .n_k = n, .heads = 1, .kv_heads = 1, .d = 8, .d_v = 8};
    ir::Tensor q({1, shape.n_q, 1, 8}), k({1, n, 1, 8}), v({1, n, 1, 8});
    for (std::size_t i = 0; i < k.data.size(); ++i) {
      k.data[i] = static_cast<double>((i * 37 + static_cast<std::size_t>(n)) % 17) / 16 - 0.5;
      v.data[i] = static_cast<double>((i * 29) % 31) / 16 - 1;
    }
    for (std::size_t i = 0; i < q.data.size(); ++i) q.data[i] = static_cast<double>((i * 41) % 13) / 8 - 0.75;
    const auto want = ir::interpret(pattern, shape, q, k, v, {});
    const auto got = kernel->run(shape, q, k, v, {});
    ASSERT_TRUE(got.ok()) << got.error().message;
    for (std::size_t i = 0; i < got->o.data.size(); ++i) ASSERT_NEAR(got->o.data[i], want->o.data[i], 1e-5) << n;
  }
}

}  // namespace
}  // namespace weft::testing
