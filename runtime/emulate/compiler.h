#pragma once

#include "compiler/base/result.h"

#include <cstddef>
#include <string>
#include <vector>

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

/// What is compiled: a text, the names of its kernels, and what is put into it.
struct Request {
  const std::string& text;
  std::vector<std::string> symbols;
  bool count = false;
  bool check_plain = false;

  /// The digest of everything that the object depends on.
  std::string digest(const Compiler& compiler) const;
};

/// Writes the shared object to `object`; scratch files go to `folder`, which is there.
Status compile(const Compiler& compiler, const Request& request, const std::string& folder, const std::string& object);

/// What the compiler and its debug information call the emitted text.
inline constexpr const char* kTextName = "kernel.cu";

/// In the object, for each kernel: `void entry(const void* args)` and the size of what `args` points to.
std::string entry_name(std::size_t kernel);
std::string args_bytes_name(std::size_t kernel);

}  // namespace weft::emulate
