/// Every command once, as scripts rely on it: statuses, streams, keys of --json.

#include "command.h"

#include "tests/support/places.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

namespace weft::test {
namespace {

using Json = nlohmann::json;

class Commands : public ::testing::Test {
 protected:
  Scratch scratch_;
  std::string longnet_ = test::in_checkout("examples/longnet.weft");
  std::string window_ = test::in_checkout("examples/window.weft");
  std::vector<std::string> small_ = {"-D", "segments=[16,32,64]", "--dim", "16"};

  Finished weft(std::vector<std::string> arguments, const std::vector<std::string>& more = {}) {
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_weft(scratch_, std::move(arguments));
  }
  /// The one object of --json; other than that the command must be content.
  Json json(std::vector<std::string> arguments, const std::vector<std::string>& more = {}) {
    arguments.push_back("--json");
    const auto finished = weft(std::move(arguments), more);
    EXPECT_EQ(finished.status, 0) << finished.err;
    auto object = Json::parse(finished.out, nullptr, false);
    EXPECT_TRUE(object.is_object()) << finished.out;
    return object;
  }
  std::string read(const std::string& name) {
    std::ifstream in(scratch_.path(name), std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
  }
};

void expect_keys(const Json& object, const std::vector<std::string>& keys) {
  for (const auto& key : keys) EXPECT_TRUE(object.contains(Json::json_pointer(key))) << key << " in " << object.dump(2);
}

TEST_F(Commands, VersionAndHelp) {
  EXPECT_EQ(weft({"--version"}).out, "weft 0.1.0\n");
  const auto help = weft({"--help"});
  EXPECT_EQ(help.status, 0);
  for (const auto* word : {"run", "check", "fmt", "draw", "explain", "emit", "bench", "cache", "targets", "doctor"}) {
    EXPECT_NE(help.out.find(word), std::string::npos) << word;
    const auto one = weft({word, "--help"});
    EXPECT_EQ(one.status, 0);
    EXPECT_NE(one.out.find("--json"), std::string::npos) << word;
  }
}

TEST_F(Commands, RunMissesThenHits) {
  const std::vector<std::string> run = {"run", longnet_, "--tokens", "100", "--heads", "3", "--check"};
  const auto first = json(run, small_), second = json(run, small_);
  expect_keys(first, {"/kernel/cache", "/kernel/compile_ms", "/kernel/load_ms", "/kernel/registers",
                      "/kernel/spill_bytes", "/time_ms", "/check/ok", "/check/max_error", "/check/bound"});
  EXPECT_EQ(first["kernel"]["cache"], "miss");
  EXPECT_GT(first["kernel"]["compile_ms"], 0);
  EXPECT_EQ(second["kernel"]["cache"], "disk");
  EXPECT_EQ(second["kernel"]["compile_ms"], 0);
  EXPECT_TRUE(second["check"]["ok"]);
  EXPECT_LT(second["check"]["max_error"], second["check"]["bound"]);
  EXPECT_GT(second["check"]["max_error"], 0);
  EXPECT_EQ(json({"run", longnet_, "--tokens", "100", "--no-cache"}, small_)["kernel"]["cache"], "miss");
}

TEST_F(Commands, AnotherLengthCompilesNothing) {
  EXPECT_EQ(json({"run", longnet_, "--tokens", "100"}, small_)["kernel"]["cache"], "miss");
  const auto other = json({"run", longnet_, "--tokens", "333", "--batch", "2", "--heads", "5", "--check"}, small_);
  EXPECT_EQ(other["kernel"]["cache"], "disk");
  EXPECT_TRUE(other["check"]["ok"]);
}

TEST_F(Commands, FewQueriesAreMadeApart) {
  const std::vector<std::string> decode = {"run", longnet_, "--tokens", "2", "--keys", "100"};
  EXPECT_EQ(json({"run", longnet_, "--tokens", "100"}, small_)["kernel"]["prepare"]["compile_ms"], 0);
  auto no_compile = decode;
  no_compile.push_back("--no-compile");
  const auto refused = weft(no_compile, small_);
  EXPECT_EQ(refused.status, 3);
  EXPECT_NE(refused.err.find("few queries"), std::string::npos) << refused.err;

  auto prepare = decode;
  prepare.push_back("--prepare");
  const auto prepared = json(prepare, small_);
  EXPECT_EQ(prepared["kernels"][0]["cache"], "disk");
  EXPECT_GT(prepared["kernels"][0]["prepare"]["compile_ms"], 0);
  EXPECT_FALSE(prepared.contains("time_ms"));
  const auto second = json(no_compile, small_);
  EXPECT_EQ(second["kernel"]["prepare"]["compile_ms"], 0);
  EXPECT_GT(second["kernel"]["prepare"]["load_ms"], 0);

  prepare.push_back("--check");
  EXPECT_EQ(weft(prepare, small_).status, 2);
}

/// Sizes that the pattern does not have are told before a kernel is made for them: here none could be.
TEST_F(Commands, WhatNeedsNoKernelIsSaidWithoutOne) {
  const auto grid = scratch_.write("grid.weft", "pattern p { grid 8, 8; branch neighborhood([3, 3]); }");
  const auto late = scratch_.write("late.weft", "pattern p { branch neighborhood(5); }");
  const std::vector<std::string> nowhere = {"--target", "sm_80", "--dtype", "f16", "--nvrtc", "/nowhere/libnvrtc.so"};
  const auto refusal = [&](std::vector<std::string> run) {
    run.insert(run.end(), nowhere.begin(), nowhere.end());
    const auto said = weft(run);
    return fmt::format("{}: {}", said.status, said.err);
  };
  const auto cells = refusal({"run", grid, "--tokens", "100"});
  EXPECT_NE(cells.find("k has 100 tokens; the pattern's grid has 64 cells"), std::string::npos) << cells;
  EXPECT_EQ(cells.substr(0, 2), "1:");
  const auto queries = refusal({"run", late, "--tokens", "1", "--keys", "100"});
  EXPECT_NE(queries.find("neighborhood needs as many queries as keys"), std::string::npos) << queries;
  EXPECT_EQ(refusal({"run", grid, "--tokens", "64"}).substr(0, 2), "3:") << "the control";
}

TEST_F(Commands, NoCompileWantsAStoredKernel) {
  EXPECT_EQ(weft({"run", window_, "--tokens", "64", "--no-compile"}).status, 3);
  EXPECT_EQ(weft({"run", window_, "--tokens", "64"}).status, 0);
  EXPECT_EQ(weft({"run", window_, "--tokens", "64", "--no-compile"}).status, 0);
}

TEST_F(Commands, RunWritesTheSameBytesForAnyThreads) {
  const std::vector<std::string> run = {"run", longnet_, "--tokens", "200", "--lse", scratch_.path("l.npy")};
  for (const auto* threads : {"1", "2", "3"}) {
    const auto name = std::string("o") + threads + ".npy";
    auto arguments = run;
    arguments.insert(arguments.end(), {"--threads", threads, "-o", scratch_.path(name)});
    EXPECT_EQ(weft(arguments, small_).status, 0);
    EXPECT_EQ(read(name), read("o1.npy"));
  }
  EXPECT_EQ(read("o1.npy").size(), 128u + 200 * 8 * 16 * 4);
  EXPECT_EQ(read("l.npy").substr(1, 5), "NUMPY");
}

/// What `random` and `top` chose, one file each, and checked by the choice that was made.
TEST_F(Commands, ListsAreWrittenAndChecked) {
  const auto file = scratch_.write(
      "adaptive.weft",
      "pattern p { heads 2; dim 16; keep blocks(16, random(1, seed: 4) | top(2, by: pooled)) & causal; }");
  for (const auto* target : {"cpu", "emulate:sm_61"}) {
    const auto prefix = std::string("chosen-") + target;
    const auto report =
        json({"run", file, "--tokens", "100", "--check", "--target", target, "--lists", scratch_.path(prefix)});
    EXPECT_EQ(report["check"]["ok"], true);
    EXPECT_EQ(report["check"]["lists"], 2);
    EXPECT_EQ(report["check"]["wrong_choice"], nullptr);
    ASSERT_EQ(report["lists"].size(), 2u);
    EXPECT_EQ(report["lists"][0]["set"], "blocks(16, random(1, seed: 4))");
    EXPECT_EQ(report["lists"][1]["set"], "blocks(16, top(2, by: pooled, causal: true))");
    EXPECT_EQ(report["lists"][1]["shape"], Json({1, 2, 7, 2}));
    EXPECT_EQ(report["lists"][1]["first_row"], 0);
    EXPECT_EQ(report["lists"][1]["file"], scratch_.path(prefix + ".1.npy"));
    EXPECT_EQ(read(prefix + ".0.npy"), read("chosen-cpu.0.npy"));
    EXPECT_EQ(read(prefix + ".1.npy"), read("chosen-cpu.1.npy"));
    EXPECT_NE(read(prefix + ".1.npy").find("'<i4', 'fortran_order': False, 'shape': (1, 2, 7, 2)"), std::string::npos);
  }
  const auto none = weft({"run", window_, "--tokens", "64", "--lists", scratch_.path("none")});
  EXPECT_EQ(none.status, 1);
  EXPECT_NE(none.err.find("no 'random' and no 'top'"), std::string::npos) << none.err;
}

TEST_F(Commands, LayoutsAgree) {
  const auto rows = npy_f32({1, 24, 1, 16}), heads = npy_f32({1, 1, 24, 16});  // the same bytes: there is one head
  for (auto [name, bytes, layout] : {std::tuple{"bnhd", rows, "bnhd"}, std::tuple{"bhnd", heads, "bhnd"}}) {
    const auto x = scratch_.write(std::string(name) + ".npy", bytes);
    const auto finished = weft({"run", window_, "--q", x, "--k", x, "--v", x, "--layout", layout, "-o",
                                scratch_.path(std::string("o-") + name), "--check"});
    EXPECT_EQ(finished.status, 0) << finished.err;
  }
  EXPECT_EQ(read("o-bnhd").substr(128), read("o-bhnd").substr(128));
}

TEST_F(Commands, InterpreterTakesDoubles) {
  std::string bytes(8 * 2 * 8 * 8, '\0');
  const auto x = scratch_.write("x.npy", npy("<f8", {1, 8, 2, 8}, bytes));
  const auto finished =
      weft({"run", window_, "--q", x, "--k", x, "--v", x, "--target", "interpreter", "-o", scratch_.path("o.npy")});
  EXPECT_EQ(finished.status, 0) << finished.err;
  EXPECT_NE(read("o.npy").find("<f8"), std::string::npos);
}

TEST_F(Commands, CheckAcceptsTheCorpus) {
  std::vector<std::string> arguments = {"check"};
  for (const auto& entry : std::filesystem::directory_iterator(test::in_checkout("tests/patterns"))) {
    arguments.push_back(entry.path().string());
  }
  ASSERT_GT(arguments.size(), 3u);
  EXPECT_EQ(weft(arguments).status, 0);
  const auto report = json(arguments);
  EXPECT_TRUE(report["ok"]);
  expect_keys(report["files"][0], {"/file", "/ok", "/patterns", "/interpreter_only", "/diagnostics"});
}

TEST_F(Commands, CheckReportsPlaces) {
  const auto path = scratch_.write("p.weft", "pattern p {\n  keep causl;\n}\n");
  const auto finished = weft({"check", path, "--json"});
  EXPECT_EQ(finished.status, 1);
  const auto report = Json::parse(finished.out);
  EXPECT_FALSE(report["ok"]);
  const auto& found = report["files"][0]["diagnostics"][0];
  EXPECT_EQ(found["severity"], "error");
  EXPECT_EQ(found["line"], 2);
  EXPECT_EQ(found["column"], 8);
}

TEST_F(Commands, FmtIsStable) {
  const auto path = scratch_.write("p.weft", "pattern   p{keep causal;# why\n}");
  EXPECT_EQ(weft({"fmt", "--check", path}).status, 1);
  EXPECT_EQ(weft({"fmt", path}).status, 0);
  EXPECT_EQ(weft({"fmt", "--check", path}).status, 0);
  EXPECT_NE(read("p.weft").find("# why"), std::string::npos);
  const auto piped = run_weft(scratch_, Call{.arguments = {"fmt", "-"}, .input = "pattern   p{keep causal;# why\n}"});
  EXPECT_EQ(piped.out, read("p.weft"));
}

TEST_F(Commands, DrawShowsTheMask) {
  const auto shown = weft({"draw", window_, "-D", "width=4", "--tokens", "8", "--color", "never"});
  EXPECT_EQ(shown.status, 0) << shown.err;
  EXPECT_NE(shown.out.find("keys across 0..7"), std::string::npos);
  EXPECT_NE(shown.out.find("█"), std::string::npos);
  EXPECT_EQ(shown.out.find("\x1b["), std::string::npos);
  EXPECT_NE(weft({"draw", window_, "--color", "always"}).out.find("\x1b["), std::string::npos);
  // A single pair more must show.
  EXPECT_NE(weft({"draw", window_, "-D", "width=5", "--tokens", "8", "--color", "never"}).out, shown.out);
}

TEST_F(Commands, DrawGrid) {
  const auto grid = json({"draw", window_, "-D", "width=2", "--tokens", "3"});
  EXPECT_EQ(grid["density"], Json({1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0}));
  const auto joint = json({"draw", longnet_, "-D", "segments=[2,4]", "-D", "rates=[1,1]", "--tokens", "4"});
  EXPECT_EQ(joint["multiplicity"],
            Json({2.0, 0.0, 0.0, 0.0, 2.0, 2.0, 0.0, 0.0, 1.0, 1.0, 2.0, 0.0, 1.0, 1.0, 2.0, 2.0}));
}

TEST_F(Commands, DrawIntoFiles) {
  EXPECT_EQ(weft({"draw", longnet_, "-o", scratch_.path("m.svg"), "--tiles"}, small_).status, 0);
  EXPECT_EQ(read("m.svg").substr(0, 4), "<svg");
  EXPECT_EQ(weft({"draw", longnet_, "-o", scratch_.path("m.png")}, small_).status, 0);
  EXPECT_EQ(read("m.png").substr(0, 8), "\x89PNG\r\n\x1a\n");
}

TEST_F(Commands, ExplainCounts) {
  const auto report = json({"explain", window_, "-D", "width=2", "--tokens", "256", "--heads", "3", "--dim", "32"});
  expect_keys(report, {"/pairs", "/density", "/tiles/empty", "/tiles/partial", "/tiles/full", "/flops",
                       "/executed_flops", "/bytes", "/plan_us", "/registers", "/spill_bytes", "/shared_bytes",
                       "/predicted/ms", "/predicted/from", "/predicted/share_of_peak"});
  EXPECT_EQ(report["pairs"], 3 * (2 * 256 - 1));
  EXPECT_EQ(report["flops"], 3 * (2 * 256 - 1) * 2 * 64);
  EXPECT_GE(report["executed_flops"], report["flops"]);
  EXPECT_TRUE(report["registers"].is_null());
  EXPECT_EQ(report["predicted"]["from"], "model");
}

TEST_F(Commands, ExplainSaysNullWhereInputsDecide) {
  const auto path = scratch_.write("p.weft", "pattern p { input n: i32[batch]; keep lengths(n); }\n");
  const auto open = json({"explain", path, "--tokens", "64", "--batch", "2"});
  EXPECT_TRUE(open["pairs"].is_null());
  std::string lengths;
  for (std::int32_t n : {10, 64}) lengths.append(reinterpret_cast<const char*>(&n), 4);
  const auto file = scratch_.write("n.npy", npy("<i4", {2}, lengths));
  const auto given = json({"explain", path, "--tokens", "64", "--batch", "2", "--heads", "1", "--input", "n=" + file});
  EXPECT_EQ(given["pairs"], 10 * 10 + 64 * 64);
}

TEST_F(Commands, EmitEveryStage) {
  for (const auto* stage : {"ast", "pattern", "plan", "llvm", "asm"}) {
    const auto finished = weft({"emit", longnet_, "--stage", stage}, small_);
    EXPECT_EQ(finished.status, 0) << stage << finished.err;
    EXPECT_GT(finished.out.size(), 100u) << stage;
  }
  EXPECT_EQ(weft({"emit", longnet_, "--stage", "object", "-o", scratch_.path("k.o")}, small_).status, 0);
  EXPECT_EQ(read("k.o").substr(1, 3), "ELF");
}

TEST_F(Commands, EmitWhatFewQueriesCall) {
  const auto text = weft({"emit", longnet_, "--stage", "llvm", "--few"}, small_).out;
  EXPECT_NE(text.find("@few_block("), std::string::npos);
  EXPECT_EQ(weft({"emit", longnet_, "--stage", "llvm"}, small_).out.find("@few_block("), std::string::npos);
  EXPECT_GT(weft({"emit", longnet_, "--stage", "asm", "--few"}, small_).out.size(), 100u);
  EXPECT_EQ(weft({"emit", longnet_, "--stage", "plan", "--few"}, small_).status, 2);
  const auto none = weft({"emit", longnet_, "--stage", "llvm", "--few", "--dim", "12"});
  EXPECT_EQ(none.status, 1);
  EXPECT_NE(none.err.find("multiples of"), std::string::npos) << none.err;
  // On a GPU it stands in the other's place.
  const auto cuda = [&](std::vector<std::string> more) {
    std::vector<std::string> all = {"emit", longnet_, "--stage", "cuda", "--target", "sm_61"};
    all.insert(all.end(), more.begin(), more.end());
    return weft(all, small_);
  };
  EXPECT_EQ(cuda({}).out.find("merge.cuh"), std::string::npos);
  EXPECT_NE(cuda({"--few"}).out.find("merge.cuh"), std::string::npos);
  const auto backward = cuda({"--few", "--grad"});
  EXPECT_EQ(backward.status, 1);
  EXPECT_NE(backward.err.find("forward passes alone"), std::string::npos) << backward.err;
}

TEST_F(Commands, EmitWhatDecodingCalls) {
  const auto dense = scratch_.write("dense.weft", "pattern dense { keep causal; }");
  const auto emit = [&](std::vector<std::string> more) {
    std::vector<std::string> all = {"emit", dense, "--target", "sm_80", "--dim", "64", "--dtype", "f16"};
    all.insert(all.end(), more.begin(), more.end());
    return weft(all);
  };
  const auto whole = emit({"--stage", "cuda", "--whole", "--decoding"});
  EXPECT_NE(whole.out.find("constexpr int kRows = 16;"), std::string::npos);
  EXPECT_NE(whole.out.find("weft_merge("), std::string::npos);
  // A plan brings it along.
  EXPECT_EQ(emit({"--stage", "plan", "-o", scratch_.path("decoding.txt")}).status, 0);
  const auto plan = scratch_.path("decoding.txt");
  EXPECT_EQ(weft({"emit", "--from", plan, "--stage", "cuda", "--whole", "--decoding", "--target", "sm_80"}).out,
            whole.out);
  EXPECT_EQ(emit({"--stage", "plan", "--decoding"}).status, 2);
  EXPECT_EQ(emit({"--stage", "cuda", "--decoding", "--few"}).status, 2);
  const auto none = emit({"--stage", "cuda", "--decoding", "--grad"});
  EXPECT_EQ(none.status, 1);
  EXPECT_NE(none.err.find("--decoding: dense has no text of its own for it"), std::string::npos) << none.err;
}

TEST_F(Commands, EmitFromAPlan) {
  EXPECT_EQ(weft({"emit", longnet_, "--stage", "plan", "-o", scratch_.path("plan.txt")}, small_).status, 0);
  const auto direct = weft({"emit", longnet_, "--stage", "llvm"}, small_);
  EXPECT_EQ(weft({"emit", "--from", scratch_.path("plan.txt"), "--stage", "llvm"}).out, direct.out);
  scratch_.write("plan.txt", read("plan.txt").substr(0, 100));
  EXPECT_EQ(weft({"emit", "--from", scratch_.path("plan.txt"), "--stage", "llvm"}).status, 1);
}

TEST_F(Commands, PatternStageIsAPatternAgain) {
  const auto text = weft({"emit", longnet_, "--stage", "pattern"}, small_).out;
  const auto path = scratch_.write("again.weft", text);
  EXPECT_EQ(weft({"emit", path, "--stage", "pattern"}).out, text);
}

TEST_F(Commands, BenchReports) {
  const auto report = json({"bench", window_, "--tokens", "256,1k", "--against", "dense"});
  ASSERT_EQ(report["results"].size(), 4u);
  for (const auto& row : report["results"]) {
    expect_keys(row, {"/tokens", "/batch", "/heads", "/dim", "/dtype", "/threads", "/median_ms", "/min_ms", "/pairs",
                      "/flops", "/flops_per_s", "/peak_flops_per_s", "/share_of_peak", "/tokens_per_s", "/peak_bytes",
                      "/plan_us", "/spread", "/noisy"});
    EXPECT_GT(row["share_of_peak"], 0);
    EXPECT_LE(row["min_ms"], row["median_ms"]);
  }
  EXPECT_EQ(report["results"][2]["tokens"], 1024);
  EXPECT_EQ(report["results"][3]["pairs"], 8.0 * 1024 * 1024);
}

TEST_F(Commands, KeysFarApartAreForeseen) {
  const auto foreseen = [&](const std::string& layout) {
    return json({"explain", window_, "--tokens", "1k", "--heads", "16", "--dim", "64", "--dtype", "f32", "--target",
                 "cpu:x86-64-v3", "--layout", layout})["predicted"];
  };
  const auto apart = foreseen("bnhd"), together = foreseen("bhnd");
  EXPECT_LT(apart["loop_share"], together["loop_share"]);
  EXPECT_NE(apart["assumed"], together["assumed"]);
  EXPECT_EQ(json({"bench", window_, "--tokens", "256", "--layout", "bhnd"})["results"].size(), 1u);
  EXPECT_EQ(weft({"bench", window_, "--tokens", "256", "--layout", "hbnd"}).status, 2);
}

TEST_F(Commands, FewQueriesCostTheirProductsAndTheReading) {
  const auto dense = scratch_.write("dense.weft", "pattern dense { }\n");
  const auto foreseen = [&](const std::string& queries) {
    return json({"explain", dense, "--tokens", queries, "--keys", "64k", "--heads", "32", "--kv-heads", "8", "--dim",
                 "128", "--dtype", "f32", "--target", "cpu:x86-64-v3", "--layout", "bhnd"});
  };
  const auto assumed = [](const Json& report) { return report["predicted"]["assumed"].get<std::string>(); };
  const auto said = [&](const Json& report, const std::string& unit) {
    const auto text = assumed(report);
    const auto end = text.find(" " + unit);
    return end == std::string::npos ? 0 : 1e9 * std::stod(text.substr(text.rfind(' ', end - 1)));
  };
  const auto few = foreseen("4");
  ASSERT_NE(assumed(few).find("GB/s, as just measured"), std::string::npos) << assumed(few);
  const double products = few["executed_flops"].get<double>() / said(few, "GFLOP/s");
  const double reading = few["bytes"].get<double>() / said(few, "GB/s");
  EXPECT_GT(few["predicted"]["ms"], 0.95e3 * (products + reading)) << assumed(few);
  EXPECT_EQ(assumed(foreseen("64")).find("GB/s, as just measured"), std::string::npos);
}

TEST_F(Commands, ExplainSaysWhatALaunchRuns) {
  const auto top = scratch_.write("top.weft", "pattern top { keep blocks(64, top(3, by: pooled)) & causal; }\n");
  const std::vector<std::string> explain = {"explain", top,  "--tokens", "1k",  "--heads",  "2",
                                            "--dim",   "64", "--dtype",  "f32", "--target", "cpu:x86-64"};
  const auto report = json(explain);
  const auto& launches = report["launches"];
  ASSERT_EQ(launches.size(), 3U) << launches;
  const auto is = [&](std::size_t at, const char* does, int blocks) {
    EXPECT_EQ(launches[at]["does"], does);
    EXPECT_EQ(launches[at]["number"], 0);
    EXPECT_EQ(launches[at]["blocks"], blocks) << does;
  };
  is(0, "pool", 2 * 16);    // blocks of keys of both heads
  is(1, "fill", 2 * 2);     // … and eights of blocks of rows, which choose
  is(2, "attend", 2 * 16);  // tiles of 64 rows
  const auto text = weft(explain).out;
  EXPECT_NE(text.find("  a launch runs: pool 32, fill 4, attend 32 units of work\n"), std::string::npos) << text;
}

TEST_F(Commands, ExplainSaysWhichHeadsShareATile) {
  const auto dense = scratch_.write("dense.weft", "pattern dense { }\n");
  const auto explain = [&](const std::string& queries) {
    return std::vector<std::string>{"explain", dense,        "--tokens", queries,    "--keys",     "1k",      "--heads",
                                    "8",       "--kv-heads", "2",        "--target", "cpu:x86-64", "--dtype", "f32"};
  };
  EXPECT_EQ(json(explain("1"))["heads_per_tile"], 4);
  EXPECT_EQ(json(explain("17"))["heads_per_tile"], 1) << "68 rows are more than a tile";
  EXPECT_NE(weft(explain("1")).out.find("  rows of 4 heads, which share K and V, in one tile\n"), std::string::npos);
  EXPECT_EQ(weft(explain("17")).out.find("which share K and V"), std::string::npos);
}

TEST_F(Commands, CacheWords) {
  EXPECT_EQ(weft({"cache", "path"}).out.find(scratch_.path(".store")), 0u);
  EXPECT_EQ(json({"cache", "stat"})["entries"], 0);
  EXPECT_FALSE(json({"cache", "why", window_})["stored"]);
  EXPECT_EQ(weft({"run", window_, "--tokens", "32"}).status, 0);
  EXPECT_TRUE(json({"cache", "why", window_})["stored"]);
  EXPECT_EQ(json({"cache", "stat"})["entries"], 1) << "its note is no kernel";
  const auto listed = json({"cache", "ls"})["entries"];
  ASSERT_EQ(listed.size(), 1u);
  EXPECT_EQ(listed[0]["pattern"], "window");
  EXPECT_EQ(listed[0]["dim"], 64);
  EXPECT_EQ(listed[0]["dtype"], "f32");
  EXPECT_EQ(listed[0]["target"].get<std::string>().find("cpu"), 0u);
  const auto why = json({"cache", "why", window_, "--dim", "48"});
  EXPECT_FALSE(why["stored"]);
  EXPECT_EQ(why["outcome"], "absent");
  EXPECT_EQ(why["nearest"].get<std::string>().size(), 64u);
  ASSERT_GE(why["differences"].size(), 1u);
  EXPECT_EQ(why["differences"][0]["field"], "source");
  EXPECT_NE(why["differences"][0]["wanted"], why["differences"][0]["stored"]);
  EXPECT_EQ(why["plan"]["wanted"].get<std::string>().find("bind d 48"), 0u);
  EXPECT_EQ(why["plan"]["stored"].get<std::string>().find("bind d 64"), 0u);
  EXPECT_EQ(json({"cache", "verify"})["good"], 1);
  EXPECT_EQ(weft({"cache", "prune"}).status, 0);
  EXPECT_EQ(json({"cache", "stat"})["entries"], 1);
  EXPECT_EQ(weft({"cache", "clear"}).status, 0);
  EXPECT_EQ(json({"cache", "stat"})["entries"], 0);
}

TEST_F(Commands, TargetsAndDoctor) {
  const auto targets = json({"targets"});
  std::size_t chosen = 0;
  for (const auto& row : targets["targets"]) {
    expect_keys(row, {"/name", "/usable", "/reason"});
    chosen += row["default"] ? 1U : 0U;
  }
  EXPECT_EQ(chosen, 1u);
  const auto doctor = json({"doctor"});
  ASSERT_GE(doctor["items"].size(), 3u);
  std::set<std::string> transports = {"mpi", "nccl"};
  for (const auto& row : doctor["items"]) {
    expect_keys(row, {"/name", "/usable", "/reason"});
    if (transports.erase(row["name"]) > 0 && !row["usable"]) {
      EXPECT_NE(row["mend"], "");
    }
  }
  EXPECT_TRUE(transports.empty()) << "how rings travel";
}

// The form of a bf16 kernel is a fact of the machine, which doctor shows; a schedule overrules it. Looking writes
// nothing, running keeps it.
TEST_F(Commands, Bf16IsMultipliedAsWasMeasured) {
  const auto doctor = json({"doctor"})["items"][0];
  ASSERT_EQ(doctor["name"], "cpu");
  const std::vector<std::string> bf16 = {"--dim", "16", "--dtype", "bf16", "--heads", "1", "--tokens", "64"};
  const auto explained = json({"explain", window_, "--target", "cpu"}, bf16);
  EXPECT_TRUE(json({"explain", window_, "--target", "cpu", "--dim", "16", "--dtype", "f32"})["bf16"].is_null());
  EXPECT_EQ(json({"cache", "stat"})["entries"], 0) << "looking keeps nothing";
  const auto table = json({"explain", window_, "--target", "cpu:sapphirerapids"}, bf16)["bf16"];
  if (doctor["bf16"].is_null()) {
    EXPECT_TRUE(explained["bf16"].is_null());
    GTEST_SKIP() << "this processor has no vdpbf16ps";
  }
  EXPECT_EQ(explained["bf16"]["from"], "measured");
  EXPECT_EQ(explained["bf16"]["products"], doctor["bf16"]["products"]);
  EXPECT_NEAR(explained["bf16"]["dot_rate"].get<double>(), doctor["bf16"]["dot_rate"].get<double>(), 0.6);
  EXPECT_NE(explained["reasons"][0].get<std::string>().find("measured here"), std::string::npos);
  EXPECT_EQ(table["products"], "widened");

  EXPECT_EQ(json({"run", window_, "--target", "cpu", "--check"}, bf16)["check"]["ok"], true);
  EXPECT_EQ(json({"cache", "stat"})["entries"], 1) << "a kernel; the rate is none";
  const auto kept = json({"explain", window_, "--target", "cpu"}, bf16)["bf16"];
  EXPECT_EQ(kept, json({"doctor"})["items"][0]["bf16"]) << "the same record";

  std::vector<double> costs;  // of a product that is executed, in FMAs
  for (const auto& [number, form] : {std::pair{"1", "widened"}, {"2", "pairs"}}) {
    const auto schedule = "schedule { products: " + std::string(number) + "; }";
    const auto path = scratch_.write("forced.weft", "pattern forced { keep window(9, 0); " + schedule + " }");
    const auto forced = json({"explain", path, "--target", "cpu"}, bf16);
    EXPECT_EQ(forced["bf16"]["products"], form);
    costs.push_back(1 / forced["predicted"]["loop_share"].get<double>());
    EXPECT_EQ(json({"run", path, "--target", "cpu", "--check"}, bf16)["check"]["ok"], true) << form;
    const auto text = weft({"emit", path, "--stage", "llvm", "--target", "cpu", "--dim", "16", "--dtype", "bf16"}).out;
    EXPECT_EQ(text.find("dpbf16ps") != std::string::npos, form == std::string("pairs"));
  }
  EXPECT_NEAR(costs[0] - costs[1], 1 - 1 / kept["dot_rate"].get<double>(), 1e-9);

  const auto last = json({"tune", window_, "--threads", "1"}, bf16)["/results/0/tried"_json_pointer].back()["schedule"];
  EXPECT_EQ(last, Json({{"products", kept["products"] == "pairs" ? 1 : 2}})) << "the other form is tried";
}

TEST_F(Commands, StandardInputIsAFile) {
  const auto finished =
      run_weft(scratch_, Call{.arguments = {"emit", "-", "--stage", "pattern"}, .input = "pattern p { }"});
  EXPECT_EQ(finished.status, 0) << finished.err;
  EXPECT_NE(finished.out.find("pattern p"), std::string::npos);
}

TEST_F(Commands, ResultsAndRemarksUseTheirStreams) {
  const auto finished = weft({"run", window_, "--tokens", "32"});
  EXPECT_NE(finished.err.find("8 heads, dim 64, f32, batch 1"), std::string::npos);
  EXPECT_EQ(finished.out.find("not given"), std::string::npos);
  EXPECT_EQ(weft({"run", window_, "--tokens", "32", "--quiet"}).err, "");
}

TEST_F(Commands, TuneKeepsWhatEverybodyThenUses) {
  const std::vector<std::string> sizes = {"--tokens", "128", "--heads", "2", "--dim", "8", "--dtype", "f32"};
  const auto report = json({"tune", window_, "--threads", "1"}, sizes);
  const auto& result = report["/results/0"_json_pointer];
  expect_keys(result,
              {"/pattern", "/tried/0/median_ms", "/tried/1/schedule/tile_k", "/best", "/speedup", "/planner_ms"});
  EXPECT_GT(result["tried"].size(), 5U);
  EXPECT_EQ(result["kept"], !result["best"].empty()) << "the planner's own choice needs no note";
  EXPECT_TRUE(result["best"].empty() || !result["noisy"].get<bool>());
  const auto explained = weft({"explain", window_}, sizes).out;
  for (const auto& [key, value] : result["best"].items()) {
    EXPECT_NE(explained.find(key + " " + value.dump() + ": found by weft tune"), std::string::npos) << explained;
  }
  EXPECT_EQ(explained.find("found by weft tune") != std::string::npos, !result["best"].empty());
  EXPECT_EQ(weft({"tune", window_, "--no-cache"}, sizes).out.find("kept in"), std::string::npos);
}

TEST_F(Commands, TuneLeavesWrittenSchedulesAlone) {
  std::ofstream(scratch_.path("own.weft")) << "pattern own { keep causal; schedule { tile_k: 32; } }";
  const auto refused = weft({"tune", scratch_.path("own.weft"), "--dim", "8", "--dtype", "f32"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_NE(refused.err.find("schedule of its own"), std::string::npos) << refused.err;
}

}  // namespace
}  // namespace weft::test
