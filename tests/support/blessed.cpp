#include "tests/support/blessed.h"
#include "tests/support/places.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace weft::test {
namespace {

namespace fs = std::filesystem;

std::string first_difference(const std::string& expected, const std::string& actual) {
  std::istringstream left(expected), right(actual);
  for (int line = 1;; ++line) {
    std::string a, b;
    const bool more_a = static_cast<bool>(std::getline(left, a)), more_b = static_cast<bool>(std::getline(right, b));
    if (more_a && more_b && a == b) continue;
    if (!more_a && !more_b) return "only the end of the last line differs\n";
    return fmt::format("line {}\n- {}\n+ {}\n", line, more_a ? a : "(end)", more_b ? b : "(end)");
  }
}

}  // namespace

std::vector<fs::path> data_cases() {
  std::vector<fs::path> cases;
  for (const auto& entry : fs::directory_iterator(test::in_checkout("tests/data"))) {
    if (entry.is_directory()) cases.push_back(entry.path());
  }
  std::sort(cases.begin(), cases.end());
  return cases;
}

std::string read_text(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string compare_blessed(const fs::path& file, const std::string& actual) {
  if (!fs::exists(file)) return {};
  const std::string expected = read_text(file);
  if (expected == actual) return {};
  if (std::getenv("WEFT_BLESS") != nullptr) {
    std::ofstream(file, std::ios::binary) << actual;
    return {};
  }
  return fmt::format("{}: {}accept all with: WEFT_BLESS=1 ctest --test-dir build\n", file.string(),
                     first_difference(expected, actual));
}

}  // namespace weft::test
