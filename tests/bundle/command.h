#pragma once

#include "tests/cli/command.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace weft::test {

inline std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Three patterns of two texts: the first two come to one kernel.
inline const char* kPatterns = R"(
pattern near(width: int = 64) { keep causal; keep window(width, 0); }
pattern nearer { keep causal; keep window(8, 0); }
pattern rings { keep causal; score softcap(s, 20.0); }
)";

/// Commands with a folder, a store and a home of their own.
class Commands : public ::testing::Test {
 protected:
  Finished weft(std::vector<std::string> arguments, std::map<std::string, std::string> environment = {}) const {
    return run_weft(scratch_, Call{.arguments = std::move(arguments), .environment = std::move(environment)});
  }
  nlohmann::json json(std::vector<std::string> arguments, std::map<std::string, std::string> environment = {}) const {
    arguments.push_back("--json");
    const auto finished = weft(std::move(arguments), std::move(environment));
    EXPECT_EQ(finished.status, 0) << finished.err;
    return nlohmann::json::parse(finished.out, nullptr, false);
  }
  std::string path(const std::string& name) const { return scratch_.path(name); }

  /// `bundle build` of the patterns for plain CPUs.
  std::vector<std::string> build(const std::string& name, std::vector<std::string> more = {}) const {
    std::vector<std::string> out = {"bundle", "build", "-o", path(name), patterns_, "--dtype", "f32", "--dim", "16"};
    if (more.empty() || more[0] != "--target") out.insert(out.end(), {"--target", "cpu:x86-64"});
    out.insert(out.end(), more.begin(), more.end());
    return out;
  }
  void built(const std::string& name, std::vector<std::string> more = {}) const {
    const auto finished = weft(build(name, std::move(more)));
    ASSERT_EQ(finished.status, 0) << finished.err;
  }
  std::vector<std::string> run(const std::string& pattern, std::vector<std::string> more = {}) const {
    std::vector<std::string> out = {"run", patterns_, "--pattern", pattern,   "--tokens",
                                    "96",  "--dim",   "16",        "--heads", "2"};
    out.insert(out.end(), more.begin(), more.end());
    return out;
  }

  Scratch scratch_;
  std::string patterns_ = scratch_.write("p.weft", kPatterns);
  std::map<std::string, std::string> no_compiler_ = {
      {"WEFT_LLVM", "/nonexistent/libLLVM.so"}, {"WEFT_CACHE_DIR", ""}, {"HOME", ""}};
};

}  // namespace weft::test
