#pragma once

#include "compiler/ring/relation.h"

namespace weft::ring {

/// Some of what a rank computes, together: as soon as the keys are there that it and the portions before need.
struct Portion {
  Cell cell;
  Needs news;          ///< what no portion before needs
  bool local = false;  ///< it needs nothing of others
  bool moved = false;  ///< rows of all ranks whose queries came to chunks of keys
};

/// What a rank computes in its order: first what needs nothing, under which transfers hide; then its rows ascending, as
/// under `causal` early rows need little.
std::vector<Portion> portions_of(const Relation& relation, const Split& split, std::int64_t rank);

/// Bytes of K and V: of one head, `row_bytes` a key; over all heads and entries of the batch.
double bytes_of(const Relation& relation, const Needs& needs);
double row_bytes(const Relation& relation);

}  // namespace weft::ring
