#pragma once

#include "compiler/base/result.h"
#include "runtime/llvm/functions.h"
#include "runtime/llvm/search.h"

#include <memory>
#include <string>

namespace weft::llvm {

struct Version {
  unsigned major = 0, minor = 0, patch = 0;
  std::string text() const;
};

/// LLVM, opened at run time with local visibility, so that another LLVM in the process (a graphics driver's,
/// a framework's) is not disturbed. Opened once per file and never closed; safe to use from any thread.
class Library {
 public:
  /// What locate(option) names. Environment error where there is none, or where it cannot be opened, is too
  /// old or lacks a function; the notes say how to mend it.
  static Result<std::shared_ptr<const Library>> open(const std::string& option = "");

  const std::string& path() const { return path_; }
  const Version& version() const { return version_; }
  const Functions& functions() const { return functions_; }

 private:
  static Result<std::shared_ptr<const Library>> load(const std::string& path);

  std::string path_;
  Version version_;
  Functions functions_;
};

}  // namespace weft::llvm
