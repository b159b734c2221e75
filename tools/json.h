#pragma once

#include <nlohmann/json.hpp>

#include <optional>
#include <string>

namespace weft::tools {

/// Keys keep the order in which they are written.
using Json = nlohmann::ordered_json;

/// Names of files are bytes, and a text of JSON is not: what is no UTF-8 is replaced.
inline std::string json_text(const Json& json, int indent = 2) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

}  // namespace weft::tools
