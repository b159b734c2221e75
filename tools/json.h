#pragma once

#include "laboratory/explain/json.h"

#include <string>
#include <string_view>
#include <utility>

namespace weft::tools {

using explain::Json;
using explain::json_text;
using explain::or_null;
using explain::sizes_json;

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

}  // namespace weft::tools
