#pragma once

#include "compiler/base/result.h"

#include <string>

namespace weft::object {

/// What tells one build of a shared library from another, for keys: its ELF build-id and size, read from the
/// file's headers without opening the library; where it has no build-id, the SHA-256 of its bytes (a third of
/// a second for LLVM), remembered in this process per device, inode, size and times.
///
/// Environment error where the file cannot be read or is not a 64-bit little-endian ELF file.
Result<std::string> library_identity(const std::string& path);

/// What tells this build of Weft from another, for what follows from Weft's own code: the build-id and the size of the
/// program or shared library that this function was linked into, as it was loaded, whatever its file is by now. Empty
/// where it was linked without a build-id.
std::string own_build();

}  // namespace weft::object
