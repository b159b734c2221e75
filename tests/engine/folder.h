#pragma once

#include <stdlib.h>
#include <filesystem>
#include <string>

namespace weft::test {

/// A new folder, gone at the end: a place for stores.
class Folder {
 public:
  Folder() {
    auto name = (std::filesystem::temp_directory_path() / "weft-engine-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace weft::test
