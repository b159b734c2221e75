#pragma once

#include "compiler/ir/tensor.h"

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace weft::tools {

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

/// An object whose last member is an array that may be long: written item by item, in the bytes that json_text(), of
/// the whole, would give. `write` takes a std::string.
template <typename Write>
class JsonList {
 public:
  JsonList(Write write, Json object, std::string_view name) : write_(std::move(write)) {
    object[std::string(name)] = Json::array();
    std::string text = json_text(object);
    text.resize(text.rfind(']'));
    write_(std::move(text));
  }
  void add(const Json& item) {
    std::string text = any_ ? ",\n    " : "\n    ";
    for (const char c : json_text(item)) {
      text += c;
      if (c == '\n') text += "    ";  // strings have none: there it is spelt
    }
    any_ = true;
    write_(std::move(text));
  }
  void end() { write_(any_ ? std::string("\n  ]\n}\n") : std::string("]\n}\n")); }

 private:
  Write write_;
  bool any_ = false;
};

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

}  // namespace weft::tools
