#pragma once

#include "compiler/base/result.h"

#include <string>
#include <string_view>
#include <utility>

namespace weft::emulate {

/// A folder of our own for temporary files, removed with all that is in it.
class ScratchFolder {
 public:
  static Result<ScratchFolder> make();
  ScratchFolder(ScratchFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  ScratchFolder& operator=(ScratchFolder&&) = delete;
  ~ScratchFolder();

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  explicit ScratchFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

Status write_file(const std::string& path, std::string_view bytes);
Result<std::string> read_file(const std::string& path);

}  // namespace weft::emulate
