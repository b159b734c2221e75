#include "tests/support/shipped.h"

#include "compiler/ir/lower.h"
#include "dsl/parse.h"
#include "tests/support/blessed.h"
#include "tests/support/places.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace weft::test {

std::vector<Shipped> shipped_patterns(const std::string& folder) {
  std::vector<Shipped> out;
  for (const auto& entry : std::filesystem::directory_iterator(in_checkout(folder))) {
    if (entry.path().extension() != ".weft") continue;
    const Source source{entry.path().string(), read_text(entry.path())};
    const auto file = dsl::parse(source);
    EXPECT_TRUE(file.ok()) << source.name;
    if (!file.ok()) continue;
    for (const auto& def : file->patterns) {
      auto pattern = ir::lower(*file, def.name, {});
      if (pattern.ok()) out.push_back({source.name, std::move(*pattern)});
    }
  }
  return out;
}

}  // namespace weft::test
