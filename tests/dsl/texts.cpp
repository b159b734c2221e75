#include "texts.h"
#include "compiler/ir/check.h"

#include "dsl/parse.h"
#include "tests/support/blessed.h"
#include "tests/support/places.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>

namespace weft::test {
namespace fs = std::filesystem;
namespace {

const fs::path kTests = test::in_checkout("tests");

}  // namespace

std::vector<fs::path> sample_files() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(kTests / "patterns")) files.push_back(entry.path());
  for (const auto& entry : fs::directory_iterator(kTests / "golden")) {
    if (fs::exists(entry.path() / "pattern.weft")) files.push_back(entry.path() / "pattern.weft");
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<fs::path> case_folders() {
  std::vector<fs::path> folders = data_cases();
  std::erase_if(folders, [](const fs::path& folder) { return !fs::exists(folder / "input.weft"); });
  return folders;
}

std::vector<Diagnostic> findings(const Source& source) {
  const auto file = dsl::parse(source, ir::examine);
  return file.ok() ? ir::check(*file, source) : file.error().diagnostics;
}

std::vector<std::string> marked(const std::string& text) {
  std::vector<std::string> list;
  for (const Diagnostic& d : findings({"test.weft", text})) {
    list.push_back(d.code + " '" + text.substr(d.range.begin, d.range.end - d.range.begin) + "'");
  }
  return list;
}

dsl::File parsed(const std::string& text) {
  const Source source{"test.weft", text};
  auto file = dsl::parse(source, ir::examine);
  if (file.ok()) return std::move(file).value();
  ADD_FAILURE() << render(file.error().diagnostics.at(0), source);
  return {};
}

std::string formatted(const std::string& text) { return dsl::format(parsed(text), {"test.weft", text}); }

std::string identifier(const fs::path& path) {
  const bool is_case = path.filename() == "pattern.weft";
  std::string name = is_case ? path.parent_path().filename().string() : path.stem().string();
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
}

}  // namespace weft::test
