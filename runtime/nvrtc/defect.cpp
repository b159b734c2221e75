#include "runtime/nvrtc/defect.h"

#include "compiler/base/digest.h"
#include "compiler/base/write.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>

namespace weft::nvrtc {
namespace {

std::string with_log(const std::string& text, const std::string& log) {
  std::string out = text + "\n\n// NVRTC:\n";
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    // A backslash at the end would make the next line a part of the comment.
    out += "// " + line + (line.ends_with('\\') ? "." : "") + "\n";
  }
  return out;
}

}  // namespace

std::string keep_defect(const std::string& text, const std::string& log) {
  const std::string bytes = with_log(text, log);
  std::error_code failure;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(failure);
  const std::string path = (folder / fmt::format("weft-{}.cu", hex(sha256(bytes)).substr(0, 16))).string();
  std::string temporary = path + ".XXXXXX";
  const int file = failure ? -1 : ::mkstemp(temporary.data());
  int why = failure ? failure.value() : errno;
  if (file >= 0) why = write_whole(file, bytes);
  bool kept = file >= 0 && why == 0;
  if (file >= 0) {
    if (::close(file) != 0) kept = false;
    if (kept && ::rename(temporary.c_str(), path.c_str()) != 0) {
      why = errno;
      kept = false;
    }
    if (!kept) ::unlink(temporary.c_str());
  }
  if (kept) return "the text and NVRTC's log are in " + path;
  return fmt::format("the text and NVRTC's log could not be saved as {}: {}", path, std::strerror(why));
}

}  // namespace weft::nvrtc
