#pragma once

#include "compiler/base/result.h"
#include "compiler/target/target.h"
#include "runtime/nvrtc/functions.h"

#include <compare>
#include <memory>
#include <string>
#include <vector>

namespace weft::nvrtc {

struct Version {
  int major = 0, minor = 0;
  auto operator<=>(const Version&) const = default;
  std::string text() const;  ///< `12.9`
};

/// One NVRTC, opened at run time with local visibility, so that other NVRTCs in the process (a framework's) are
/// not disturbed. Opening takes 5 ms, needs no GPU and no driver. Never closed; safe to use from any thread.
class Library {
 public:
  /// The file at `path`, opened once in a process: a file replaced later is not seen, so that identity() stays
  /// that of the library which compiles. Environment error where it cannot be opened, lacks a function, or
  /// where its builtins are not found: beside it, where NVIDIA puts them, or by the loader.
  static Result<std::shared_ptr<const Library>> load(const std::string& path);

  const std::string& path() const { return path_; }
  const std::string& builtins() const { return builtins_; }  ///< path of libnvrtc-builtins
  const Version& version() const { return version_; }
  const std::vector<int>& architectures() const { return architectures_; }  ///< as numbers (61, 90), ascending
  const Functions& functions() const { return functions_; }

  /// What of this NVRTC can change the bytes it makes, for keys: build-id and size of it and of its builtins.
  const std::string& identity() const { return identity_; }

  /// Can it compile for the CUDA target?
  bool knows(const Target& target) const;

  /// `sm_50 to sm_121`
  std::string architectures_text() const;

 private:
  std::string path_, builtins_, identity_;
  Version version_;
  std::vector<int> architectures_;
  Functions functions_;
};

}  // namespace weft::nvrtc
