/// `--ring`: what is said of rings, and what is refused.

#include "command.h"

#include "tests/support/places.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>

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
  EXPECT_EQ(near["held_bytes"]["max"], 16384.0 * 8 * 128 * 2);
  const auto striped = Json::parse(explain({"--tokens", "64k", "--ring", "4:striped", "--json"}).out)["ring"];
  EXPECT_EQ(striped["carrier"], "keys");
  EXPECT_GT(striped["needed_bytes"]["mean"], 1e7);
  EXPECT_GT(striped["held_bytes"]["mean"], striped["needed_bytes"]["mean"]);
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
  EXPECT_EQ(explain({"--tokens", "1k", "--ring", "mpi"}).status, 2);
  EXPECT_EQ(explain({"--tokens", "1k", "--ring", "nccl"}).status, 2);
  const auto on_cpu = run_weft(scratch_, {"run", in_checkout("examples/window.weft"), "--tokens", "64", "--target",
                                          "cpu", "--ring", "nccl:zigzag"});
  EXPECT_EQ(on_cpu.status, 2);
  EXPECT_NE(on_cpu.err.find("NCCL moves what lies on GPUs"), std::string::npos) << on_cpu.err;
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
  const auto pooled = [&](const char* ring, const char* carrier) {
    return run_weft(scratch_, {"explain", top, "--tokens", "1k", "--target", "cpu", "--heads", "4", "--ring", ring,
                               "--ring-by", carrier});
  };
  for (const auto& [ring, carrier] : {std::pair{"5", "auto"}, {"2", "keys"}}) {
    EXPECT_EQ(pooled(ring, carrier).status, 1);
    EXPECT_NE(pooled(ring, carrier).err.find("top(2, by: pooled)"), std::string::npos) << pooled(ring, carrier).err;
  }
  EXPECT_EQ(pooled("2", "auto").status, 0) << "each rank computes all rows of two heads";
  EXPECT_EQ(pooled("2", "rows").status, 2);
  EXPECT_EQ(explain({"--tokens", "1k", "--ring-by", "keys"}).status, 2);
}

TEST_F(RingCommand, HeadsChangePlaces) {
  const auto said =
      Json::parse(explain({"--tokens", "64k", "--ring", "4", "--ring-by", "heads", "--json"}).out)["ring"];
  EXPECT_TRUE(said["carrier"].get<std::string>().starts_with("heads")) << said;
  EXPECT_GT(said["needed_bytes"]["mean"], 1e6);
  EXPECT_EQ(said["needed_bytes"]["mean"], said["sent_bytes"]["mean"]);
  const auto ran = run_weft(scratch_, {"run", in_checkout("examples/bigbird.weft"), "--tokens", "1k", "--heads", "4",
                                       "--dim", "32", "--target", "cpu", "--ring", "4", "--ring-by", "heads", "--grad",
                                       "random", "--check", "--json", "--quiet"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  const auto ring = Json::parse(ran.out)["ring"];
  EXPECT_EQ(ring["carrier"], "heads");
  EXPECT_EQ(ring["needed_bytes"], ring["received_bytes"]);
  const auto foretold = run_weft(
      scratch_, {"explain", in_checkout("examples/bigbird.weft"), "--tokens", "1k", "--heads", "4", "--dim", "32",
                 "--dtype", "f32", "--target", "cpu", "--ring", "4", "--ring-by", "heads", "--json", "--quiet"});
  ASSERT_EQ(foretold.status, 0) << foretold.err;
  double sum = 0;
  for (const double bytes : ring["received_bytes"]) sum += bytes;
  EXPECT_EQ(Json::parse(foretold.out)["ring"]["needed_bytes"]["mean"], sum / 4);
}

/// What is said of a backward pass is what its ranks have.
TEST_F(RingCommand, ExplainForetellsBackwardPasses) {
  const auto own_deltas = scratch_.write("s.weft", "pattern s { branch window(40, 3); branch sink(5); combine sum; }");
  const auto numbers = [](const Json& of_ranks) { return of_ranks.get<std::vector<double>>(); };
  for (const auto& [file, ring, carrier] : {std::tuple{in_checkout("examples/longnet.weft"), "3:striped", "keys"},
                                            {in_checkout("examples/window.weft"), "5:zigzag", "keys"},
                                            {in_checkout("examples/bigbird.weft"), "4", "heads"},
                                            {own_deltas, "3:contiguous", "keys"}}) {
    const std::vector<std::string> same = {file, "--tokens",  "300",   "--heads",  "4",      "--dim",
                                           "16", "--dtype",   "f32",   "--target", "cpu",    "--ring",
                                           ring, "--ring-by", carrier, "--json",   "--quiet"};
    const auto with = [&](std::vector<std::string> words) {
      words.insert(words.begin() + 1, same.begin(), same.end());
      const auto finished = run_weft(scratch_, words);
      EXPECT_EQ(finished.status, 0) << finished.err;
      return Json::parse(finished.out);
    };
    const auto ran = with({"run", "--grad", "random", "--check"})["backward"]["ring"];
    const auto said = with({"explain", "--grad"})["ring"];
    for (const char* key : {"needed_bytes", "messages", "pairs"}) {
      const auto of_ranks = numbers(ran[key]);
      EXPECT_EQ(said[key]["max"], *std::max_element(of_ranks.begin(), of_ranks.end())) << file << key;
    }
    EXPECT_EQ(said["rows_bytes"]["max"] > 0, carrier == std::string("keys")) << file;
    EXPECT_GT(said["predicted_ms"], 0) << file;
  }
}

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Numbers of an .npy file of f32 in C order.
std::vector<float> floats_of(const std::string& path) {
  const auto bytes = bytes_of(path);
  const auto header = static_cast<std::size_t>(static_cast<unsigned char>(bytes.at(8))) +
                      256 * static_cast<std::size_t>(static_cast<unsigned char>(bytes.at(9)));
  std::vector<float> out((bytes.size() - 10 - header) / sizeof(float));
  std::memcpy(out.data(), bytes.data() + 10 + header, out.size() * sizeof(float));
  return out;
}

float furthest(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return INFINITY;
  float most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i]) most = std::max(most, std::isfinite(a[i] - b[i]) ? std::abs(a[i] - b[i]) : INFINITY);
  }
  return most;
}

/// What ring-flash-attention computed rank by rank, on rings of other sizes and layouts, too; by the bits of one
/// device.
TEST_F(RingCommand, RunsWhatOthersComputedInRings) {
  for (const std::string name : {"ring_contiguous", "ring_contiguous_full", "ring_zigzag", "ring_striped"}) {
    const auto folder = in_checkout("tests/golden/" + name) + "/";
    auto text = bytes_of(folder + "pattern.weft");
    const auto own = text;
    const auto at = text.find("  ring ");
    ASSERT_NE(at, std::string::npos);
    const auto own_ranks = text.substr(at + 7, 1);
    text.erase(at, text.find(';', at) - at + 1);
    const auto plain = scratch_.write("plain.weft", text);
    const auto run = [&](const std::string& file, const std::string& ring, const std::string& out) {
      std::vector<std::string> arguments = {"run",      file,
                                            "--q",      folder + "q.npy",
                                            "--k",      folder + "k.npy",
                                            "--v",      folder + "v.npy",
                                            "-o",       scratch_.path(out + "_o.npy"),
                                            "--lse",    scratch_.path(out + "_l.npy"),
                                            "--target", "cpu",
                                            "--quiet"};
      if (!ring.empty()) arguments.insert(arguments.end(), {"--ring", ring, "--check"});
      const auto finished = run_weft(scratch_, arguments);
      EXPECT_EQ(finished.status, 0) << name << ' ' << ring << finished.err;
    };
    const auto same = [&] {
      return bytes_of(scratch_.path("one_o.npy")) == bytes_of(scratch_.path("ring_o.npy")) &&
             bytes_of(scratch_.path("one_l.npy")) == bytes_of(scratch_.path("ring_l.npy"));
    };
    run(plain, "", "one");
    run(scratch_.write("own.weft", own), own_ranks, "ring");
    EXPECT_TRUE(same()) << name;
    EXPECT_LT(furthest(floats_of(scratch_.path("ring_o.npy")), floats_of(folder + "o.npy")), 1e-5F) << name;
    EXPECT_LT(furthest(floats_of(scratch_.path("ring_l.npy")), floats_of(folder + "lse.npy")), 1e-5F) << name;
    for (int ranks = 1; ranks <= 7; ++ranks) {
      for (const char* layout : {"auto", "contiguous", "zigzag", "striped"}) {
        run(plain, std::to_string(ranks) + ":" + layout, "ring");
        EXPECT_TRUE(same()) << name << ' ' << ranks << layout;
      }
    }
    run(plain, "100", "ring");  // more ranks than the 80 tokens
    EXPECT_TRUE(same()) << name;
  }
}

TEST_F(RingCommand, DrawShowsOwners) {
  const auto window = in_checkout("examples/window.weft");
  const auto drawn = run_weft(scratch_, {"draw", window, "--tokens", "32", "-D", "width=8", "--ring", "4:zigzag"});
  ASSERT_EQ(drawn.status, 0) << drawn.err;
  std::string owners;
  std::istringstream lines(drawn.out);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("   ")) owners += line[3];
  }
  EXPECT_EQ(owners, "0011223333221100") << drawn.out;
  const auto json = run_weft(scratch_, {"draw", window, "--tokens", "8", "--ring", "4:striped", "--json"});
  EXPECT_EQ(Json::parse(json.out)["owners"]["rows"], Json({0, 1, 2, 3, 0, 1, 2, 3}));
  const auto colored =
      run_weft(scratch_, {"draw", window, "--tokens", "32", "--ring", "4", "-o", scratch_.path("x.svg")});
  EXPECT_EQ(colored.status, 0) << colored.err;
  const auto plain = run_weft(scratch_, {"draw", window, "--tokens", "32", "-o", scratch_.path("y.svg")});
  EXPECT_NE(bytes_of(scratch_.path("x.svg")), bytes_of(scratch_.path("y.svg")));
  EXPECT_EQ(run_weft(scratch_, {"draw", window, "--tiles", "--ring", "4"}).status, 2);
}

TEST_F(RingCommand, RunSaysWhatEachRankDid) {
  const auto window = in_checkout("examples/window.weft");
  const auto finished = run_weft(scratch_, {"run", window, "--tokens", "2k", "--target", "cpu", "--heads", "4",
                                            "--ring", "4:contiguous", "--check", "--json", "--quiet"});
  ASSERT_EQ(finished.status, 0) << finished.err;
  const auto ring = Json::parse(finished.out)["ring"];
  EXPECT_EQ(ring["ranks"], 4);
  EXPECT_EQ(ring["layout"], "contiguous");
  EXPECT_EQ(ring["carrier"], "keys");
  EXPECT_EQ(ring["bits"], "one device");
  EXPECT_EQ(ring["received_bytes"], ring["needed_bytes"]);
  // 255 rows of K and V from the rank before, and nothing else; the first needs nothing.
  const double halo = 255 * 4 * 2 * 64 * 4;
  EXPECT_EQ(ring["received_bytes"], Json({0, halo, halo, halo}));
  EXPECT_EQ(ring["sent_bytes"], Json({halo, halo, halo, 0}));
  EXPECT_EQ(ring["messages"], Json({0, 1, 1, 1}));
  for (const auto* other : {"--rows=0:5", "--offset=3", "--prepare"}) {
    const auto refused = run_weft(scratch_, {"run", window, "--tokens", "64", "--ring", "2", other});
    EXPECT_EQ(refused.status, 2) << other;
    EXPECT_NE(refused.err.find("--ring"), std::string::npos) << refused.err;
  }
  const auto doubles =
      run_weft(scratch_, {"run", window, "--tokens", "64", "--dtype", "f64", "--target", "interpreter", "--ring", "2"});
  EXPECT_EQ(doubles.status, 1);
  EXPECT_NE(doubles.err.find("f64"), std::string::npos) << doubles.err;
  EXPECT_EQ(
      run_weft(scratch_, {"run", window, "--tokens", "64", "--target", "interpreter", "--ring", "2", "--check"}).status,
      0);
  const auto lengths = run_weft(scratch_, {"run", window, "--tokens", "64", "--keys", "128", "--ring", "2"});
  EXPECT_EQ(lengths.status, 1) << lengths.err;
  EXPECT_NE(lengths.err.find("queries"), std::string::npos) << lengths.err;
}

/// Of each branch where it is asked for, or where there is no other.
TEST_F(RingCommand, LseOfBranchesIsThatOfOneDevice) {
  const auto file = scratch_.write("p.weft",
                                   "pattern p { branch window(20, 0); branch sink(3); combine mean; }\n"
                                   "pattern q { branch window(20, 0); branch sink(3); }\n");
  for (const auto& pattern : {"p", "q"}) {
    const auto run = [&](const std::string& name, std::vector<std::string> more) {
      more.insert(more.begin(), {"run", file, "--pattern", pattern, "--tokens", "200", "--heads", "3", "--dim", "16",
                                 "--seed", "5", "--target", "cpu", "--lse-per-branch", "--lse", scratch_.path(name)});
      return run_weft(scratch_, more);
    };
    ASSERT_EQ(run("one.npy", {}).status, 0);
    for (const char* ring : {"2", "3:striped", "4:contiguous"}) {
      const auto finished = run("ring.npy", {"--ring", ring, "--check"});
      ASSERT_EQ(finished.status, 0) << finished.err;
      EXPECT_EQ(bytes_of(scratch_.path("ring.npy")), bytes_of(scratch_.path("one.npy"))) << pattern << ring;
    }
  }
}

/// On other ranks and layouts, too, they are one device's bits, which --check compares with the interpreter's.
TEST_F(RingCommand, GradientsHaveTheBitsOfOneDevice) {
  const auto file = scratch_.write("p.weft",
                                   "pattern p { branches dilated(segments: [64, 256], rates: [1, 2]); keep causal; }\n"
                                   "pattern each { branch window(9, 0); branch sink(2); combine mean; }\n"
                                   "pattern biased { input bias: f32[heads]; keep causal; score s + bias[h]; }\n");
  const auto run = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"run", file, "--tokens", "300", "--heads", "2", "--dim", "16", "--seed", "3", "--target",
                               "cpu", "--grad", "random"});
    return run_weft(scratch_, more);
  };
  const auto files = [&](const std::string& name) {
    return std::vector<std::string>{"--pattern", "p",
                                    "--dq",      scratch_.path(name + "_q.npy"),
                                    "--dk",      scratch_.path(name + "_k.npy"),
                                    "--dv",      scratch_.path(name + "_v.npy")};
  };
  ASSERT_EQ(run(files("one")).status, 0);
  for (const char* ring : {"2", "3:contiguous", "4:zigzag", "5:striped"}) {
    auto words = files("ring");
    words.insert(words.end(), {"--ring", ring, "--check", "--json", "--quiet"});
    const auto finished = run(words);
    ASSERT_EQ(finished.status, 0) << ring << finished.err;
    for (const char* of : {"_q.npy", "_k.npy", "_v.npy"})
      EXPECT_EQ(bytes_of(scratch_.path(std::string("ring") + of)), bytes_of(scratch_.path(std::string("one") + of)))
          << ring << of;
    const auto said = Json::parse(finished.out);
    EXPECT_EQ(said["check"]["gradients"].size(), 3);
    EXPECT_TRUE(said["check"]["ok"]);
    EXPECT_EQ(said["backward"]["ring"]["received_bytes"], said["backward"]["ring"]["needed_bytes"]);
    EXPECT_GT(said["backward"]["ring"]["received_bytes"][0], 0);
  }
  const auto each = run({"--pattern", "each", "--ring", "3:zigzag", "--check", "--json", "--quiet"});
  EXPECT_EQ(each.status, 0) << each.err;
  EXPECT_TRUE(Json::parse(each.out)["check"]["ok"]);
  const auto biased = run({"--pattern", "biased", "--ring", "2", "--check", "--json", "--quiet", "--dinput",
                           "bias=" + scratch_.path("bias.npy")});
  ASSERT_EQ(biased.status, 0) << biased.err;
  const auto checked = Json::parse(biased.out)["check"]["gradients"];
  ASSERT_EQ(checked.size(), 4);
  EXPECT_EQ(checked[3]["tensor"], "bias");
  EXPECT_TRUE(checked[3]["ok"]);
  EXPECT_EQ(floats_of(scratch_.path("bias.npy")).size(), 2);
}

}  // namespace
}  // namespace weft::test
