#pragma once

#include "codegen/cuda/device/numbers.cuh"

// The numbers above as those that the host reckons shared memory by.

constexpr BlockShape shape_of_block() {
  BlockShape s;
  s.rows = kRows, s.keys = kKeys, s.threads = kThreads;
  s.dim = kDim, s.dim_v = kDimV, s.summed = kSummed;
  s.gradient = kGradient, s.transposed = kTransposed;
  s.tries = kTries, s.ahead = kAhead;
  s.lists_pages = kListsPages, s.counts = kCounts, s.shares_tiles = kSharesTiles;
  s.units = kUnits, s.by_spans = kSpans, s.by_values = kByValues;
  s.conditions = kConditions, s.inputs = kInputs;
  return s;
}
