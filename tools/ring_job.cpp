#include "tools/ring_job.h"

#include "dsl/words.h"
#include "runtime/cuda/driver.h"
#include "tools/ring_option.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>

namespace weft::tools {

namespace {

/// Ends the process where MPI waits for a rank that never comes.
class StartLimit {
 public:
  StartLimit(std::int64_t ms, const Console& console)
      : thread_([this, ms, &console] {
          std::unique_lock lock(mutex_);
          if (started_.wait_for(lock, std::chrono::milliseconds(ms), [this] { return done_; })) return;
          auto late = environment_error(fmt::format("MPI did not start in {} ms: a rank of the job did not come", ms));
          late.code = ErrorCode::ring_start;
          std::_Exit(console.fail(late));
        }) {}
  ~StartLimit() {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    started_.notify_all();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable started_;
  bool done_ = false;
  std::thread thread_;
};

/// Its number among those of its machine, as launchers say it.
int number_on_machine(int rank) {
  for (const auto* name : {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"}) {
    if (const char* said = std::getenv(name); said != nullptr)
      return static_cast<int>(parse_count(said).value_or(rank));
  }
  return rank;
}

/// Which GPU a rank takes: the one that was named, else each of a machine's ranks another.
int gpu_of(const std::string& target, int rank) {
  if (const auto colon = target.find(':'); colon != std::string::npos) return std::atoi(target.c_str() + colon + 1);
  const auto driver = cuda::Driver::open();
  const auto gpus = driver ? std::ssize((*driver)->devices()) : 0;
  return gpus > 0 ? static_cast<int>(number_on_machine(rank) % gpus) : 0;
}

}  // namespace

int run_in_job(const Options& options, const Console& console,
               const std::function<int(const Options&, std::unique_ptr<Transport>, const Console&)>& run) {
  const auto timeout = options.ring_timeout.value_or(kRingTimeoutMs);
  auto transport = [&] {
    const StartLimit limit(timeout, console);
    return mpi_transport();
  }();
  if (!transport) return console.fail(transport.error());
  const int rank = (*transport)->rank();
  auto of_rank = with_ranks(options, (*transport)->ranks());
  of_rank.quiet = options.quiet || rank > 0;
  if (of_rank.target.starts_with("cuda")) {
    const int gpu = gpu_of(of_rank.target, rank);
    of_rank.target = fmt::format("cuda:{}", gpu);
    if (is_nccl_ring(options))
      transport = nccl_transport(std::move(*transport), {.device = gpu, .timeout_ms = timeout});
  }
  const int status =
      transport ? run(of_rank, std::move(*transport), Console(of_rank)) : console.fail(transport.error());
  // Ending the job ends the others: they may say what they saw before. One after the other, as mpirun itself may
  // stumble over several that end it at once.
  if (status != 0) std::this_thread::sleep_for(std::chrono::seconds(1 + std::min(rank, 3)));
  end_mpi(status);
  return status;
}

}  // namespace weft::tools
