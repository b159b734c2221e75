#include "places.h"

namespace weft::test {

std::string in_checkout(const std::string& path) { return path.empty() ? WEFT_SOURCE_DIR : WEFT_SOURCE_DIR "/" + path; }

}  // namespace weft::test
