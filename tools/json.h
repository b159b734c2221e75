#pragma once

#include <nlohmann/json.hpp>

#include <optional>

namespace weft::tools {

/// Keys keep the order in which they are written.
using Json = nlohmann::ordered_json;

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

}  // namespace weft::tools
