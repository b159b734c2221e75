#pragma once

#include "compiler/ring/relation.h"

namespace weft::ring {

/// Lets queries of rows that keep much more than others go to the keys, and deals out chunks of keys so that all ranks
/// have about as much to do. Which rows, and which chunks, goes by the pattern and the sizes alone. `split`: of owners,
/// with rows of stride 1. Pairs by rank. Every rank comes to the same.
std::vector<double> move_queries(const Relation& relation, Split& split);

}  // namespace weft::ring
