#pragma once

#include "compiler/base/result.h"

#include <string>

namespace weft::emulate {

/// The host's C++ compiler.
struct Compiler {
  std::string path = {};     ///< absolute
  std::string version = {};  ///< first line of what --version says
  bool clang = false;
};

/// `option` where it is not empty, else WEFT_CXX, else g++, else clang++ on PATH. An explicit one is never silently
/// replaced. Environment error, with the package to install, where there is none.
Result<Compiler> find_compiler(const std::string& option = "");

/// What is compiled: a text, the name of its kernel, and what is put into it.
struct Request {
  const std::string& text;
  const std::string& symbol;
  bool count = false;
  bool check_plain = false;

  /// Of everything the object depends on.
  std::string digest(const Compiler& compiler) const;
};

/// Writes the shared object to `object`; scratch files go to `folder`, which is there.
Status compile(const Compiler& compiler, const Request& request, const std::string& folder, const std::string& object);

/// What the compiler and its debug information call the emitted text.
inline constexpr const char* kTextName = "kernel.cu";

/// In the object: `void entry(const void* args)` and the size of what `args` points to.
inline constexpr const char* kEntry = "weft_emulated_entry";
inline constexpr const char* kArgsBytes = "weft_emulated_args_bytes";

}  // namespace weft::emulate
