/// With --json there is one object on standard output, however a command ends.

#include "command.h"

#include "tests/support/places.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace weft::test {
namespace {

using Json = nlohmann::json;

class Objects : public ::testing::Test {
 protected:
  Json error_of(std::vector<std::string> arguments, int status) {
    arguments.push_back("--json");
    const auto finished = run_weft(scratch_, arguments);
    EXPECT_EQ(finished.status, status) << arguments[0] << ": " << finished.err;
    const auto object = Json::parse(finished.out, nullptr, false);
    if (!object.is_object() || !object.contains("error")) {
      ADD_FAILURE() << arguments[0] << " leaves no error: " << finished.out << finished.err;
      return Json::object({{"message", ""}, {"kind", ""}});
    }
    EXPECT_EQ(object["error"]["status"], status);
    EXPECT_NE(object["error"]["message"], "");
    return object["error"];
  }
  Scratch scratch_;
  std::string wrong_ = scratch_.write("wrong.weft", "pattern p {\n  keep causl;\n}\n");
  std::string right_ = scratch_.write("right.weft", "pattern p { keep causal; }\n");
};

TEST_F(Objects, CommandLines) {
  const std::vector<std::vector<std::string>> lines = {
      {"weave"},
      {"run", right_, "--tokns", "4"},
      {"run", right_, "--target", "rocm"},
      {"run", right_, "--dtype", "float16"},
      {"run", right_, "--tokens", "4", "--input", "x"},
      {"run", right_},
      {"check"},
      {"fmt"},
      {"draw", right_, "-o", "x.gif"},
      {"explain", right_, "--layout", "hbnd"},
      {"emit", right_},
      {"bench", right_, "--target", "cpu:none"},
      {"tune", right_, "-D", "x"},
      {"bundle", "weave"},
      {"bundle", "build", right_, "-o", scratch_.path("x.wfb"), "--target", "rocm"},
      {"cache", "fill"},
      {"targets", "more"},
      {"doctor", "--nonsense"}};
  for (const auto& line : lines) EXPECT_EQ(error_of(line, 2)["kind"], "usage") << line[0];
}

TEST_F(Objects, WrongTexts) {
  for (const auto& line : std::vector<std::vector<std::string>>{{"run", wrong_, "--tokens", "4"},
                                                                {"draw", wrong_},
                                                                {"explain", wrong_},
                                                                {"emit", wrong_, "--stage", "plan"},
                                                                {"bench", wrong_},
                                                                {"tune", wrong_},
                                                                {"cache", "why", wrong_}}) {
    const auto error = error_of(line, 1);
    EXPECT_EQ(error["kind"], "input");
    ASSERT_EQ(error["diagnostics"].size(), 1u) << line[0];
    const auto& found = error["diagnostics"][0];
    EXPECT_EQ(found["line"], 2);
    EXPECT_EQ(found["fix"]["replacement"], "causal");
    EXPECT_TRUE(found["notes"].is_array());
  }
}

TEST_F(Objects, WhatIsMissing) {
  EXPECT_EQ(error_of({"run", right_, "--tokens", "8", "--no-compile"}, 3)["kind"], "environment");
  EXPECT_EQ(error_of({"emit", "nowhere.weft", "--stage", "ast"}, 1)["kind"], "input");
  for (const auto* word : {"ls", "verify"}) {
    const auto finished = run_weft(scratch_, {"bundle", word, "nowhere.wfb", "--json"});
    EXPECT_EQ(finished.status, 1);
    EXPECT_TRUE(Json::parse(finished.out, nullptr, false).is_object()) << finished.out;
  }
  const auto checked = run_weft(scratch_, {"check", "nowhere.weft", right_, "--json"});
  EXPECT_EQ(checked.status, 1);
  const auto report = Json::parse(checked.out);
  EXPECT_EQ(report["files"][0]["error"]["kind"], "input");
  EXPECT_EQ(report["files"][1]["ok"], true);
}

TEST_F(Objects, TheNearestIsNamed) {
  const auto names = [&](std::vector<std::string> line, const char* word) {
    const auto error = run_weft(scratch_, std::move(line)).err;
    EXPECT_NE(error.find(word), std::string::npos) << error;
  };
  names({"run", right_, "--tokns", "4"}, "--tokens");
  names({"run", right_, "--target", "gpu"}, "'cuda'");
  names({"run", right_, "--dtype", "bfloat16"}, "'bf16'");
  names({"draw", right_, "--batch", "2"}, "`run`");
  names({"exlpain", right_}, "explain");
  const auto inputs = scratch_.write("inputs.weft", "pattern p { input sizes: i32[batch]; keep lengths(sizes); }\n");
  names({"run", inputs, "--tokens", "8", "--input", "size=x.npy"}, "'sizes'");
}

}  // namespace
}  // namespace weft::test
