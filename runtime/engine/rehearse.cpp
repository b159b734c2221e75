#include "runtime/engine/rehearse.h"

#include "runtime/engine/steps.h"

namespace weft {

namespace {

/// Where no tensor is: addresses are computed, and nothing is there to be read.
template <typename T>
T* nowhere() {
  return reinterpret_cast<T*>(std::uintptr_t{1} << 40);
}

}  // namespace

Result<std::vector<Rehearsed>> rehearse(const Compilation& kernel, const ir::Shape& shape) {
  WEFT_TRY(const auto tables, kernel.tables(shape.heads));
  Launch launch;
  launch.shape = shape;
  launch.gradient = kernel.plan.bind.gradient;
  RunArgs args;
  if (launch.gradient) {
    for (auto* view : {&args.dq, &args.dk, &args.dv}) view->data = nowhere<void>();
    args.d_lse.rank = 3;
  }
  Job job{.kernel = kernel, .tables = *tables, .launch = launch, .args = args};
  WEFT_TRY(job.beside, tables_beside(kernel, shape.heads, regimes_for(job)));
  const Room room{.carry = nowhere<std::byte>(), .lists = nowhere<std::int32_t>(), .terms = nowhere<float>()};
  std::vector<Rehearsed> out;
  const auto run = [&](const Turn& turn) -> Status {
    out.push_back({.step = turn.step, .blocks = turn.blocks});
    return done;
  };
  const auto copy = [](std::int64_t*, const std::int64_t*, std::size_t) -> Status { return done; };
  const auto clear = [](const Rectangle&) -> Status { return done; };
  WEFT_CHECK(run_steps(job, room, {.run = run, .copy = copy, .clear = clear}));
  return out;
}

}  // namespace weft
