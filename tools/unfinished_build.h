#pragma once

#include "compiler/base/result.h"

#include <string>

namespace weft::tools {

/// Where a build of a bundle keeps what is finished until all is, so that an interrupted one goes on: a folder beside
/// the bundle, with a note that says whose it is. Nothing of anybody else's is written to or removed.
class UnfinishedBuild {
 public:
  /// Makes the folder, or finds the one that an earlier build of the same bundle left. User error where something else
  /// has its name.
  static Result<UnfinishedBuild> of(const std::string& bundle);

  const std::string& folder() const { return folder_; }

  /// The kernels that were kept, and the folder where nothing else is in it.
  void remove() const;

 private:
  explicit UnfinishedBuild(std::string folder) : folder_(std::move(folder)) {}
  std::string folder_;
};

}  // namespace weft::tools
