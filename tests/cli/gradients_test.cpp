/// `weft run --grad`: which gradient of O it takes, which gradients it writes, and what it refuses.

#include "command.h"

#include "tests/support/blessed.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>

namespace weft::test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

constexpr const char* kText =
    "pattern p { keep causal; }\n"
    "pattern biased { input bias: f32[heads, 41]; input at: i32[keys]; score s + bias[h, q - k];\n"
    "  keep window(40, 0) & where(at[k] >= 0); }\n"
    "pattern added { branch window(20, 0); branch lag(8) & causal; combine sum; dropout 0.25; }\n";

std::string npy_of(std::size_t count, float value, const std::vector<std::int64_t>& shape) {
  const std::vector<float> values(count, value);
  std::string bytes(count * 4, '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return npy("<f4", shape, bytes);
}

class Grad : public ::testing::Test {
 protected:
  Scratch scratch_;
  const std::string file_ = scratch_.write("p.weft", kText);

  Finished run(const Words& more, const std::string& pattern = "p") {
    Words words = {"run", file_, "--pattern", pattern, "--dim", "8", "--target", "interpreter"};
    if (std::find(more.begin(), more.end(), "--heads") == more.end()) words.insert(words.end(), {"--heads", "2"});
    words.insert(words.end(), more.begin(), more.end());
    return run_weft(scratch_, words);
  }
  /// The bytes of what `run` with `--dq` writes, behind the header.
  std::string gradient(const char* option, Words more, const std::string& pattern = "p") {
    const auto to = scratch_.path("gradient.npy");
    more.insert(more.end(), {option, std::string(option) == "--dinput" ? "bias=" + to : to});
    const auto finished = run(more, pattern);
    EXPECT_EQ(finished.status, 0) << finished.err;
    const auto bytes = read_text(to);
    return bytes.size() > 128 ? bytes.substr(128) : "";
  }
  void expect_refused(const Words& more, int status, const Words& said, const std::string& pattern = "p") {
    const auto before = scratch_.files();
    const auto finished = run(more, pattern);
    EXPECT_EQ(finished.status, status) << finished.err;
    EXPECT_EQ(finished.out, "");
    for (const auto& word : said) EXPECT_NE(finished.err.find(word), std::string::npos) << finished.err;
    EXPECT_EQ(scratch_.files(), before) << "something was written";
  }
};

TEST_F(Grad, TakesAFileOrMakesOne) {
  const auto ones = scratch_.write("ones.npy", npy_of(12 * 16, 1, {1, 12, 2, 8}));
  const Words random = {"--tokens", "12", "--grad", "random"};
  const auto by_word = gradient("--dk", {"--tokens", "12", "--grad", "ones"});
  EXPECT_EQ(by_word.size(), 12u * 16 * 4);
  EXPECT_EQ(by_word, gradient("--dk", {"--tokens", "12", "--grad", ones}));
  EXPECT_NE(by_word, gradient("--dk", random));
  EXPECT_EQ(gradient("--dk", random), gradient("--dk", random));
  EXPECT_NE(gradient("--dk", random), gradient("--dk", {"--tokens", "12", "--grad", "random", "--seed", "3"}));
}

TEST_F(Grad, WritesTensorsLikeThoseOfTheForward) {
  const auto finished = run({"--tokens",   "12",
                             "--keys",     "14",
                             "--kv-heads", "1",
                             "--dim-v",    "4",
                             "--dtype",    "f16",
                             "--grad",     "random",
                             "--dq",       scratch_.path("dq.npy"),
                             "--dk",       scratch_.path("dk.npy"),
                             "--dv",       scratch_.path("dv.npy"),
                             "-o",         scratch_.path("o.npy"),
                             "--lse",      scratch_.path("l.npy")});
  ASSERT_EQ(finished.status, 0) << finished.err;
  const auto header = [&](const char* name) { return read_text(scratch_.path(name)).substr(0, 128); };
  for (const auto& [name, shape] : {std::pair{"dq.npy", "(1, 12, 2, 8)"},
                                    {"dk.npy", "(1, 14, 1, 8)"},
                                    {"dv.npy", "(1, 14, 1, 4)"},
                                    {"o.npy", "(1, 12, 2, 4)"}}) {
    EXPECT_NE(header(name).find(shape), std::string::npos) << header(name);
    EXPECT_NE(header(name).find("<f2"), std::string::npos) << header(name);
  }
  EXPECT_NE(header("l.npy").find("(1, 2, 12)"), std::string::npos) << header("l.npy");
}

TEST_F(Grad, OfInputsIsF32) {
  const Words call = {"--tokens", "50", "--grad", "random", "--dtype", "bf16"};
  EXPECT_EQ(gradient("--dinput", call, "biased").size(), 2u * 41 * 4);
}

/// One head, so that both orders of the axes hold the same bytes.
TEST_F(Grad, FollowsTheLayout) {
  const auto rows = scratch_.write("rows.npy", npy_f32({1, 12, 1, 8}));
  const auto heads = scratch_.write("heads.npy", npy_f32({1, 1, 12, 8}));
  const auto call = [](const std::string& x) {
    return Words{"--heads", "1", "--q", x, "--k", x, "--v", x, "--grad", x};
  };
  auto turned = call(heads);
  turned.insert(turned.end(), {"--layout", "bhnd"});
  for (const auto* option : {"--dq", "--dk", "--dv"}) EXPECT_EQ(gradient(option, call(rows)), gradient(option, turned));
  auto wrong = call(heads);
  wrong.back() = rows;
  wrong.insert(wrong.end(), {"--layout", "bhnd"});
  expect_refused(wrong, 1, {"rows.npy: dO has shape [1, 12, 1, 8]; expected [1, 1, 12, 8], that of O"});
}

/// dO has all rows, as Q has, and random ones are those of the whole.
TEST_F(Grad, OfRowsIsTheirPartOfTheWhole) {
  const auto rows = scratch_.write("d_o.npy", npy_f32({1, 12, 2, 8}));
  for (const auto& given : {std::string("random"), rows}) {
    const Words whole = {"--tokens", "12", "--grad", given};
    auto part = whole;
    part.insert(part.end(), {"--rows", "3:7"});
    EXPECT_EQ(gradient("--dq", part), gradient("--dq", whole).substr(3 * 16 * 4, 4 * 16 * 4));
    EXPECT_NE(gradient("--dk", part), gradient("--dk", whole));
  }
}

TEST_F(Grad, IsToldInJson) {
  const auto object = [&](Words more, const std::string& pattern) {
    more.insert(more.end(), {"--tokens", "40", "--grad", "random", "--json"});
    const auto finished = run(more, pattern);
    EXPECT_EQ(finished.status, 0) << finished.err;
    return Json::parse(finished.out, nullptr, false);
  };
  const auto names = [](const Json& check) {
    Words out;
    for (const auto& tensor : check["gradients"]) {
      EXPECT_EQ(tensor["ok"], true);
      EXPECT_LE(tensor["max_error"], tensor["bound"]);
      out.push_back(tensor["tensor"]);
    }
    return out;
  };
  const auto checked = object({"--check", "--dq", scratch_.path("dq.npy")}, "biased");
  EXPECT_EQ(names(checked["check"]), (Words{"dq", "dk", "dv", "bias"})) << "all are checked, whatever is written";
  EXPECT_EQ(checked["check"]["ok"], true);
  EXPECT_GT(checked["backward"]["time_ms"], 0);
  EXPECT_EQ(checked["backward"]["kernel"]["cache"], "miss");
  EXPECT_FALSE(object({}, "added").contains("check"));
  EXPECT_EQ(names(object({"--check"}, "added")["check"]), (Words{"dq", "dk", "dv"}));
}

/// Where a row has one key, dQ and dK are 0, and no share of that is an error's bound.
TEST_F(Grad, OfRowsWithOneKeyIsChecked) {
  for (const auto* dtype : {"f32", "f16", "bf16"})
    EXPECT_EQ(run({"--tokens", "1", "--grad", "random", "--check", "--dtype", dtype}).status, 0);
}

/// Above 2^28 pairs: by a backward pass of its own, whose files are those of the whole dO all the same.
TEST_F(Grad, OfManyRowsIsCheckedOnSome) {
  const auto call = [&](const Words& more) {
    Words words = {"run",
                   file_,
                   "--pattern",
                   "added",
                   "--heads",
                   "1",
                   "--dim",
                   "8",
                   "--tokens",
                   "16400",
                   "--target",
                   "cpu",
                   "--grad",
                   "random",
                   "--json",
                   "--dk",
                   scratch_.path("dk.npy")};
    words.insert(words.end(), more.begin(), more.end());
    const auto finished = run_weft(scratch_, words);
    EXPECT_EQ(finished.status, 0) << finished.err;
    return std::pair(Json::parse(finished.out, nullptr, false), read_text(scratch_.path("dk.npy")));
  };
  const auto [checked, dk] = call({"--check"});
  EXPECT_EQ(checked["check"]["sampled"], true);
  EXPECT_EQ(checked["check"]["gradients"].size(), 3u);
  EXPECT_EQ(checked["check"]["ok"], true);
  EXPECT_TRUE(dk == call({}).second);
}

TEST_F(Grad, WrongCommandLines) {
  for (const Words& option :
       {Words{"--dq", "x"}, Words{"--dk", "x"}, Words{"--dv", "x"}, Words{"--dinput", "bias=x"}}) {
    expect_refused({"--tokens", "12", option[0], option[1]}, 2, {"add --grad"}, "biased");
  }
  expect_refused({"--tokens", "12", "--grad", "ones", "--dinput", "bias"}, 2, {"--dinput bias: expected name=file.npy"},
                 "biased");
}

TEST_F(Grad, GradientsThatDoNotFit) {
  const Words sized = {"--tokens", "12", "--grad"};
  const auto refuse = [&](const std::string& grad, const Words& said, Words more = {}) {
    more.insert(more.begin(), sized.begin(), sized.end());
    more.insert(more.begin() + 3, grad);
    expect_refused(more, 1, said);
  };
  refuse(scratch_.path("none.npy"), {"none.npy", "No such file"});
  refuse(scratch_.path("."), {"directory"});
  refuse("one", {"cannot read one"});
  refuse(scratch_.write("short.npy", npy_f32({1, 11, 2, 8})),
         {"short.npy: dO has shape [1, 11, 2, 8]; expected [1, 12, 2, 8], that of O"});
  refuse(scratch_.write("flat.npy", npy_f32({192})), {"dO has shape [192]"});
  refuse(scratch_.write("part.npy", npy_f32({1, 4, 2, 8})), {"expected [1, 12, 2, 8]"}, {"--rows", "3:7"});
  refuse(scratch_.write("i.npy", npy("<i4", {1, 12, 2, 8}, std::string(768, '\0'))), {"the type of dO is <i4"});
  refuse(scratch_.write("f.npy", npy_f32({1, 12, 2, 8})), {"f.npy: dO is f32; expected f16, the type of q", "astype"},
         {"--dtype", "f16"});
}

TEST_F(Grad, InputsThatHaveNone) {
  const auto refuse = [&](const Words& named, const std::string& said, const std::string& pattern) {
    Words words = {"--tokens", "12", "--grad", "ones"};
    for (const auto& name : named) words.insert(words.end(), {"--dinput", name + "=" + scratch_.path("x.npy")});
    expect_refused(words, 1, {said}, pattern);
  };
  refuse({"baas"}, "the pattern has no input 'baas'; did you mean 'bias'?", "biased");
  refuse({"bias"}, "the pattern has no input 'bias'", "p");
  refuse({"at"}, "--dinput at: only f32 inputs have a gradient; 'at' is i32", "biased");
  refuse({"bias", "bias"}, "--dinput bias is given twice", "biased");
}

TEST_F(Grad, PathsThatCannotBeWritten) {
  for (const auto* option : {"--dq", "--dk", "--dv"})
    expect_refused({"--tokens", "4", "--grad", "ones", option, scratch_.path("none/x.npy")}, 3, {"none/x.npy"});
  expect_refused({"--tokens", "50", "--grad", "ones", "--dinput", "bias=" + scratch_.path("none/x.npy")}, 3,
                 {"none/x.npy"}, "biased");
}

}  // namespace
}  // namespace weft::test
