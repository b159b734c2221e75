/// What shells complete, asked of the shells that are here.

#include "command.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace weft::test {
namespace {

class Completion : public ::testing::Test {
 protected:
  bool has(const std::string& shell) const {
    return std::system(("command -v " + shell + " > /dev/null 2>&1").c_str()) == 0;
  }
  std::string script(const std::string& shell) const {
    const auto finished = run_weft(scratch_, {"completion", shell});
    EXPECT_EQ(finished.status, 0) << finished.err;
    return scratch_.write("script." + shell, finished.out);
  }
  /// What bash offers for these words, the last of which is being written.
  std::string offered(const std::vector<std::string>& words) const {
    std::string list;
    for (const auto& word : words) list += " '" + word + "'";
    const auto program = scratch_.write("ask.bash", "source '" + script("bash") + "'; COMP_WORDS=(weft" + list +
                                                        "); COMP_CWORD=" + std::to_string(words.size()) +
                                                        "; _weft; echo \"${COMPREPLY[*]}\"\n");
    const auto out = scratch_.path("answer");
    EXPECT_EQ(std::system(("bash --norc " + program + " > " + out).c_str()), 0);
    std::ifstream file(out);
    std::string line;
    std::getline(file, line);
    return line;
  }
  Scratch scratch_;
};

TEST_F(Completion, Bash) {
  if (!has("bash")) GTEST_SKIP() << "no bash here";
  EXPECT_EQ(offered({"ex"}), "explain");
  EXPECT_EQ(offered({"bundle", "ex"}), "export");
  EXPECT_EQ(offered({"run", "x.weft", "--dro"}), "--dropout-seed");
  EXPECT_EQ(offered({"draw", "x.weft", "--dro"}), "") << "it has no such option";
  EXPECT_EQ(offered({"run", "--target", "sm_6"}), "sm_60 sm_61");
  EXPECT_EQ(offered({"emit", "--stage", "pt"}), "ptx");
  EXPECT_EQ(offered({"run", "exam"}), "") << "names of files are left to bash";
}

TEST_F(Completion, OtherShellsAcceptTheirs) {
  for (const auto* shell : {"zsh", "fish"}) {
    const auto path = script(shell);
    EXPECT_GT(std::filesystem::file_size(path), 5000u);
    if (!has(shell)) continue;
    EXPECT_EQ(std::system((std::string(shell) + " -n " + path).c_str()), 0) << shell;
  }
}

TEST_F(Completion, TheManualNamesAllOptions) {
  const auto finished = run_weft(scratch_, {"completion", "man"});
  EXPECT_EQ(finished.out.rfind(".\\\"", 0), 0u);
  for (const auto* word : {"\\-\\-dropout\\-seed", ".B explain", "EXIT STATUS", "\\-D"}) {
    EXPECT_NE(finished.out.find(word), std::string::npos) << word;
  }
  EXPECT_EQ(run_weft(scratch_, {"completion", "csh"}).status, 2);
}

}  // namespace
}  // namespace weft::test
