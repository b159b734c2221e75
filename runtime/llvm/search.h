#pragma once

#include "compiler/base/result.h"

#include <string>
#include <vector>

/// Finding LLVM without opening it: making a key must not cost the 18 ms of opening a compiler.
namespace weft::llvm {

/// The text form of IR changed until 16 (opaque pointers); later releases read it.
inline constexpr int kOldestVersion = 16;

struct Candidate {
  std::string path;      ///< absolute, links resolved
  int version = 0;       ///< major, from the file's name; 0 where that does not tell
  std::string rejected;  ///< why it is not used; empty for a usable one
};

/// Every libLLVM in the loader's directories and /usr/lib/llvm-*/lib, newest first.
std::vector<Candidate> installed();

/// The library Weft uses: `option` where it is not empty, else WEFT_LLVM, else the newest usable of
/// installed(). An explicit path is a file, or a directory to look in, and is never silently replaced.
/// Environment error, with the command that mends it, where there is none.
Result<std::string> locate(const std::string& option = "");

/// What of LLVM goes into a key: build-id and size of the located library.
Result<std::string> identity(const std::string& option = "");

/// What `weft doctor` says.
struct Report {
  bool usable = false;
  std::string path;
  std::string version;  ///< `22.1.0`
  std::string reason;   ///< why it is not usable
  std::string mend;     ///< a command, or what to set; empty when usable
  std::vector<Candidate> candidates;
};
Report examine(const std::string& option = "");

}  // namespace weft::llvm
