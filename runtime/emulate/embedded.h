#pragma once

#include <string_view>

/// Texts that CMake puts into the library, so that it needs no file at run time.
namespace weft::emulate {

extern const std::string_view kHooksText;
extern const std::string_view kPreludeText;
extern const std::string_view kMatricesText;  ///< behind the prelude

}  // namespace weft::emulate
