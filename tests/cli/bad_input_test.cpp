/// Whatever is wrong with what the user brings, the command ends with one clear message and the right status,
/// and leaves nothing half written.

#include "command.h"

#include <gtest/gtest.h>

#include <random>

namespace weft::test {
namespace {

constexpr const char* kCausal = "pattern p { keep causal; }\n";

class BadInput : public ::testing::Test {
 protected:
  Scratch scratch_;

  /// Ends with `status`, says something that contains `words` and is no flood, and prints no result.
  void expect_refused(const Finished& finished, int status, const std::vector<std::string>& words) {
    EXPECT_EQ(finished.status, status) << finished.err;
    EXPECT_EQ(finished.out, "");
    EXPECT_LT(finished.err.size(), 4000u);
    for (const auto& word : words)
      EXPECT_NE(finished.err.find(word), std::string::npos) << word << " in\n" << finished.err;
  }

  /// `weft run` on q, k, v files of these contents, asking for an output.
  Finished run_on(const std::string& pattern, const std::string& q, const std::string& k, const std::string& v,
                  std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {"run",      scratch_.write("p.weft", pattern),
                                          "--q",      scratch_.write("q.npy", q),
                                          "--k",      scratch_.write("k.npy", k),
                                          "--v",      scratch_.write("v.npy", v),
                                          "-o",       scratch_.path("o.npy"),
                                          "--target", "interpreter"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_weft(scratch_, arguments);
  }
};

TEST_F(BadInput, ControlGoodTensorsRun) {
  const auto x = npy_f32({1, 8, 2, 8});
  const auto finished = run_on(kCausal, x, x, x);
  EXPECT_EQ(finished.status, 0) << finished.err;
  EXPECT_TRUE(std::filesystem::exists(scratch_.path("o.npy")));
}

TEST_F(BadInput, MissingFile) {
  expect_refused(run_weft(scratch_, {"run", scratch_.path("nowhere.weft"), "--tokens", "8"}), 1, {"nowhere.weft"});
  expect_refused(run_weft(scratch_, {"check", scratch_.path("nowhere.weft")}), 1, {"nowhere.weft"});
}

TEST_F(BadInput, Directory) { expect_refused(run_weft(scratch_, {"draw", scratch_.path(".")}), 1, {"directory"}); }

TEST_F(BadInput, EmptyFile) {
  expect_refused(run_weft(scratch_, {"run", scratch_.write("p.weft", ""), "--tokens", "8"}), 1, {"empty"});
}

TEST_F(BadInput, ValuesWithoutEnd) {
  const auto file = scratch_.write("p.weft", "pattern p(w: int = 1) { keep window(w, 0); }\n");
  for (const auto& value : {std::string(100000, '('), std::string(100000, '['), std::string(100000, '-')}) {
    expect_refused(run_weft(scratch_, {"check", file, "-D", "w=" + value}), 1, {"'w'"});
    expect_refused(run_weft(scratch_, {"check", file, "-D", value}), 2, {"name=value"});
  }
}

/// Reading a file again for each of its patterns took this one a minute.
TEST_F(BadInput, ControlManyPatternsAreReadOnce) {
  std::string text;
  for (int i = 0; i < 4096; ++i) text += "pattern p" + std::to_string(i) + " { keep window(9, 0); }\n";
  const auto finished = run_weft(scratch_, {"check", scratch_.write("many.weft", text)});
  EXPECT_EQ(finished.status, 0) << finished.err;
  EXPECT_NE(finished.out.find("4096 patterns in order"), std::string::npos);
}

TEST_F(BadInput, NamesThatAreNoUtf8) {
  const auto file = scratch_.write("\xFF\xC3.weft", kCausal);
  for (const char* command : {"check", "draw", "explain", "run"}) {
    std::vector<std::string> arguments = {command, file, "--json"};
    if (std::string(command) != "check") arguments.insert(arguments.end(), {"--tokens", "8"});
    const auto finished = run_weft(scratch_, arguments);
    EXPECT_EQ(finished.status, 0) << command << finished.err;
    EXPECT_EQ(finished.out.find('\xFF'), std::string::npos) << command;
  }
  EXPECT_EQ(run_weft(scratch_, {"check", file, "--json", "-D", "\xFF=3"}).status, 1);
}

TEST_F(BadInput, SeedsHaveAllBits) {
  const auto file = scratch_.write("p.weft", "pattern p { keep causal; dropout 0.5; }\n");
  const auto run = [&](const char* option, const char* seed) {
    return run_weft(scratch_, {"run", file, "--tokens", "8", "--target", "interpreter", option, seed});
  };
  for (const char* option : {"--seed", "--dropout-seed"}) {
    EXPECT_EQ(run(option, "18446744073709551615").status, 0) << option;
    expect_refused(run(option, "18446744073709551616"), 2, {"18446744073709551615"});
    expect_refused(run(option, "-1"), 2, {"seed"});
  }
}

/// A ring is read and checked; who runs it is told that nothing is split.
TEST_F(BadInput, RingsRunOnOneDevice) {
  const auto file = scratch_.write("p.weft", "pattern p { keep causal; ring 8 zigzag; }\n");
  const auto finished = run_weft(scratch_, {"run", file, "--tokens", "8", "--target", "interpreter"});
  EXPECT_EQ(finished.status, 0);
  EXPECT_NE(finished.err.find("one device"), std::string::npos) << finished.err;
}

TEST_F(BadInput, TenMegabytesOfRandomBytes) {
  std::mt19937_64 random(1);
  std::string bytes(10 << 20, '\0');
  for (auto& byte : bytes) byte = static_cast<char>(random());
  const auto path = scratch_.write("p.weft", bytes);
  for (const auto* command : {"run", "check", "fmt", "draw"}) {
    expect_refused(run_weft(scratch_, {command, path}), 1, {"p.weft"});
  }
}

TEST_F(BadInput, RandomBytesWithinTheLimit) {
  std::mt19937_64 random(2);
  std::string bytes(1000, '\0');
  for (auto& byte : bytes) byte = static_cast<char>(random());
  const auto finished = run_weft(scratch_, {"check", scratch_.write("p.weft", bytes)});
  EXPECT_EQ(finished.status, 1);
  EXPECT_NE(finished.err, "");
}

TEST_F(BadInput, DeepNesting) {
  const auto nested = "pattern p { keep " + std::string(100000, '(') + "all" + std::string(100000, ')') + "; }";
  expect_refused(run_weft(scratch_, {"check", scratch_.write("p.weft", nested)}), 1, {"256"});
}

TEST_F(BadInput, SyntaxErrorShowsThePlace) {
  expect_refused(run_weft(scratch_, {"draw", scratch_.write("p.weft", "pattern p {\n  keep causl;\n}\n")}), 1,
                 {"p.weft:2:8", "causal", "^"});
}

TEST_F(BadInput, WrongRank) {
  const auto good = npy_f32({1, 8, 2, 8});
  expect_refused(run_on(kCausal, npy_f32({8, 2, 8}), good, good), 1, {"q.npy", "[8, 2, 8]", "[B, n, H, d]"});
  EXPECT_FALSE(std::filesystem::exists(scratch_.path("o.npy")));
}

TEST_F(BadInput, WrongShape) {
  const auto good = npy_f32({1, 8, 2, 8});
  expect_refused(run_on(kCausal, good, good, npy_f32({1, 9, 2, 8})), 1,
                 {"v, dimension 1 (tokens)", "9", "expected 8", "v.npy"});
  expect_refused(run_on(kCausal, good, npy_f32({1, 8, 2, 16}), good), 1,
                 {"k, dimension 3 (dim)", "16", "expected 8", "k.npy"});
  expect_refused(run_on(kCausal, npy_f32({1, 8, 3, 8}), good, good), 1, {"3 heads"});
  EXPECT_FALSE(std::filesystem::exists(scratch_.path("o.npy")));
}

TEST_F(BadInput, WrongType) {
  const auto good = npy_f32({1, 8, 2, 8});
  const auto integers = npy("<i4", {1, 8, 2, 8}, std::string(8 * 2 * 8 * 4, '\0'));
  expect_refused(run_on(kCausal, integers, good, good), 1, {"q.npy", "i4"});
  const auto halves = npy("<f2", {1, 8, 2, 8}, std::string(8 * 2 * 8 * 2, '\0'));
  expect_refused(run_on(kCausal, good, halves, good), 1, {"k is f16", "expected f32"});
}

TEST_F(BadInput, DamagedTensorFile) {
  const auto good = npy_f32({1, 8, 2, 8});
  expect_refused(run_on(kCausal, good.substr(0, good.size() - 4), good, good), 1, {"q.npy"});
  expect_refused(run_on(kCausal, "not numpy", good, good), 1, {"q.npy"});
  expect_refused(run_on(kCausal, "", good, good), 1, {"q.npy"});
  expect_refused(run_on(kCausal, npy("<f4", {std::int64_t{1} << 40, 1 << 20, 4, 4}, ""), good, good), 1, {"q.npy"});
}

TEST_F(BadInput, TensorsContradictThePattern) {
  const auto good = npy_f32({1, 8, 2, 8});
  expect_refused(run_on("pattern p { heads 8; }", good, good, good), 1, {"2", "8", "heads"});
  expect_refused(run_on("pattern p { dim 64; }", good, good, good), 1, {"dim", "64"});
  expect_refused(run_on("pattern p { tokens 16; }", good, good, good), 1, {"8 tokens", "tokens 16"});
}

TEST_F(BadInput, OptionsContradictThePattern) {
  const auto path = scratch_.write("p.weft", "pattern p {\n  heads 8;\n}\n");
  expect_refused(run_weft(scratch_, {"run", path, "--tokens", "8", "--heads", "12"}), 1, {"p.weft:2:", "8", "12"});
}

TEST_F(BadInput, InputsMissingUnknownOrMisshapen) {
  const auto good = npy_f32({2, 8, 2, 8});
  const std::string pattern = "pattern p { input n: i32[batch]; keep lengths(n); }";
  expect_refused(run_on(pattern, good, good, good), 1, {"input 'n' is missing"});
  const auto lengths = scratch_.write("n.npy", npy("<i4", {3}, std::string(12, '\1')));
  expect_refused(run_on(pattern, good, good, good, {"--input", "n=" + lengths}), 1, {"n.npy", "[3]", "[2]"});
  expect_refused(run_on(kCausal, good, good, good, {"--input", "m=" + lengths}), 1, {"no input 'm'"});
}

TEST_F(BadInput, PatternOfSeveral) {
  const auto path = scratch_.write("p.weft", "pattern one { }\npattern two { }\n");
  expect_refused(run_weft(scratch_, {"draw", path}), 1, {"one", "two"});
  expect_refused(run_weft(scratch_, {"draw", path, "--pattern", "tow"}), 1, {"two"});
}

TEST_F(BadInput, WrongCommandLine) {
  const auto path = scratch_.write("p.weft", kCausal);
  expect_refused(run_weft(scratch_, {"run", path, "--tokens", "0"}), 2, {"--tokens", "at least 1"});
  expect_refused(run_weft(scratch_, {"run", path, "--tokens", "-5"}), 2, {"--tokens"});
  expect_refused(run_weft(scratch_, {"run", path, "--tokens", "99999999999999999999"}), 2, {"--tokens"});
  expect_refused(run_weft(scratch_, {"run", path}), 2, {"--tokens"});
  expect_refused(run_weft(scratch_, {"run"}), 2, {"FILE"});
  expect_refused(run_weft(scratch_, {"run", path, "--nonsense"}), 2, {"--nonsense"});
  expect_refused(run_weft(scratch_, {"run", path, "--dtype", "f8", "--tokens", "4"}), 2, {"f16"});
  expect_refused(run_weft(scratch_, {"run", path, "--q", "x.npy"}), 2, {"--k"});
  expect_refused(run_weft(scratch_, {"emit", path}), 2, {"--stage"});
  expect_refused(run_weft(scratch_, {"draw", path, "-o", "picture.gif"}), 2, {".svg"});
  expect_refused(run_weft(scratch_, {"cache", "fill"}), 2, {"prune"});
  expect_refused(run_weft(scratch_, {"weave"}), 2, {"weave"});
  expect_refused(run_weft(scratch_, std::vector<std::string>{}), 2, {"--help"});
  expect_refused(run_weft(scratch_, {"run", path, "-D", "width", "--tokens", "8"}), 2, {"name=value"});
}

TEST_F(BadInput, SizesBeyondTheMachine) {
  const auto file = scratch_.write("p.weft", kCausal);
  for (const auto* option : {"--tokens", "--batch"}) {
    std::vector<std::string> arguments = {"run", file, "--tokens", "100", "--target", "interpreter"};
    arguments.insert(arguments.end(), {option, "1152921504606846976"});
    if (std::string(option) == "--tokens") arguments.erase(arguments.begin() + 2, arguments.begin() + 4);
    expect_refused(run_weft(scratch_, arguments), 3, {"this machine has"});
  }
}

TEST_F(BadInput, ParametersOfTheWrongKind) {
  const auto path = scratch_.write("p.weft", "pattern p(width: int = 4) { keep window(width, 0); }\n");
  expect_refused(run_weft(scratch_, {"draw", path, "-D", "widht=5"}), 1, {"widht"});
  expect_refused(run_weft(scratch_, {"draw", path, "-D", "width=[1,2]"}), 1, {"width"});
  expect_refused(run_weft(scratch_, {"draw", path, "-D", "width=("}), 1, {"width"});
}

}  // namespace
}  // namespace weft::test
