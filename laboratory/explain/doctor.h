#pragma once

#include "laboratory/explain/json.h"

#include <weft/weft.h>

#include <string>
#include <vector>

namespace weft::explain {

/// One thing Weft looks for. `mend` is a command or a setting, empty when all is well.
struct Item {
  std::string name;
  bool usable = false;
  std::string found = {}, reason = {}, mend = {};
  Json details = Json::object();  ///< keys of its own, for JSON
};

/// Compilers, drivers, GPUs, the store: what is there for an engine with these options, and how to get what is not.
std::vector<Item> examine_all(const EngineOptions& options);

/// A line or two for each.
std::string to_text(const std::vector<Item>& items);
Json to_json(const std::vector<Item>& items);

}  // namespace weft::explain
