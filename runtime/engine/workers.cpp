#include "runtime/engine/workers.h"

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/info.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>

#include <optional>

namespace weft {

namespace {
using Control = oneapi::tbb::global_control;
}

struct Workers::Arena {
  explicit Arena(int threads) : arena(threads) {
    // More threads than cores are the caller's wish; oneTBB wants to hear of it, or it warns on standard error.
    if (threads > oneapi::tbb::info::default_concurrency()) {
      more.emplace(Control::max_allowed_parallelism, static_cast<std::size_t>(threads));
    }
  }
  std::optional<Control> more;
  oneapi::tbb::task_arena arena;
};

Workers::Workers(int threads)
    : threads_(threads > 0 ? threads : oneapi::tbb::info::default_concurrency()),
      arena_(std::make_unique<Arena>(threads_)) {}
Workers::~Workers() = default;

void Workers::run(int slots, const std::function<void(int)>& work) const {
  if (slots <= 1) return work(0);
  arena_->arena.execute([&] { oneapi::tbb::parallel_for(0, slots, 1, work, oneapi::tbb::simple_partitioner()); });
}

}  // namespace weft
