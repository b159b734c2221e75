#pragma once

#include "compiler/ring/relation.h"

namespace weft::ring {

/// Some of a rank's rows, computed together: as soon as the keys are there that they and the portions before need.
struct Portion {
  Runs rows;
  Needs news;          ///< what no portion before needs
  bool local = false;  ///< its rows need nothing of others
};

/// The rows of a rank in the order of computing: those that need nothing first, under which transfers hide; then
/// ascending, as under `causal` early rows need little.
std::vector<Portion> portions_of(const Relation& relation, const Runs& own);

/// Bytes of K and V: of one head, `row_bytes` a key; over all heads and entries of the batch.
double bytes_of(const Relation& relation, const Needs& needs);
double row_bytes(const Relation& relation);

}  // namespace weft::ring
