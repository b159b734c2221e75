#pragma once

#include "compiler/target/target.h"
#include "laboratory/explain/json.h"

namespace weft::explain {

/// How a CPU multiplies bf16 and what that was decided by; null where it has one way only.
inline Json json_of_products(const Target& target, int products) {
  if (!target.has_bf16_dot()) return nullptr;
  return {{"products", products == 2 ? "pairs" : "widened"},
          {"dot_rate", target.bf16_dot_rate},
          {"from", target.bf16_dot_measured ? "measured" : "table"}};
}

}  // namespace weft::explain
