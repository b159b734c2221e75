#include "tests/bundle/command.h"

#include <filesystem>

/// `weft bundle build`: what goes in, that the bytes depend on nothing else, and what is left of an interrupted one.
namespace weft::test {
namespace {

namespace fs = std::filesystem;

class BundleBuild : public Commands {
 protected:
  std::vector<std::string> names(const std::string& bundle) const {
    std::vector<std::string> out;
    const auto listed = json({"bundle", "ls", path(bundle)});
    for (const auto& kernel : listed["kernels"]) {
      out.push_back(kernel["pattern"].get<std::string>() + ", " + kernel["variant"].get<std::string>() + ", " +
                    kernel["target"].get<std::string>());
    }
    return out;
  }
  nlohmann::json json_of(std::vector<std::string> arguments) const {
    return nlohmann::json::parse(weft(std::move(arguments)).out, nullptr, false);
  }
  void built_of(const std::string& record, const std::string& bundle) const {
    const auto made = weft({"bundle", "build", "-o", path(bundle), "--from-record", record});
    ASSERT_EQ(made.status, 0) << made.err;
  }
};

/// Finished kernels; names of unfinished ones start with `tmp-`.
int entries_in(const std::string& folder) {
  int count = 0;
  std::error_code none;
  for (const auto& entry : fs::recursive_directory_iterator(folder, none)) {
    count += entry.is_regular_file() && entry.path().filename().string().size() == 62;
  }
  return count;
}

TEST_F(BundleBuild, MakesTheProduct) {
  const auto report = json(build("x.wfb", {"--target", "cpu:x86-64,cpu:x86-64-v3", "--dim", "32"}));
  EXPECT_EQ(report["kernels"], 24);
  EXPECT_EQ(report["binaries"], 16) << "near and nearer are one kernel";
  EXPECT_EQ(report["compiled"], 16);
  EXPECT_EQ(names("x.wfb")[0], "near, f32, dim 16, cpu:x86-64");
  EXPECT_EQ(names("x.wfb")[23], "rings, f32, dim 32, few queries, cpu:x86-64-v3");
  EXPECT_EQ(scratch_.files(), (std::vector<std::string>{"p.weft", "x.wfb"})) << "nothing is left beside the bundle";
}

TEST_F(BundleBuild, MayLeaveOutFewQueries) {
  built("x.wfb", {"--no-few"});
  EXPECT_EQ(names("x.wfb"),
            (std::vector<std::string>{"near, f32, dim 16, cpu:x86-64", "nearer, f32, dim 16, cpu:x86-64",
                                      "rings, f32, dim 16, cpu:x86-64"}));
}

TEST_F(BundleBuild, OptionsPassOverWhatAPatternFixes) {
  const auto fixed = scratch_.write("fixed.weft", "pattern fixed { dim 32; dtype f16; keep causal; }\n");
  const auto open = scratch_.write("open.weft", "pattern open { keep causal; }\n");
  const auto made = weft({"bundle", "build", "-o", path("x.wfb"), fixed, open, "--target", "cpu:x86-64-v3", "--dim",
                          "16,64", "--dtype", "f32", "--no-few"});
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_EQ(names("x.wfb"),
            (std::vector<std::string>{"fixed, f16, dim 32, cpu:x86-64-v3", "open, f32, dim 16, cpu:x86-64-v3",
                                      "open, f32, dim 64, cpu:x86-64-v3"}));
}

TEST_F(BundleBuild, SaysWhatIsOpen) {
  const auto says = [&](std::vector<std::string> arguments, const char* what, int status) {
    arguments.insert(arguments.begin(), {"bundle", "build"});
    const auto finished = weft(arguments);
    EXPECT_EQ(finished.status, status) << finished.err;
    EXPECT_NE(finished.err.find(what), std::string::npos) << finished.err;
    EXPECT_EQ(scratch_.files(), std::vector<std::string>{"p.weft"});
  };
  const auto out = path("x.wfb");
  says({"-o", out, patterns_, "--target", "cpu", "--dim", "16"}, "pattern 'near' leaves dtype open", 1);
  says({"-o", out, patterns_, "--target", "cpu", "--dtype", "f32"}, "pattern 'near' leaves dim open", 1);
  says({"-o", out, patterns_, "--dim", "16", "--dtype", "f32"}, "--target is missing", 2);
  says({patterns_, "--target", "cpu"}, "-o is missing", 2);
  says({"-o", out, "--target", "cpu"}, "FILE is missing", 2);
  says({"-o", out, patterns_, "--target", "cpu", "--dim", "16", "--dtype", "f64"}, "f32, f16 or bf16", 2);
  says({"-o", out, patterns_, "--target", "cpu,cpv", "--dim", "16", "--dtype", "f32"}, "cpv", 2);
  says({"-o", out, patterns_, "--target", "interpreter", "--dim", "16", "--dtype", "f32"}, "CPUs and GPUs", 1);
  says({"-o", out, patterns_, "--target", "cpu", "--dim", "16", "--dtype", "f32", "-D", "wdth=3"},
       "no pattern has this parameter", 1);
  says({"-o", out, patterns_, "--target", "cpu", "--dim", "16", "--dtype", "f32", "--pattern", "far"},
       "no file has a pattern 'far'", 1);
}

TEST_F(BundleBuild, ParametersGoToThePatternsThatHaveThem) {
  built("x.wfb", {"-D", "width=32", "--no-few"});
  EXPECT_EQ(names("x.wfb"),
            (std::vector<std::string>{"near, f32, dim 16, width=32, cpu:x86-64", "nearer, f32, dim 16, cpu:x86-64",
                                      "rings, f32, dim 16, cpu:x86-64"}));
}

TEST_F(BundleBuild, IsReproducible) {
  const auto other = scratch_.write("q.weft", "pattern q { keep window(4, 4); }\n");
  built("one.wfb", {"--target", "cpu:x86-64,cpu:x86-64-v3", other, "--jobs", "1"});
  const auto one = contents(path("one.wfb"));
  // Another order, folder, name of the file, number of jobs, locale and home.
  fs::create_directories(path("a folder/deep"));
  fs::copy(patterns_, path("a folder/deep/moved.weft"));
  const auto two = path("a folder/two.wfb");
  const auto finished = weft({"bundle", "build", "--dim", "16", "--jobs", "3", "--target", "cpu:x86-64-v3", other,
                              "--target", "cpu:x86-64", path("a folder/deep/moved.weft"), "--dtype", "f32", "-o", two},
                             {{"LC_ALL", "de_DE.UTF-8"}, {"HOME", ""}, {"TZ", "Asia/Tokyo"}, {"WEFT_CACHE_DIR", ""}});
  ASSERT_EQ(finished.status, 0) << finished.err;
  EXPECT_EQ(contents(two), one);
  EXPECT_EQ(weft({"bundle", "diff", path("one.wfb"), two}).status, 0);
  // The control: one kernel fewer.
  built("less.wfb", {"--target", "cpu:x86-64,cpu:x86-64-v3"});
  EXPECT_NE(contents(path("less.wfb")), one);
}

/// SIGINT and SIGKILL after several kernels: no bundle yet, and what was finished is not made again. How many are
/// finished tells when, not a clock: the last signal must come well before the end on every machine.
TEST_F(BundleBuild, GoesOnAfterAnInterruption) {
  std::vector<std::string> dims = {"--dim", "32", "--dim", "48", "--dim",  "64",
                                   "--dim", "80", "--dim", "96", "--jobs", "1"};
  built("whole.wfb", dims);
  const auto whole = contents(path("whole.wfb"));
  int kept = 0;
  for (const bool kill : {false, true, false, true, true}) {
    const auto more = [&] { return entries_in(path("x.wfb.partial")) > kept; };
    const auto stopped =
        run_weft(scratch_, Call{.arguments = build("x.wfb", dims), .interrupt_when = more, .kill = kill});
    EXPECT_EQ(stopped.status, kill ? 128 + 9 : 130);
    EXPECT_FALSE(fs::exists(path("x.wfb")));
    kept = entries_in(path("x.wfb.partial"));
  }
  EXPECT_GE(kept, 5);
  const auto report = json(build("x.wfb", dims));
  EXPECT_EQ(contents(path("x.wfb")), whole);
  EXPECT_FALSE(fs::exists(path("x.wfb.partial")));
  EXPECT_EQ(report["resumed"], kept);
  EXPECT_EQ(report["compiled"], 24 - kept);
}

/// What one pattern lacks costs the others nothing: they are kept for the next time, or go in without it.
TEST_F(BundleBuild, FailuresAreNamed) {
  const auto bad = scratch_.write("bad.weft", "pattern bad { dim 4096; keep causal; }\n");
  const auto strict = weft(build("x.wfb", {bad}));
  EXPECT_EQ(strict.status, 1);
  EXPECT_NE(strict.err.find("dim 4096"), std::string::npos) << strict.err;
  EXPECT_FALSE(fs::exists(path("x.wfb")));
  const auto lenient = weft(build("x.wfb", {bad, "--keep-going"}));
  EXPECT_EQ(lenient.status, 0) << lenient.err;
  EXPECT_NE(lenient.err.find("left out: " + bad + ": bad for cpu:x86-64"), std::string::npos) << lenient.err;
  EXPECT_EQ(names("x.wfb").size(), 6U);
}

TEST_F(BundleBuild, AddsToABundle) {
  built("x.wfb");
  const auto before = names("x.wfb");
  built("x.wfb", {"--pattern", "rings", "--dim", "32", "--add"});
  const auto after = names("x.wfb");
  EXPECT_EQ(after.size(), before.size() + 2);  // dim 16 is there already
  built("x.wfb", {"--pattern", "rings"});
  EXPECT_EQ(names("x.wfb").size(), 2U) << "without --add the bundle is another";
}

TEST_F(BundleBuild, OfARecordIsWhatRan) {
  const auto record = path("kernels.txt");
  for (const auto* pattern : {"near", "rings", "near"}) {
    ASSERT_EQ(weft(run(pattern, {"--target", "cpu:x86-64", "--record", record})).status, 0);
  }
  ASSERT_EQ(weft(run("near", {"--target", "cpu:x86-64", "-D", "width=5", "--record", record})).status, 0);
  fs::remove(patterns_);  // a record is all that is needed
  const auto made = weft({"bundle", "build", "-o", path("x.wfb"), "--from-record", record});
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_EQ(names("x.wfb"),
            (std::vector<std::string>{"near, f32, dim 16, cpu:x86-64", "near, f32, dim 16, few queries, cpu:x86-64",
                                      "near, f32, dim 16, few queries, width=5, cpu:x86-64",
                                      "near, f32, dim 16, width=5, cpu:x86-64", "rings, f32, dim 16, cpu:x86-64",
                                      "rings, f32, dim 16, few queries, cpu:x86-64"}));
  scratch_.write("p.weft", kPatterns);
  EXPECT_EQ(json(run("rings", {"--target", "cpu:x86-64", "--bundle", path("x.wfb"), "--no-compile"}),
                 no_compiler_)["kernel"]["cache"],
            "bundle");
  // What is no record says so.
  const auto wrong = weft({"bundle", "build", "-o", path("y.wfb"), "--from-record",
                           scratch_.write("wrong.txt", contents(record) + "{\"weft_record\":1}\n")});
  EXPECT_EQ(wrong.status, 1);
  EXPECT_NE(wrong.err.find("line 5 is no recorded kernel"), std::string::npos) << wrong.err;
}

/// Both passes of every pattern; a pattern with an LSE of each branch has that in its forward alone.
TEST_F(BundleBuild, GradientsLieBesideForwards) {
  built("forward.wfb", {"--no-few"});
  const auto report = json(build("x.wfb", {"--target", "cpu:x86-64", "--grad", "--no-few"}));
  EXPECT_EQ(report["kernels"], 6);
  EXPECT_EQ(report["binaries"], 4) << "near and nearer are one kernel, in both passes";
  EXPECT_EQ(names("x.wfb"),
            (std::vector<std::string>{"near, f32, dim 16, cpu:x86-64", "near, f32, dim 16, gradient, cpu:x86-64",
                                      "nearer, f32, dim 16, cpu:x86-64", "nearer, f32, dim 16, gradient, cpu:x86-64",
                                      "rings, f32, dim 16, cpu:x86-64", "rings, f32, dim 16, gradient, cpu:x86-64"}));
  const auto difference = json_of({"bundle", "diff", path("forward.wfb"), path("x.wfb"), "--json"});
  EXPECT_EQ(difference["added"].size(), 3U);
  EXPECT_TRUE(difference["removed"].empty() && difference["changed"].empty()) << difference;
  built("x.wfb", {"--target", "cpu:x86-64", "--lse-per-branch", "--grad", "--pattern", "rings", "--no-few"});
  EXPECT_EQ(names("x.wfb"), (std::vector<std::string>{"rings, f32, dim 16, branch lse, cpu:x86-64",
                                                      "rings, f32, dim 16, gradient, cpu:x86-64"}));
}

TEST_F(BundleBuild, GradientsThatNobodyHas) {
  const auto paged = weft(build("x.wfb", {"--target", "cpu", "--grad", "--paged"}));
  EXPECT_EQ(paged.status, 2);
  EXPECT_NE(paged.err.find("--paged and --grad do not go together"), std::string::npos) << paged.err;
  EXPECT_EQ(scratch_.files(), std::vector<std::string>{"p.weft"});
}

TEST_F(BundleBuild, OfARecordHasTheGradientsThatRan) {
  const auto record = path("kernels.txt");
  ASSERT_EQ(weft(run("near", {"--target", "cpu:x86-64", "--record", record})).status, 0);
  ASSERT_EQ(weft(run("rings", {"--target", "cpu:x86-64", "--record", record, "--grad", "ones"})).status, 0);
  built_of(record, "x.wfb");
  EXPECT_EQ(names("x.wfb"),
            (std::vector<std::string>{"near, f32, dim 16, cpu:x86-64", "near, f32, dim 16, few queries, cpu:x86-64",
                                      "rings, f32, dim 16, cpu:x86-64", "rings, f32, dim 16, few queries, cpu:x86-64",
                                      "rings, f32, dim 16, gradient, cpu:x86-64"}));
  // Records of before there were gradients have forwards.
  auto old = contents(record);
  const std::string word = "\"gradient\":false,";
  ASSERT_NE(old.find(word), std::string::npos) << old;
  old.erase(old.find(word), word.size());
  built_of(scratch_.write("old.txt", old), "y.wfb");
  EXPECT_EQ(contents(path("y.wfb")), contents(path("x.wfb")));
}

TEST_F(BundleBuild, CompilesForGpusInWorkers) {
  const auto made = weft(build("x.wfb", {"--target", "sm_61,sm_80", "--pattern", "near", "--no-few"}));
  if (made.status == 3 && made.err.find("NVRTC") != std::string::npos) GTEST_SKIP() << "no NVRTC here";
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_EQ(names("x.wfb").size(), 2U);
  ASSERT_EQ(weft(build("y.wfb", {"--target", "sm_80,sm_61", "--pattern", "near", "--no-few"})).status, 0);
  EXPECT_EQ(contents(path("x.wfb")), contents(path("y.wfb")));
  ASSERT_EQ(weft(build("few.wfb", {"--target", "sm_61", "--pattern", "near"})).status, 0);
  EXPECT_EQ(names("few.wfb"),
            (std::vector<std::string>{"near, f32, dim 16, sm_61", "near, f32, dim 16, few queries, sm_61"}));
  // The control: without the worker program nothing is compiled, so it was a worker that did it.
  const auto lone = weft(build("z.wfb", {"--target", "sm_61"}), {{"WEFT_WORKER", "/nonexistent/weft-compile"}});
  EXPECT_EQ(lone.status, 3) << lone.err;
}

}  // namespace
}  // namespace weft::test
