/// `--grad` of the commands that look at kernels: emit, explain, bench, tune and cache why take the backward pass.

#include "command.h"

#include "tests/support/blessed.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace weft::test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

constexpr const char* kText =
    "pattern p { keep window(15, 0); }\n"
    "pattern summed { branch window(7, 0); branch lag(8) & causal; combine sum; }\n";

class GradKernels : public ::testing::Test {
 protected:
  Scratch scratch_;
  const std::string file_ = scratch_.write("p.weft", kText);

  Finished weft(const std::string& command, const Words& more, const std::string& pattern = "p") const {
    Words words = {command, file_, "--pattern", pattern, "--heads", "2", "--dtype", "f32"};
    const auto given = [&](const char* option) { return std::find(more.begin(), more.end(), option) != more.end(); };
    words.insert(words.end(), more.begin(), more.end());
    if (!given("--target")) words.insert(words.end(), {"--target", "cpu:x86-64-v3"});
    if (!given("--dim")) words.insert(words.end(), {"--dim", "16"});
    if (!given("--dim-v")) words.insert(words.end(), {"--dim-v", "8"});
    return run_weft(scratch_, words);
  }
  Json json(const std::string& command, Words more, const std::string& pattern = "p") const {
    more.emplace_back("--json");
    const auto finished = weft(command, more, pattern);
    EXPECT_EQ(finished.status, 0) << finished.err;
    return Json::parse(finished.out, nullptr, false);
  }
  /// A stage of both passes.
  std::pair<std::string, std::string> emitted(const std::string& stage) const {
    EXPECT_EQ(weft("emit", {"--stage", stage, "-o", scratch_.path("forward")}).status, 0);
    EXPECT_EQ(weft("emit", {"--stage", stage, "-o", scratch_.path("backward"), "--grad"}).status, 0);
    return {read_text(scratch_.path("forward")), read_text(scratch_.path("backward"))};
  }
};

TEST_F(GradKernels, AreEmittedFromThePlanOn) {
  const auto has = [](const std::string& text, const char* what) { return text.find(what) != std::string::npos; };
  const auto plans = emitted("plan"), texts = emitted("llvm");
  EXPECT_TRUE(has(plans.second, "branch_lse 0 gradient\n")) << plans.second;
  EXPECT_FALSE(has(plans.first, "gradient"));
  EXPECT_TRUE(has(texts.second, ";; Gradients: blocks of keys, five products"));
  EXPECT_FALSE(has(texts.first, "Gradients"));
  for (const auto* stage : {"asm", "object"}) {
    const auto [forward, backward] = emitted(stage);
    EXPECT_FALSE(backward.empty());
    EXPECT_NE(forward, backward) << stage;
  }
  // The plan says which pass it is of.
  const auto again = run_weft(scratch_, {"emit", "--from", scratch_.write("plan.txt", plans.second), "--stage", "llvm",
                                         "--target", "cpu:x86-64-v3"});
  EXPECT_EQ(again.out, texts.second) << again.err;
}

TEST_F(GradKernels, HaveNoStagesOfTheirOwnBeforeThePlan) {
  for (const auto* stage : {"ast", "pattern"}) {
    const auto finished = weft("emit", {"--grad", "--stage", stage});
    EXPECT_EQ(finished.status, 2);
    EXPECT_NE(finished.err.find("--grad starts at the plan"), std::string::npos) << finished.err;
  }
  EXPECT_EQ(weft("emit", {"--grad", "--stage", "llvm", "--from", scratch_.path("plan.txt")}).status, 2);
}

TEST_F(GradKernels, AreExplained) {
  const Words tokens = {"--tokens", "200"}, grad = {"--tokens", "200", "--grad"};
  const auto forward = json("explain", tokens), backward = json("explain", grad);
  EXPECT_TRUE(forward["backward"].is_null());
  EXPECT_TRUE(forward["predicted"].is_object());
  EXPECT_TRUE(backward["predicted"].is_null()) << "of gradients there is a model for GPUs";
  EXPECT_EQ(backward["backward"]["products"], 5);
  EXPECT_EQ(backward["backward"]["page_bytes"], 64 * (16 + 8) * 4);
  EXPECT_GT(backward["backward"]["scratch_bytes"], 64 * (16 + 8) * 4);
  EXPECT_EQ(backward["pairs"], forward["pairs"]);
  const double pairs = backward["pairs"];
  EXPECT_EQ(pairs, 2 * (200 * 16 - 15 * 16 / 2));
  EXPECT_EQ(forward["flops"], 2 * (16 + 8) * pairs);
  EXPECT_EQ(backward["flops"], 2 * (3 * 16 + 2 * 8) * pairs);
  const double lse = 200 * 2 * 4;
  EXPECT_EQ(backward["bytes"].get<double>() - lse, 2 * (forward["bytes"].get<double>() - lse));
  const auto text = weft("explain", grad).out;
  for (const auto* said : {"backward pass of p on cpu:x86-64-v3", "five products", "of scratch a thread",
                           "in pages of 6.14 kB: 64 keys x (16 + 8) x 4 B"}) {
    EXPECT_NE(text.find(said), std::string::npos) << said << "\n" << text;
  }
  EXPECT_EQ(weft("explain", tokens).out.find("backward"), std::string::npos);
}

/// Whole vectors of columns stand in the pages.
TEST_F(GradKernels, AreExplainedWithTheirPadding) {
  const Words odd = {"--tokens", "64", "--grad", "--dim", "12"};
  EXPECT_EQ(json("explain", odd)["backward"]["page_bytes"], 64 * (16 + 8) * 4);
  EXPECT_NE(weft("explain", odd).out.find("(12 + 8, each to whole vectors) x 4 B"), std::string::npos);
}

TEST_F(GradKernels, AreMeasured) {
  for (const auto* pattern : {"p", "summed"}) {
    const Words call = {"--target", "cpu", "--tokens", "96", "--threads", "1"};
    auto grad = call;
    grad.emplace_back("--grad");
    const auto forward = json("bench", call, pattern)["results"][0],
               backward = json("bench", grad, pattern)["results"][0];
    EXPECT_EQ(forward["pass"], "forward");
    EXPECT_EQ(backward["pass"], "backward");
    EXPECT_EQ(backward["pairs"], forward["pairs"]);
    EXPECT_EQ(backward["flops"].get<double>() * (16 + 8), forward["flops"].get<double>() * (3 * 16 + 2 * 8));
    EXPECT_GT(backward["peak_bytes"], 2 * 96 * 2 * 2 * (16 + 8) * 4) << "each tensor beside its gradient";
    EXPECT_EQ(backward["cache"], "miss") << "it is no forward";
  }
}

TEST_F(GradKernels, AreMeasuredBesideTheDenseOnes) {
  const auto results = json("bench", {"--target", "cpu", "--tokens", "64", "--against", "dense", "--grad"})["results"];
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[1]["pattern"], "dense");
  EXPECT_EQ(results[1]["pass"], "backward");
  EXPECT_EQ(results[1]["flops"], 2 * (3 * 16 + 2 * 8) * 64.0 * 64 * 2);
}

TEST_F(GradKernels, AreTuned) {
  for (const auto* pattern : {"p", "summed"}) {
    const auto result =
        json("tune", {"--target", "cpu", "--tokens", "64", "--threads", "1", "--grad"}, pattern)["results"][0];
    EXPECT_EQ(result["pass"], "backward");
    EXPECT_GT(result["tried"].size(), 5u);
    // What was kept is this pass's alone.
    const auto forward = weft("explain", {"--target", "cpu", "--tokens", "64"}, pattern).out;
    EXPECT_EQ(forward.find("found by weft tune"), std::string::npos) << forward;
    const auto backward = weft("explain", {"--target", "cpu", "--tokens", "64", "--grad"}, pattern).out;
    EXPECT_EQ(backward.find("found by weft tune") != std::string::npos, !result["best"].empty()) << backward;
  }
}

TEST_F(GradKernels, AreStoredApart) {
  const auto why = [&](bool grad) {
    Words words = {"cache", "why",     file_, "--pattern", "p",   "--dim",
                   "16",    "--dtype", "f32", "--target",  "cpu", "--json"};
    if (grad) words.emplace_back("--grad");
    return Json::parse(run_weft(scratch_, words).out, nullptr, false)["stored"].get<bool>();
  };
  const Words call = {"run", file_, "--pattern", "p", "--tokens", "32", "--dim", "16", "--target", "cpu"};
  EXPECT_FALSE(why(false));
  ASSERT_EQ(run_weft(scratch_, call).status, 0);
  EXPECT_TRUE(why(false));
  EXPECT_FALSE(why(true));
  auto grad = call;
  grad.insert(grad.end(), {"--grad", "ones"});
  ASSERT_EQ(run_weft(scratch_, grad).status, 0);
  EXPECT_TRUE(why(true));
}

TEST_F(GradKernels, OfGpusAreShownByBothPasses) {
  const Words gpu = {"--target", "sm_80", "--grad"};
  const auto with = [&](Words more) {
    more.insert(more.end(), gpu.begin(), gpu.end());
    return more;
  };
  const auto of_queries = weft("emit", with({"--stage", "cuda", "--whole"}));
  const auto of_keys = weft("emit", with({"--stage", "cuda", "--whole", "--transposed"}));
  EXPECT_EQ(of_queries.status, 0) << of_queries.err;
  EXPECT_EQ(of_keys.status, 0) << of_keys.err;
  EXPECT_NE(of_queries.out.find("weft_terms"), std::string::npos);
  EXPECT_NE(of_keys.out.find("constexpr bool kTransposed = true;"), std::string::npos);
  const auto plan = weft("emit", with({"--stage", "plan"}));
  EXPECT_NE(plan.out.find("\ntransposed\n"), std::string::npos) << plan.out;
  const auto explained = weft("explain", with({}));
  EXPECT_EQ(explained.status, 0) << explained.err;
  EXPECT_NE(explained.out.find("pairs computed over kept"), std::string::npos) << explained.out;
  const auto forward = weft("emit", {"--stage", "cuda", "--target", "sm_80", "--transposed"});
  EXPECT_EQ(forward.status, 1) << forward.err;
  EXPECT_NE(forward.err.find("--transposed: it is of gradients on GPUs"), std::string::npos) << forward.err;
  const auto on_cpu = weft("emit", {"--stage", "llvm", "--target", "cpu", "--grad", "--transposed"});
  EXPECT_EQ(on_cpu.status, 2) << on_cpu.err;
  for (const std::string command : {"bench", "tune"}) {
    const auto finished = weft(command, gpu);
    EXPECT_EQ(finished.status, 3) << finished.err;
    EXPECT_NE(finished.err.find(command + " measures CPU kernels only"), std::string::npos) << finished.err;
  }
}

/// What is predicted follows from what is said beside it: pairs, shares of the loops, and the card.
TEST_F(GradKernels, OfGpusAreGivenATime) {
  for (const auto* pattern : {"p", "summed"}) {
    const auto report = json("explain", {"--target", "sm_61", "--grad", "--tokens", "8k", "--dim", "64"}, pattern);
    const auto &predicted = report["predicted"], &passes = report["backward"]["passes"];
    ASSERT_EQ(passes.size(), 3u) << report;
    EXPECT_EQ(passes[0]["of"], "delta");
    EXPECT_EQ(passes[1]["of"], "dQ");
    EXPECT_EQ(passes[2]["of"], "dK, dV");
    double ms = 0;
    for (const auto& pass : passes) ms += pass["ms"].get<double>();
    EXPECT_NEAR(predicted["ms"].get<double>() / ms, 1, 1e-9);
    const double peak = 20 * 128 * 2 * 1.733e9;  // of a GTX 1080
    const double useful = report["flops"].get<double>() / (1e-3 * ms * peak);
    EXPECT_NEAR(predicted["share_of_peak"].get<double>() / useful, 1, 1e-3);
    EXPECT_NEAR(predicted["executed_share"].get<double>() / predicted["share_of_peak"].get<double>(),
                report["executed_flops"].get<double>() / report["flops"].get<double>(), 1e-9);
    // Deltas of several softmaxes are found by a walk of two products before dQ.
    const double d = 64, d_v = 8, pairs = report["pairs"];
    const double before = pattern == std::string("summed") ? d + d_v : 0;
    const double of_queries =
        2 * (2 * d + d_v + before) * pairs * report["backward"]["executed_by_query"].get<double>();
    const double of_keys = 2 * (2 * d + 2 * d_v) * pairs * report["backward"]["executed_by_key"].get<double>();
    EXPECT_NEAR(report["executed_flops"].get<double>() / (of_queries + of_keys), 1, 1e-9);
    const double executed[] = {of_queries, of_keys};
    for (std::size_t i = 1; i < 3; ++i) {
      const double share = passes[i]["executed_share"];
      EXPECT_NEAR(executed[i - 1] / (1e-3 * passes[i]["ms"].get<double>() * peak) / share, 1, 1e-3);
      EXPECT_LE(share, passes[i]["loop_share"].get<double>() * (1 + 1e-9));
      EXPECT_GT(share, 0.1);
    }
  }
}

TEST_F(GradKernels, OfGpusAreReadByBothKernels) {
  const auto report =
      json("explain", {"--target", "sm_61", "--grad", "--tokens", "4k", "--dim", "64", "--dim-v", "64"});
  const auto& passes = report["backward"]["passes"];
  const auto &of_queries = passes[1]["kernel"], &of_keys = passes[2]["kernel"];
  if (of_queries["registers"].is_null()) GTEST_SKIP() << "no NVRTC here knows sm_61";
  EXPECT_EQ(report["registers"], of_queries["registers"]);
  EXPECT_GT(of_keys["registers"], of_queries["registers"]) << "it sums up twice as many columns";
  EXPECT_NE(of_keys["shared_bytes"], of_queries["shared_bytes"]);
  EXPECT_EQ(of_keys["blocks_per_sm"], 2);
  const auto text =
      weft("explain", {"--target", "sm_61", "--grad", "--tokens", "4k", "--dim", "64", "--dim-v", "64"}).out;
  for (const auto* said : {"kernel of dQ: ", "kernel of dK and dV: ", " of the peak in useful work, ", "    delta: "})
    EXPECT_NE(text.find(said), std::string::npos) << said << "\n" << text;
  if (of_queries["machine_code"].is_null()) GTEST_SKIP() << "no nvdisasm here reads sm_61";
  for (const auto& [pass, products] : {std::pair(std::size_t{1}, 3), std::pair(std::size_t{2}, 4)}) {
    const auto& code = passes[pass]["kernel"]["machine_code"];
    EXPECT_TRUE(code["trusted"]) << code["assumed"];
    EXPECT_EQ(passes[pass]["from"], "sass");
    EXPECT_EQ(passes[pass]["loop_share"], code["share_of_peak"]);
    // 128 x 32 pairs of 64 columns a product, by 128 threads.
    EXPECT_NEAR(code["loops"][0]["products"].get<double>(), products * 64 * 32, 64);
  }
  EXPECT_EQ(report["predicted"]["from"], "sass");
}

}  // namespace
}  // namespace weft::test
