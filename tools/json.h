#pragma once

#include <nlohmann/json.hpp>

namespace weft::tools {

/// Keys keep the order in which they are written.
using Json = nlohmann::ordered_json;

}  // namespace weft::tools
