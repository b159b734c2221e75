#include "runtime/emulate/scratch.h"

#include "compiler/base/write.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace weft::emulate {

namespace fs = std::filesystem;

Result<ScratchFolder> ScratchFolder::make() {
  std::error_code failure;
  std::string path = (fs::temp_directory_path(failure) / "weft-emulate-XXXXXX").string();
  if (failure || mkdtemp(path.data()) == nullptr) return environment_error("no scratch folder can be made");
  return ScratchFolder(std::move(path));
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

Status write_file(const std::string& path, std::string_view bytes) {
  const NoFileSizeSignal quiet;
  std::ofstream out(path, std::ios::binary);
  out << bytes;
  out.close();
  if (!out) return environment_error(fmt::format("{} cannot be written", path));
  return done;
}

Result<std::string> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return environment_error(fmt::format("{} cannot be read", path));
  return std::string(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
}

}  // namespace weft::emulate
