#include "tests/bundle/command.h"
#include "tests/bundle/pem.h"

#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

/// Bundles at run time, and the words of `weft bundle` that read, join and sign them.
namespace weft::test {
namespace {

namespace fs = std::filesystem;

class BundleUse : public Commands {
 protected:
  bool says(const Finished& finished, const std::string& what) const {
    return finished.err.find(what) != std::string::npos;
  }

  /// The words behind 'weft' of the command that a message advises; none where it advises none.
  static std::vector<std::string> advice_of(const std::string& message) {
    const std::string start = "this adds it: weft ";
    const auto at = message.find(start);
    if (at == std::string::npos) return {};
    std::istringstream line(message.substr(at + start.size(), message.find('\n', at) - at - start.size()));
    std::vector<std::string> command;
    for (std::string word; line >> word;) command.push_back(word);
    return command;
  }
};

TEST_F(BundleUse, GivesTheBytesOfTheCompilerWithoutOne) {
  built("x.wfb", {"--target", "cpu"});
  ASSERT_EQ(weft(run("near", {"--target", "cpu", "-o", path("jit.npy"), "--lse", path("jit_l.npy")})).status, 0);
  const auto from_bundle = run("near", {"--target", "cpu", "-o", path("b.npy"), "--lse", path("b_l.npy"), "--bundle",
                                        path("x.wfb"), "--no-compile"});
  const auto report = json(from_bundle, no_compiler_);
  EXPECT_EQ(report["kernel"]["cache"], "bundle");
  EXPECT_EQ(report["kernel"]["compile_ms"], 0.0);
  EXPECT_EQ(contents(path("b.npy")), contents(path("jit.npy")));
  EXPECT_EQ(contents(path("b_l.npy")), contents(path("jit_l.npy")));
  EXPECT_EQ(json(from_bundle)["kernel"]["cache"], "bundle") << "nothing else is used, though the store has it";
  // The control: without the bundle there is nothing to run.
  EXPECT_EQ(weft(run("near", {"--target", "cpu", "--no-compile"}), no_compiler_).status, 3);
}

TEST_F(BundleUse, TakesTheBestThatTheMachineExecutes) {
  built("x.wfb", {"--target", "cpu:x86-64,cpu:haswell,cpu:x86-64-v3"});
  const auto report = json(run("near", {"--target", "cpu", "--bundle", path("x.wfb"), "--no-compile"}), no_compiler_);
  const auto here = json({"targets"});
  bool v3 = false;
  for (const auto& target : here["targets"]) v3 = v3 || (target["name"] == "cpu:x86-64-v3" && target["usable"] == true);
  EXPECT_EQ(report["target"], v3 ? "cpu:x86-64-v3" : "cpu:x86-64");
  // A target that is named is taken by its name only.
  EXPECT_EQ(json(run("near", {"--target", "cpu:x86-64", "--bundle", path("x.wfb"), "--no-compile"}))["target"],
            "cpu:x86-64");
  built("y.wfb", {"--target", "cpu:haswell"});
  EXPECT_EQ(weft(run("near", {"--target", "cpu:x86-64", "--bundle", path("y.wfb"), "--no-compile"})).status, 3);
}

TEST_F(BundleUse, NamesWhatIsMissingAndTheCommandThatAddsIt) {
  built("x.wfb");
  const auto wanted = run(
      "near", {"--target", "cpu:x86-64", "--dim-v", "32", "-D", "width=9", "--bundle", path("x.wfb"), "--no-compile"});
  const auto missing = weft(wanted, no_compiler_);
  EXPECT_EQ(missing.status, 3);
  EXPECT_TRUE(says(missing, "the kernel 'near' (f32, dim 16, value dim 32) for cpu:x86-64 is not stored"))
      << missing.err;
  EXPECT_TRUE(says(missing, "x.wfb has 6 kernels for cpu:x86-64")) << missing.err;
  const auto command = advice_of(missing.err);
  ASSERT_FALSE(command.empty()) << missing.err;
  const auto added = weft(command);
  ASSERT_EQ(added.status, 0) << added.err;
  EXPECT_EQ(weft(wanted, no_compiler_).status, 0);
  EXPECT_EQ(weft(run("near", {"--target", "cpu:x86-64", "--bundle", path("x.wfb"), "--no-compile"})).status, 0)
      << "what was there before still is";
}

TEST_F(BundleUse, GivesTheBytesOfGradientsWithoutACompiler) {
  built("x.wfb", {"--target", "cpu", "--grad"});
  const auto with = [&](const char* file, std::vector<std::string> more) {
    more.insert(more.end(), {"--target", "cpu", "--grad", "random", "--dk", path(file)});
    return run("rings", std::move(more));
  };
  ASSERT_EQ(weft(with("jit.npy", {})).status, 0);
  const auto report = json(with("b.npy", {"--bundle", path("x.wfb"), "--no-compile"}), no_compiler_);
  EXPECT_EQ(report["kernel"]["cache"], "bundle");
  EXPECT_EQ(report["backward"]["kernel"]["cache"], "bundle");
  EXPECT_EQ(contents(path("b.npy")), contents(path("jit.npy")));
}

/// A bundle of forwards lacks the backward pass; the command that is shown adds it.
TEST_F(BundleUse, NamesTheGradientsThatAreMissing) {
  built("x.wfb");
  const auto wanted =
      run("near", {"--target", "cpu:x86-64", "--bundle", path("x.wfb"), "--no-compile", "--grad", "ones"});
  const auto missing = weft(wanted, no_compiler_);
  EXPECT_EQ(missing.status, 3);
  EXPECT_TRUE(says(missing, "'near' (f32, dim 16, gradient) for cpu:x86-64 is not stored")) << missing.err;
  const auto command = advice_of(missing.err);
  ASSERT_FALSE(command.empty()) << missing.err;
  EXPECT_NE(std::find(command.begin(), command.end(), "--grad"), command.end()) << missing.err;
  const auto added = weft(command);
  ASSERT_EQ(added.status, 0) << added.err;
  EXPECT_EQ(weft(wanted, no_compiler_).status, 0);
}

TEST_F(BundleUse, SeveralAreAskedInOrder) {
  built("near.wfb", {"--pattern", "near"});
  built("rings.wfb", {"--pattern", "rings"});
  for (const auto* pattern : {"near", "rings"}) {
    EXPECT_EQ(weft(run(pattern, {"--target", "cpu:x86-64", "--bundle", path("near.wfb"), "--bundle", path("rings.wfb"),
                                 "--no-compile"}),
                   no_compiler_)
                  .status,
              0);
  }
}

TEST_F(BundleUse, BadFilesAreNamed) {
  built("x.wfb");
  const auto with = [&](const std::string& file) {
    return weft(run("near", {"--target", "cpu:x86-64", "--bundle", path(file), "--no-compile"}));
  };
  EXPECT_EQ(with("none.wfb").status, 1);
  EXPECT_TRUE(says(with("none.wfb"), "none.wfb: there is no such file"));
  auto bytes = contents(path("x.wfb"));
  bytes[8] = 3;
  scratch_.write("newer.wfb", bytes);
  EXPECT_TRUE(says(with("newer.wfb"), "bundle format 3 was made by a newer Weft; this one reads up to 1"));
  // Damage in a section shows when a kernel is taken, and to verify. Far less than an eighth stands in front of
  // sections.
  bytes = contents(path("x.wfb"));
  for (std::size_t i = bytes.size() / 8; i < bytes.size(); ++i) bytes[i] = static_cast<char>(bytes[i] ^ 1);
  scratch_.write("bad.wfb", bytes);
  EXPECT_EQ(with("bad.wfb").status, 3);
  EXPECT_TRUE(says(with("bad.wfb"), "damaged")) << with("bad.wfb").err;
  const auto verified = weft({"bundle", "verify", path("x.wfb"), path("bad.wfb")});
  EXPECT_EQ(verified.status, 1);
  EXPECT_TRUE(says(verified, "bad.wfb: it is damaged"));
  EXPECT_NE(verified.out.find("x.wfb: sound, 6 kernels, not signed"), std::string::npos);
}

TEST_F(BundleUse, VerifyFindsABitAnywhere) {
  built("x.wfb", {"--pattern", "near"});
  const auto bytes = contents(path("x.wfb"));
  for (std::size_t i = 0; i < 24; ++i) {
    auto changed = bytes;
    const auto at = i * (bytes.size() - 1) / 23;
    changed[at] = static_cast<char>(changed[at] ^ (1 << i % 8));
    EXPECT_EQ(weft({"bundle", "verify", scratch_.write("bad.wfb", changed)}).status, 1) << at;
  }
  EXPECT_EQ(weft({"bundle", "verify", path("x.wfb")}).status, 0) << "the control";
}

TEST_F(BundleUse, DiffAndMerge) {
  built("both.wfb", {"--target", "cpu:x86-64,cpu:haswell"});
  built("one.wfb");
  built("two.wfb", {"--target", "cpu:haswell"});
  ASSERT_EQ(weft({"bundle", "merge", "-o", path("merged.wfb"), path("two.wfb"), path("one.wfb")}).status, 0);
  EXPECT_EQ(contents(path("merged.wfb")), contents(path("both.wfb")));
  EXPECT_EQ(weft({"bundle", "diff", path("merged.wfb"), path("both.wfb")}).status, 0);
  const auto differ = weft({"bundle", "diff", path("one.wfb"), path("both.wfb")});
  EXPECT_EQ(differ.status, 1);
  EXPECT_NE(differ.out.find("+ rings (f32, dim 16) for cpu:haswell"), std::string::npos) << differ.out;
  scratch_.write("p.weft", "pattern near { keep causal; keep where(k % 3 == 0 or q % 7 == 0); }\n");
  built("changed.wfb", {"--pattern", "near"});
  const auto changed = weft({"bundle", "diff", path("one.wfb"), path("changed.wfb")});
  EXPECT_NE(changed.out.find("- rings"), std::string::npos) << changed.out;
  EXPECT_NE(changed.out.find("! near (f32, dim 16) for cpu:x86-64: "), std::string::npos) << changed.out;
}

/// Patterns of one name from two files are two kernels, where they come to two.
TEST_F(BundleUse, NamesMayRepeat) {
  const auto same = scratch_.write("same.weft", "pattern near { keep causal; score softcap(s, 4.0); }\n");
  built("x.wfb", {same, "--pattern", "near"});
  built("y.wfb", {"--pattern", "near"});
  const auto listed = json({"bundle", "ls", path("x.wfb")});
  ASSERT_EQ(listed["kernels"].size(), 4U) << "two, with what few queries call of each";
  EXPECT_NE(listed["kernels"][0]["digest"], listed["kernels"][1]["digest"]);
  EXPECT_EQ(weft({"bundle", "diff", path("x.wfb"), path("x.wfb")}).status, 0);
  EXPECT_EQ(weft({"bundle", "diff", path("x.wfb"), path("y.wfb")}).status, 1);
}

TEST_F(BundleUse, SignaturesDecideWhatIsUsed) {
  built("x.wfb");
  const auto mine = scratch_.write("mine.pem", bundle::private_pem(1));
  const auto trusted = scratch_.write("mine.pub", bundle::private_pem(1, false));
  const auto other = scratch_.write("other.pem", bundle::private_pem(2));
  const auto with = [&](const std::string& file) {
    return weft(
        run("near", {"--target", "cpu:x86-64", "--bundle", path(file), "--no-compile", "--public-key", trusted}));
  };
  EXPECT_EQ(with("x.wfb").status, 1);
  EXPECT_TRUE(says(with("x.wfb"), "not signed"));
  ASSERT_EQ(weft({"bundle", "sign", path("x.wfb"), "--key", mine, "-o", path("signed.wfb")}).status, 0);
  EXPECT_EQ(with("signed.wfb").status, 0);
  EXPECT_EQ(weft({"bundle", "verify", path("signed.wfb"), "--public-key", trusted}).status, 0);
  ASSERT_EQ(weft({"bundle", "sign", path("signed.wfb"), "--key", other}).status, 0) << "in its place";
  EXPECT_TRUE(says(with("signed.wfb"), "another key"));
  EXPECT_EQ(weft({"bundle", "verify", path("signed.wfb"), "--public-key", trusted}).status, 1);
  EXPECT_EQ(weft({"bundle", "verify", path("signed.wfb")}).status, 0);
  // Keys that are none.
  EXPECT_TRUE(says(weft({"bundle", "sign", path("x.wfb"), "--key", trusted}), "openssl genpkey"));
  EXPECT_TRUE(says(weft({"bundle", "verify", path("x.wfb"), "--public-key", mine}), "openssl pkey"));
  EXPECT_EQ(weft({"bundle", "sign", path("x.wfb")}).status, 2);
}

int ran(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const auto& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t child = 0;
  if (::posix_spawnp(&child, arguments[0], nullptr, nullptr, arguments.data(), environ) != 0) return -1;
  int status = -1;
  ::waitpid(child, &status, 0);
  return status;
}

TEST_F(BundleUse, LinksIntoAProgram) {
  built("my-kernels.wfb");
  ASSERT_EQ(weft({"bundle", "export", path("my-kernels.wfb"), "-o", path("k.o")}).status, 0);
  const auto source = scratch_.write("main.c", R"(#include "k.h"
#include <stdint.h>
#include <stdio.h>
int main(int argc, char** argv) {
  (void)argc;
  FILE* out = fopen(argv[1], "wb");
  if ((uintptr_t)weft_my_kernels % 16 != 0) return 1;
  return fwrite(weft_my_kernels, 1, weft_my_kernels_size, out) == weft_my_kernels_size && fclose(out) == 0 ? 0 : 2;
}
)");
  if (ran({"cc", "-Wall", "-Werror", "-o", path("program"), source, path("k.o")}) != 0) {
    if (ran({"cc", "--version"}) != 0) GTEST_SKIP() << "no C compiler";
    FAIL() << "the object does not link";
  }
  ASSERT_EQ(ran({path("program"), path("copy.wfb")}), 0);
  EXPECT_EQ(contents(path("copy.wfb")), contents(path("my-kernels.wfb")));
  EXPECT_EQ(weft({"bundle", "export", path("my-kernels.wfb"), "-o", path("k.o"), "--symbol", "1 name"}).status, 2);
}

TEST_F(BundleUse, UnknownWordsAreUsage) {
  EXPECT_EQ(weft({"bundle"}).status, 2);
  EXPECT_EQ(weft({"bundle", "make"}).status, 2);
  EXPECT_EQ(weft({"bundle", "ls"}).status, 2);
  EXPECT_EQ(weft({"bundle", "diff", "x.wfb"}).status, 2);
  EXPECT_EQ(weft({"bundle", "merge", "x.wfb"}).status, 2);
  EXPECT_EQ(weft({"bundle", "ls", "/nonexistent.wfb"}).status, 1);
}

}  // namespace
}  // namespace weft::test
