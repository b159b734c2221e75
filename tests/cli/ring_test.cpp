/// `--ring`: what is said of rings, and what is refused.

#include "command.h"

#include "tests/support/places.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace weft::test {
namespace {

using Json = nlohmann::json;

class RingCommand : public ::testing::Test {
 protected:
  Finished explain(std::vector<std::string> more) {
    more.insert(more.begin(), {"explain", in_checkout("examples/longnet.weft"), "--target", "cpu", "--heads", "8",
                               "--dim", "64", "--dtype", "f16", "--quiet"});
    return run_weft(scratch_, more);
  }
  const Scratch scratch_;
};

TEST_F(RingCommand, ExplainSaysWhatRanksReceive) {
  const auto near = Json::parse(explain({"--tokens", "1m", "--ring", "64", "--json"}).out)["ring"];
  EXPECT_EQ(near["carrier"], "local");
  EXPECT_EQ(near["layout"], "contiguous");
  EXPECT_EQ(near["ranks"], 64);
  EXPECT_EQ(near["needed_bytes"]["max"], 0);
  EXPECT_EQ(near["field_bytes"]["max"], 63 * 16384.0 * 8 * 128 * 2);
  const auto striped = Json::parse(explain({"--tokens", "64k", "--ring", "4:striped", "--json"}).out)["ring"];
  EXPECT_EQ(striped["carrier"], "keys");
  EXPECT_GT(striped["needed_bytes"]["mean"], 1e7);
  EXPECT_EQ(striped["needed_bytes"]["mean"], striped["sent_bytes"]["mean"]);
  const auto text = explain({"--tokens", "1m", "--ring", "64"}).out;
  EXPECT_NE(text.find("ring of 64 ranks: contiguous"), std::string::npos) << text;
  EXPECT_TRUE(Json::parse(explain({"--tokens", "64k", "--json"}).out)["ring"].is_null());
}

TEST_F(RingCommand, WhatCannotBeIsRefused) {
  for (const auto* ring : {"0", "x", "4097", "4:zag", ":auto", "4:"}) {
    const auto finished = explain({"--tokens", "1k", "--ring", ring});
    EXPECT_EQ(finished.status, 2) << ring;
    EXPECT_NE(finished.err.find("--ring"), std::string::npos) << finished.err;
  }
  EXPECT_EQ(explain({"--tokens", "1k", "--keys", "2k", "--ring", "2"}).status, 1);
  const auto file = scratch_.write("p.weft", "pattern p { keep causal; ring 8 zigzag; }\n");
  const auto with = [&](const char* ring) {
    return run_weft(scratch_, {"explain", file, "--tokens", "1k", "--target", "cpu", "--ring", ring});
  };
  EXPECT_EQ(with("8").status, 0);
  EXPECT_NE(with("8").out.find("zigzag"), std::string::npos);
  EXPECT_EQ(with("8:zigzag").status, 0);
  EXPECT_NE(with("4").err.find("'ring 8'"), std::string::npos);
  EXPECT_EQ(with("8:contiguous").status, 1);
  const auto top = scratch_.write("t.weft", "pattern p { branch blocks(16, top(2, by: pooled)); }\n");
  const auto pooled = run_weft(scratch_, {"explain", top, "--tokens", "1k", "--target", "cpu", "--ring", "2"});
  EXPECT_EQ(pooled.status, 1);
  EXPECT_NE(pooled.err.find("top(2, by: pooled)"), std::string::npos) << pooled.err;
}

}  // namespace
}  // namespace weft::test
