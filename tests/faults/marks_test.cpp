#include "tests/faults/fault.h"
#include "tests/support/places.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

/// Marks and tables agree: no mark stands for nothing, and no fault is without its place.
namespace weft::test {
namespace {

namespace fs = std::filesystem;
using Names = std::set<std::string>;

/// In what plant.cmake made copies of.
const Names kMarks = {
#include "marks.inc"
};

/// … and in all sources of the product.
Names marks_in(const fs::path& folder) {
  const std::string mark = "// fault(";
  Names out;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) {
      const auto at = line.find(mark);
      if (at != std::string::npos) out.insert(line.substr(at + mark.size(), line.find(')') - at - mark.size()));
    }
  }
  return out;
}

std::string without(const Names& all, const Names& some) {
  std::string out;
  for (const auto& name : all) out += some.count(name) == 0 ? name + " " : "";
  return out;
}

TEST(Marks, AreAllPlantedByATable) {
  EXPECT_EQ(without(kMarks, planted_by_tables()), "");
  EXPECT_EQ(without(planted_by_tables(), kMarks), "") << "there is no such mark";
}

TEST(Marks, StandInNoOtherSource) {
  Names all;
  for (const char* folder : {"codegen", "compiler", "runtime", "kernels_cache", "dsl", "tools"})
    all.merge(marks_in(in_checkout(folder)));
  EXPECT_EQ(without(all, kMarks), "") << "tests/faults/CMakeLists.txt must name the source";
}

}  // namespace
}  // namespace weft::test
