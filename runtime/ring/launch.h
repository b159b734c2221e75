#pragma once

#include "runtime/ring/arena.h"
#include "runtime/ring/views.h"

namespace weft {

/// One launch of consecutive tokens of `of` in all, which `args` have from row `local` on: the kernel is told that it
/// is a slice, so that rows have the bits of the whole.
inline RunArgs launch_of(const RingArgs& args, const Arena& arena, const ring::Run& tokens, std::int64_t local,
                         std::int64_t of) {
  RunArgs run{.q = rows_of(args.q, 1, local, tokens.count),
              .k = arena.read(0),
              .v = arena.read(1),
              .out = rows_of(args.out, 1, local, tokens.count),
              .lse = rows_of(args.lse, 2, local, tokens.count),
              .branch_lse = rows_of(args.branch_lse, 3, local, tokens.count),
              .inputs = args.inputs};
  if (tokens.count < of) run.slice = {.first = tokens.first, .of = of};
  run.dropout_seed = args.dropout_seed;
  run.threads = args.threads;
  run.stream = args.stream;
  return run;
}

}  // namespace weft
