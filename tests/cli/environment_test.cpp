/// What the machine lacks: a clear message and status 3, or, where the user's work can go on, a result.

#include "command.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

namespace weft::test {
namespace {

class Environment : public ::testing::Test {
 protected:
  Scratch scratch_;
  std::string pattern_ = scratch_.write("p.weft", "pattern p { keep causal; }\n");
  std::vector<std::string> run_ = {"run", pattern_, "--tokens", "64", "--dim", "16", "--check"};

  Finished run_with(std::map<std::string, std::string> environment) {
    return run_weft(scratch_, Call{.arguments = run_, .environment = std::move(environment)});
  }
};

TEST_F(Environment, NoLlvm) {
  const auto finished = run_with({{"WEFT_LLVM", scratch_.path("no-such-libLLVM.so")}});
  EXPECT_EQ(finished.status, 3);
  EXPECT_EQ(finished.out, "");
  EXPECT_NE(finished.err.find("LLVM"), std::string::npos) << finished.err;
}

TEST_F(Environment, TheInterpreterNeedsNothing) {
  run_.insert(run_.end(), {"--target", "interpreter"});
  EXPECT_EQ(run_with({{"WEFT_LLVM", "/nonexistent"}, {"HOME", ""}, {"WEFT_CACHE_DIR", ""}}).status, 0);
}

TEST_F(Environment, NoHome) {
  const auto finished = run_with({{"HOME", ""}, {"WEFT_CACHE_DIR", ""}});
  EXPECT_EQ(finished.status, 0) << finished.err;
  EXPECT_NE(finished.out.find("cache miss"), std::string::npos) << finished.out;
}

TEST_F(Environment, HomeThatCannotBeWritten) {
  for (const auto* home : {"/proc", "/dev/null", "/nonexistent/home"}) {
    const auto finished = run_with({{"HOME", home}, {"WEFT_CACHE_DIR", ""}});
    EXPECT_EQ(finished.status, 0) << home << finished.err;
    EXPECT_NE(finished.out.find("ok"), std::string::npos) << finished.out;
  }
}

TEST_F(Environment, StoreThatOthersCanWriteIsNotUsed) {
  std::filesystem::create_directory(scratch_.path("open"));
  ::chmod(scratch_.path("open").c_str(), 0777);
  for (int i = 0; i < 2; ++i) {
    const auto finished = run_with({{"WEFT_CACHE_DIR", scratch_.path("open")}});
    EXPECT_EQ(finished.status, 0) << finished.err;
    EXPECT_NE(finished.out.find("cache miss"), std::string::npos) << finished.out;
  }
}

TEST_F(Environment, OutputThatCannotBeWritten) {
  run_.insert(run_.end(), {"-o", scratch_.path("no/such/folder/o.npy")});
  const auto finished = run_with({});
  EXPECT_EQ(finished.status, 3);
  EXPECT_NE(finished.err.find("o.npy"), std::string::npos) << finished.err;
}

TEST_F(Environment, FullStandardOutput) {
  const auto finished =
      run_weft(scratch_, Call{.arguments = {"emit", pattern_, "--stage", "pattern"}, .out_to = "/dev/full"});
  EXPECT_EQ(finished.status, 3);
  EXPECT_NE(finished.err.find("standard output"), std::string::npos) << finished.err;
}

/// What cannot be said is lost, and nothing else is: results go out, and the status is as it would be.
TEST_F(Environment, RemarksThatNobodyCanHear) {
  const auto wrong = scratch_.write("wrong.weft", "pattern p { keep cousal; }\n");
  const std::vector<std::vector<std::string>> calls = {
      {"run", pattern_, "--tokens", "64", "-v"}, {"check", wrong},           {"draw", pattern_, "--tokens", "32"},
      {"explain", pattern_, "--tokens", "1k"},   {"cache", "stat"},          {"fmt", pattern_},
      {"emit", pattern_, "--stage", "plan"},     {"emit", "--no-such-flag"}, {"--help"}};
  for (const auto& call : calls) {
    const auto heard = run_weft(scratch_, call);
    const auto full = run_weft(scratch_, Call{.arguments = call, .err_to = "/dev/full"});
    const auto closed = run_weft(scratch_, Call{.arguments = call, .closed = {STDERR_FILENO}});
    for (const auto& lost : {full, closed}) {
      EXPECT_EQ(lost.status, heard.status) << call[0] << ": " << heard.err;
      EXPECT_EQ(lost.out.size() > 0, heard.out.size() > 0) << call[0];
    }
  }
}

TEST_F(Environment, ResultsThatNobodyCanHearAreAnError) {
  for (const std::vector<std::string>& call :
       std::vector<std::vector<std::string>>{{"explain", pattern_, "--tokens", "1k"},
                                             {"draw", pattern_, "--tokens", "32"},
                                             {"check", "--help"},
                                             {"--version"},
                                             {"emit", pattern_, "--stage", "plan", "-o", "-"}}) {
    const auto full = run_weft(scratch_, Call{.arguments = call, .out_to = "/dev/full"});
    const auto closed = run_weft(scratch_, Call{.arguments = call, .closed = {STDOUT_FILENO}});
    for (const auto& lost : {full, closed}) {
      EXPECT_EQ(lost.status, 3) << call[0];
      EXPECT_NE(lost.err.find("standard output"), std::string::npos) << call[0] << ": " << lost.err;
    }
  }
}

/// A file that is opened must not take the place of a stream that is closed, to be written remarks into.
TEST_F(Environment, ClosedStreamsAreNobodyElses) {
  const auto o = scratch_.path("o.npy");
  const std::vector<std::string> call = {"run", pattern_, "--tokens", "64", "-v", "-o", o};
  ASSERT_EQ(run_weft(scratch_, call).status, 0);
  const auto size = std::filesystem::file_size(o);
  (void)run_weft(scratch_, Call{.arguments = call, .closed = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}});
  EXPECT_EQ(std::filesystem::file_size(o), size);
}

TEST_F(Environment, WhatThisVersionCannotDo) {
  const std::vector<std::vector<std::string>> calls = {
      {"tune", pattern_, "--target", "sm_90a"},
      {"bench", pattern_, "--target", "sm_90a"},
  };
  for (const auto& call : calls) {
    const auto finished = run_weft(scratch_, call);
    EXPECT_EQ(finished.status, 3) << call[0] << ": " << finished.err;
    EXPECT_EQ(finished.out, "");
    EXPECT_NE(finished.err.find("this version"), std::string::npos) << finished.err;
  }
}

TEST_F(Environment, InterruptedWhileInterpreting) {
  const auto finished = run_weft(scratch_, Call{.arguments = {"run", pattern_, "--tokens", "16384", "--target",
                                                              "interpreter", "-o", scratch_.path("o.npy")},
                                                .interrupt_when = after(std::chrono::milliseconds(500))});
  EXPECT_EQ(finished.status, 130) << finished.err;
  EXPECT_EQ(scratch_.files(), std::vector<std::string>{"p.weft"});
}

}  // namespace
}  // namespace weft::test
