#pragma once

#include "compiler/ir/tensor.h"

#include <nlohmann/json.hpp>

#include <optional>
#include <string>

namespace weft::explain {

/// Keys keep the order in which they are written.
using Json = nlohmann::ordered_json;

/// As `explain` and `run` say it.
inline Json sizes_json(const ir::Shape& shape) {
  return {{"batch", shape.batch},       {"n_q", shape.n_q}, {"n_k", shape.n_k},  {"heads", shape.heads},
          {"kv_heads", shape.kv_heads}, {"dim", shape.d},   {"dim_v", shape.d_v}};
}

/// Names of files are bytes, and a text of JSON is not: what is no UTF-8 is replaced.
inline std::string json_text(const Json& json, int indent = 2) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

}  // namespace weft::explain
