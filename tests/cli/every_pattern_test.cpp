/// Every command on every pattern that is shipped: no signal, no defect, and where a command refuses, it says why.

#include "command.h"

#include "tests/support/places.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

namespace weft::test {
namespace {

struct Shipped {
  std::string file, pattern;
};

/// All patterns of tests/patterns and examples.
std::vector<Shipped> shipped(const Scratch& scratch) {
  std::vector<std::string> arguments = {"check", "--json"};
  for (const auto* folder : {"tests/patterns", "examples"}) {
    for (const auto& entry : std::filesystem::directory_iterator(in_checkout(folder))) {
      if (entry.path().extension() == ".weft") arguments.push_back(entry.path().string());
    }
  }
  std::sort(arguments.begin() + 2, arguments.end());
  const auto report = nlohmann::json::parse(run_weft(scratch, arguments).out, nullptr, false);
  std::vector<Shipped> out;
  for (const auto& file : report["files"]) {
    for (const auto& name : file["patterns"]) out.push_back({file["file"], name});
  }
  return out;
}

struct Asked {
  const char* name;
  std::vector<std::string> words;  ///< of the command, behind the file; the first one in front of it
  bool all = true;                 ///< do all patterns allow it? Else some fix other sizes, and say so.
};

class EveryPattern : public ::testing::TestWithParam<Asked> {};

TEST_P(EveryPattern, EndsInOrder) {
  const Scratch scratch;
  const auto patterns = shipped(scratch);
  ASSERT_GT(patterns.size(), 50u);
  std::size_t done = 0;
  for (const auto& [file, pattern] : patterns) {
    auto arguments = GetParam().words;
    const bool is_cache = arguments[0] == "cache";
    arguments.insert(arguments.begin() + (is_cache ? 2 : 1), {file, "--pattern", pattern});
    for (auto& word : arguments) {
      if (word.starts_with("OUT.")) word = scratch.path(word);
    }
    // What a GPU's compiler does is another matter: here it is what comes before it.
    const auto finished =
        run_weft(scratch, Call{.arguments = arguments, .environment = {{"WEFT_NVRTC", "/nonexistent/libnvrtc.so"}}});
    const auto what = file + " " + pattern + ": " + finished.err;
    EXPECT_TRUE(finished.status == 0 || finished.status == 1 || finished.status == 3) << finished.status << " " << what;
    EXPECT_EQ(finished.status == 0, finished.err.find("error") == std::string::npos) << what;
    done += finished.status == 0 ? 1 : 0;
    if (finished.status == 0 && GetParam().words.back().starts_with("OUT.")) {
      EXPECT_TRUE(std::filesystem::exists(arguments.back())) << what;
    }
  }
  EXPECT_TRUE(!GetParam().all || done == patterns.size()) << done << " of " << patterns.size();
}

std::vector<Asked> asked() {
  return {
      {"Draw", {"draw"}},
      {"DrawInColor", {"draw", "--color", "always"}},
      {"DrawTiles", {"draw", "--tiles"}},
      {"DrawTilesOfGpus", {"draw", "--tiles", "--target", "sm_61"}},
      {"DrawMillions", {"draw", "--tiles", "--tokens", "2047m"}, false},
      {"Interpret", {"run", "--target", "interpreter", "--tokens", "24", "--heads", "4", "--dim", "4"}, false},
      {"InterpretGradients",
       {"run", "--target", "interpreter", "--tokens", "24", "--heads", "4", "--dim", "4", "--grad", "random",
        "--check"},
       false},
      {"DrawSvg", {"draw", "--tiles", "-o", "OUT.svg"}},
      {"DrawPng", {"draw", "--tiles", "--json", "-o", "OUT.png"}},
      {"EmitAst", {"emit", "--stage", "ast"}},
      {"EmitPattern", {"emit", "--stage", "pattern"}},
      {"EmitPlan", {"emit", "--stage", "plan"}},
      {"EmitPlanOfPascal", {"emit", "--stage", "plan", "--target", "sm_61"}},
      {"EmitPlanOfAmpere", {"emit", "--stage", "plan", "--target", "sm_80"}},
      {"EmitLlvm", {"emit", "--stage", "llvm"}},
      {"EmitCudaOfPascal", {"emit", "--stage", "cuda", "--target", "sm_61"}},
      {"EmitCudaOfAmpere", {"emit", "--stage", "cuda", "--target", "sm_80"}},
      {"Explain", {"explain", "--json", "--tokens", "256"}, false},
      {"ExplainPascal", {"explain", "--tokens", "256", "--target", "sm_61"}, false},  // there is no compiler for these
      {"ExplainAmpere", {"explain", "--tokens", "256", "--target", "sm_80"}, false},
      {"ExplainMillions", {"explain", "--tokens", "2047m"}, false},
      {"CacheWhy", {"cache", "why"}},
  };
}

INSTANTIATE_TEST_SUITE_P(Commands, EveryPattern, ::testing::ValuesIn(asked()),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace weft::test
