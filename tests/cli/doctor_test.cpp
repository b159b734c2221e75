/// What `doctor`, `targets` and `emit --stage sass` say about compilers, disassemblers and GPUs.

#include "command.h"

#include "tests/support/places.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

namespace weft::test {
namespace {

using Json = nlohmann::json;
using Environment = std::map<std::string, std::string>;

class Doctor : public ::testing::Test {
 protected:
  Scratch scratch_;

  Json json(const std::string& command, Environment environment = {}) {
    const auto finished =
        run_weft(scratch_, Call{.arguments = {command, "--json"}, .environment = std::move(environment)});
    EXPECT_EQ(finished.status, 0) << finished.err;
    return Json::parse(finished.out, nullptr, false)[command == "doctor" ? "items" : "targets"];
  }
  static std::vector<Json> named(const Json& rows, const std::string& name) {
    std::vector<Json> out;
    for (const auto& row : rows) {
      if (row["name"] == name) out.push_back(row);
    }
    return out;
  }
  Json target(const std::string& name, Environment environment = {}) {
    const auto rows = named(json("targets", std::move(environment)), name);
    EXPECT_EQ(rows.size(), 1u);
    return rows.empty() ? Json() : rows[0];
  }
};

TEST_F(Doctor, ListsEachNvrtcWithVersionAndArchitectures) {
  const auto rows = named(json("doctor"), "nvrtc");
  ASSERT_FALSE(rows.empty()) << "one that was found, or one that says that none was";
  for (const auto& row : rows) {
    if (!row["usable"]) continue;
    EXPECT_NE(row["version"].get<std::string>().find('.'), std::string::npos);
    EXPECT_GE(row["architectures"].size(), 5u);
    EXPECT_EQ(row["architectures"][0].get<std::string>().substr(0, 3), "sm_");
    EXPECT_NE(row["path"].get<std::string>().find("libnvrtc"), std::string::npos);
  }
}

TEST_F(Doctor, SaysWhatIsMissingAndHowToMendIt) {
  const auto rows = named(json("doctor", {{"WEFT_NVRTC", "/nonexistent"}}), "nvrtc");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_FALSE(rows[0]["usable"]);
  EXPECT_NE(rows[0]["reason"].get<std::string>().find("WEFT_NVRTC names /nonexistent"), std::string::npos);
  EXPECT_NE(rows[0]["reason"].get<std::string>().find("nothing compiles for sm_60, sm_61"), std::string::npos);
  EXPECT_NE(rows[0]["mend"].get<std::string>().find("./dev setup"), std::string::npos);
  for (const auto& [name, variable] : {std::pair{"emulate", "WEFT_CXX"}, std::pair{"cuda", "WEFT_CUDA_DRIVER"}}) {
    const auto row = named(json("doctor", {{variable, "/nonexistent"}}), name);
    ASSERT_EQ(row.size(), 1u);
    EXPECT_FALSE(row[0]["usable"]) << name;
    EXPECT_NE(row[0]["reason"], "");
    EXPECT_NE(row[0]["mend"], "") << name;
  }
}

TEST_F(Doctor, ListsEachGpu) {
  const auto items = json("doctor", {{"WEFT_CUDA_DRIVER", WEFT_STAND_IN}});
  ASSERT_EQ(named(items, "cuda").size(), 1u);
  EXPECT_TRUE(named(items, "cuda")[0]["usable"]);
  ASSERT_EQ(named(items, "cuda:0").size(), 1u);
  EXPECT_TRUE(named(items, "cuda:0")[0]["usable"]);
  EXPECT_TRUE(named(json("doctor"), "cuda:0").empty()) << "the control: no driver, no GPU";
}

TEST_F(Doctor, ATargetIsUsableWhereItCompilesAndRuns) {
  const auto without = target("sm_61");
  EXPECT_FALSE(without["usable"]);
  EXPECT_TRUE(without["device"].is_null());
  const auto incapable = target("sm_61", {{"WEFT_NVRTC", "/nonexistent"}, {"WEFT_CXX", "/nonexistent"}});
  EXPECT_TRUE(incapable["compiler"].is_null());
  EXPECT_FALSE(incapable["emulates"]);
  EXPECT_NE(incapable["reason"].get<std::string>().find("no NVRTC here knows it"), std::string::npos);
  EXPECT_EQ(incapable["reason"].get<std::string>().find("emulate:"), std::string::npos);
  if (without["compiler"].is_null()) GTEST_SKIP() << "no NVRTC here knows sm_61; ./dev setup brings one";
  EXPECT_NE(without["reason"].get<std::string>().find(without["compiler_version"].get<std::string>()),
            std::string::npos);
  const auto with = target("sm_61", {{"WEFT_CUDA_DRIVER", WEFT_STAND_IN}});
  EXPECT_TRUE(with["usable"]) << with["reason"];
  EXPECT_EQ(with["device"], 0);
  EXPECT_FALSE(target("sm_90a", {{"WEFT_CUDA_DRIVER", WEFT_STAND_IN}})["usable"]) << "not on such a GPU";
}

TEST_F(Doctor, SassNeedsADisassembler) {
  const std::vector<std::string> emit = {
      "emit", test::in_checkout("examples/window.weft"), "--dim", "16", "--stage", "sass", "--target", "sm_61"};
  const auto missing =
      run_weft(scratch_, Call{.arguments = emit, .environment = {{"WEFT_NVDISASM", "/nonexistent/nvdisasm"}}});
  EXPECT_EQ(missing.status, 3) << missing.err;
  EXPECT_EQ(missing.out, "");
  if (missing.err.find("NVRTC") != std::string::npos) GTEST_SKIP() << "no NVRTC here knows sm_61";
  EXPECT_NE(missing.err.find("pip install triton==3.3.1"), std::string::npos) << missing.err;
  const auto program = scratch_.write("nvdisasm", "#!/bin/sh\nhead -c 4 \"$2\" | tail -c 3\n");
  ::chmod(program.c_str(), 0700);
  const auto found = run_weft(scratch_, Call{.arguments = emit, .environment = {{"WEFT_NVDISASM", program}}});
  EXPECT_EQ(found.status, 0) << found.err;
  EXPECT_EQ(found.out, "ELF\n") << "the cubin reached the program, its text came back; it said " << found.err;
}

}  // namespace
}  // namespace weft::test
