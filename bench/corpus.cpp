#include "bench/corpus.h"

#include "compiler/ir/lower.h"
#include "dsl/parse.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

namespace weft::bench {

namespace fs = std::filesystem;

Result<std::vector<Listed>> corpus_texts(const std::string& source_folder) {
  std::vector<fs::path> files;
  for (const char* folder : {"examples", "tests/patterns"}) {
    for (const auto& entry : fs::directory_iterator(fs::path(source_folder) / folder)) {
      if (entry.path().extension() == ".weft") files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  std::vector<Listed> out;
  for (const auto& path : files) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    WEFT_TRY(const auto file, dsl::parse({path.string(), text.str()}));
    for (const auto& def : file.patterns) out.push_back({.file = path.string(), .text = text.str(), .name = def.name});
  }
  return out;
}

Result<std::vector<ir::Pattern>> corpus(const std::string& source_folder) {
  std::vector<ir::Pattern> out;
  WEFT_TRY(const auto texts, corpus_texts(source_folder));
  dsl::File file;
  std::string read;  // the file that `file` is, whose patterns follow each other
  for (const auto& one : texts) {
    if (one.file != read) {
      WEFT_TRY(auto parsed, dsl::parse({one.file, one.text}));
      file = std::move(parsed);
      read = one.file;
    }
    auto pattern = ir::lower(file, one.name, {});
    if (pattern.ok()) out.push_back(std::move(*pattern));
  }
  return out;
}

}  // namespace weft::bench
