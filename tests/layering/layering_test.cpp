/// The arrows of the architecture as a test: who may include whom, and where foreign headers live.

#include "tests/support/places.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

/// Folder -> project folders, or single headers, it may include, besides itself. The longest matching folder counts.
const std::map<std::string, std::vector<std::string>> kMayInclude = {
    {"include/weft", {}},
    {"compiler/base", {"weft"}},
    {"compiler/target", {"compiler/base"}},
    {"dsl", {"compiler/base"}},
    {"compiler/ir", {"compiler/base", "compiler/target", "dsl", "compiler/walk"}},
    {"compiler/walk", {}},
    {"compiler/planner", {"compiler/base", "compiler/target", "dsl", "compiler/ir", "compiler/walk"}},
    {"compiler/ring", {"compiler/base", "compiler/target", "compiler/ir", "compiler/planner"}},
    {"codegen", {"compiler/base", "compiler/target", "compiler/ir", "compiler/walk"}},
    {"kernels_cache", {"compiler/base"}},
    {"kernels_cache/bundle", {"compiler/base", "kernels_cache"}},
    {"runtime", {"compiler", "dsl", "codegen", "kernels_cache", "weft"}},
    {"runtime/c_api",
     {"compiler", "dsl", "codegen", "kernels_cache", "runtime", "laboratory/explain", "weft"}},  // what users ask of it
    {"laboratory/sass", {"compiler/base"}},
    {"laboratory/explain", {"compiler", "dsl", "codegen", "kernels_cache", "runtime", "laboratory/sass", "weft"}},
    {"fuzz", {"compiler", "dsl", "kernels_cache"}},
    {"tools", {"compiler", "dsl", "codegen", "kernels_cache", "runtime", "laboratory/explain", "weft"}},
    {"python", {"weft/c.h", "weft/c_ring.h"}},
    {"python/weft/_jax", {"call.h"}},  // compiled where it is installed, alone
};

/// Headers of other projects that must stay on their island.
const std::vector<std::pair<std::string, std::string>> kIslands = {
    {"boost/spirit/", "dsl"},         {"llvm/", "runtime/llvm"},
    {"llvm-c/", "runtime/llvm"},      {"CLI/", "tools"},
    {"oneapi/", "runtime"},           {"cuda", "runtime/cuda"},
    {"nvrtc", "runtime/nvrtc"},       {"boost/context/", "runtime/emulate"},
    {"zstd", "kernels_cache/bundle"}, {"nanobind/", "python"},
    {"mpi.h", "runtime/ring/mpi"},    {"xla/", "python/weft/_jax"},
};

bool is_under(const std::string& path, const std::string& folder) { return path.starts_with(folder + "/"); }

std::string folder_of(const std::string& file) {
  std::string best;
  for (const auto& [folder, allowed] : kMayInclude) {
    if (is_under(file, folder) && folder.size() > best.size()) best = folder;
  }
  return best;
}

/// `"a/b.h"` or `<a/b.h>` of an include line, with the opening sign; empty for any other line.
std::string included(std::string line) {
  line.erase(0, line.find_first_not_of(" \t"));
  if (!line.starts_with("#")) return {};
  line.erase(0, line.find_first_not_of(" \t", 1));
  if (!line.starts_with("include")) return {};
  const auto open = line.find_first_of("\"<");
  if (open == std::string::npos) return {};
  const auto close = line.find_first_of("\">", open + 1);
  return line.substr(open, close - open);
}

bool is_source(const fs::path& path) {
  const auto extension = path.extension();
  return extension == ".h" || extension == ".cpp" || extension == ".cuh" || extension == ".def" || extension == ".c";
}

/// What is wrong with one include of `file`, or empty.
std::string complaint(const std::string& file, const std::string& include) {
  const auto folder = folder_of(file);
  const auto header = include.substr(1);
  const bool ours = include[0] == '"' || header.starts_with("weft/");
  if (!ours) {
    if (folder == "include/weft" && header.find('/') != std::string::npos) return "a public header shows " + header;
    for (const auto& [prefix, island] : kIslands) {
      if (header.starts_with(prefix) && !is_under(file, island)) return header + " belongs in " + island;
    }
    return {};
  }
  const auto& allowed = kMayInclude.at(folder);
  const auto own = folder == "include/weft" ? std::string("weft") : folder;
  const bool fine = is_under(header, own) || std::any_of(allowed.begin(), allowed.end(), [&](const auto& other) {
                      return header == other || is_under(header, other);
                    });
  return fine ? std::string() : folder + " may not include " + header;
}

struct Findings {
  std::vector<std::string> wrong;
  std::size_t includes = 0;
};

Findings scan(const fs::path& root) {
  Findings findings;
  for (const auto* top :
       {"include", "compiler", "dsl", "codegen", "kernels_cache", "runtime", "laboratory", "tools", "fuzz", "python"}) {
    if (!fs::exists(root / top)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / top)) {
      if (!entry.is_regular_file() || !is_source(entry.path())) continue;
      const auto file = fs::relative(entry.path(), root).generic_string();
      if (folder_of(file).empty()) {
        findings.wrong.push_back(file + ": no row of the table covers this folder");
        continue;
      }
      std::ifstream in(entry.path());
      for (std::string line; std::getline(in, line);) {
        const auto include = included(line);
        if (include.empty()) continue;
        ++findings.includes;
        if (const auto why = complaint(file, include); !why.empty()) findings.wrong.push_back(file + ": " + why);
      }
    }
  }
  return findings;
}

class PlantedTree : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    root_ = fs::temp_directory_path() / (std::string("weft-layering-") + name + std::to_string(::getpid()));
    fs::create_directories(root_);
  }
  void TearDown() override { fs::remove_all(root_); }
  std::vector<std::string> with(const std::string& file, const std::string& text) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
    auto wrong = scan(root_).wrong;
    fs::remove(root_ / file);
    return wrong;
  }

 private:
  fs::path root_;
};

TEST(Layering, EveryIncludeFollowsAnArrow) {
  const auto findings = scan(weft::test::in_checkout(""));
  EXPECT_GT(findings.includes, 50u) << "the scan found next to nothing: is the source folder right?";
  for (const auto& wrong : findings.wrong) ADD_FAILURE() << wrong;
}

TEST_F(PlantedTree, WrongArrowsAreCaught) {
  EXPECT_EQ(with("dsl/a.cpp", "#include \"compiler/ir/pattern.h\"\n").size(), 1u);
  EXPECT_EQ(with("codegen/cpu/a.cpp", "#include \"runtime/engine.h\"\n").size(), 1u);
  EXPECT_EQ(with("codegen/a.h", "  #  include <compiler/planner/planner.h>\n#include \"compiler/planner/planner.h\"\n")
                .size(),
            1u);
  EXPECT_EQ(with("kernels_cache/a.h", "#include \"compiler/ir/plan.h\"\n").size(), 1u);
  EXPECT_EQ(with("compiler/elsewhere/a.h", "").size(), 1u);
  EXPECT_EQ(with("python/a.cpp", "#include <weft/c.h>\n#include <weft/weft.h>\n").size(), 1u);
}

TEST_F(PlantedTree, ForeignHeadersStayOnTheirIslands) {
  EXPECT_EQ(with("tools/a.cpp", "#include <llvm-c/Core.h>\n").size(), 1u);
  EXPECT_EQ(with("compiler/ir/a.cpp", "#include <boost/spirit/home/x3.hpp>\n").size(), 1u);
  EXPECT_EQ(with("include/weft/a.h", "#include <fmt/format.h>\n").size(), 1u);
}

TEST_F(PlantedTree, RightArrowsAreNot) {
  EXPECT_TRUE(
      with("tools/a.cpp", "#include \"runtime/engine.h\"\n#include <weft/weft.h>\n#include <CLI/CLI.hpp>\n").empty());
  EXPECT_TRUE(with("compiler/planner/a.cpp", "#include \"compiler/ir/plan.h\"\n#include <vector>\n").empty());
}

/// A file beyond this is more than one idea.
TEST(Sizes, NoSourceIsLongerThan600Lines) {
  std::size_t files = 0;
  for (const auto* top :
       {"include", "compiler", "dsl", "codegen", "kernels_cache", "runtime", "tools", "tests", "python"}) {
    if (!fs::exists(fs::path(weft::test::in_checkout(top)))) continue;
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(weft::test::in_checkout(top)))) {
      if (!entry.is_regular_file() || !is_source(entry.path())) continue;
      ++files;
      std::ifstream in(entry.path());
      const auto lines = std::count(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>(), '\n');
      EXPECT_LE(lines, 600) << entry.path();
    }
  }
  EXPECT_GT(files, 10u);
}

}  // namespace
