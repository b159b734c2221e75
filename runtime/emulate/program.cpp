#include "runtime/emulate/program.h"

#include "compiler/base/fork_safe.h"
#include "compiler/base/parallel.h"
#include "kernels_cache/flights.h"
#include "runtime/emulate/compiler.h"
#include "runtime/emulate/object.h"
#include "runtime/emulate/scheduler.h"
#include "runtime/emulate/symbols.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <numeric>

namespace weft::emulate {
namespace {

/// Builds happen side by side, but each text only once.
class Programs {
 public:
  using Built = Result<std::shared_ptr<const Program>>;

  template <typename Build>
  Built find_or_build(const std::string& digest, const Build& build) {
    return *flights_
                .join(digest,
                      [&]() -> Built {
                        if (auto known = find(digest)) return known;
                        WEFT_TRY(auto program, build());
                        const std::lock_guard lock(mutex_);
                        return programs_.emplace(digest, std::move(program)).first->second;
                      })
                .value;
  }

 private:
  std::shared_ptr<const Program> find(const std::string& digest) {
    const std::lock_guard lock(mutex_);
    const auto found = programs_.find(digest);
    return found == programs_.end() ? nullptr : found->second;
  }

  ForkSafe<> mutex_;
  std::map<std::string, std::shared_ptr<const Program>> programs_;
  cache::Flights<Built> flights_;
};

/// Never destroyed: it outlives all who may still run.
Programs& programs = *new Programs;

std::string kept_in(const Options& options) {
  const char* const folder = std::getenv("WEFT_EMULATED");
  return options.directory.empty() && folder != nullptr ? folder : options.directory;
}

Error bad_launch(const std::string& why) { return internal_error("the emulated launch makes no sense: " + why); }

Status check(const Launch& launch, std::int64_t args_bytes) {
  if (launch.blocks < 0 || launch.blocks > INT32_MAX) return bad_launch(fmt::format("{} blocks", launch.blocks));
  if (launch.threads < 1 || launch.threads > kMostThreads) {
    return bad_launch(fmt::format("{} threads a block", launch.threads));
  }
  constexpr std::int64_t kMostShared = 256 << 10;
  if (launch.shared_bytes < 0 || launch.shared_bytes > kMostShared) {
    return bad_launch(fmt::format("{} bytes of shared memory", launch.shared_bytes));
  }
  if (launch.args == nullptr || launch.args_bytes != args_bytes) {
    return bad_launch(fmt::format("an argument of {} bytes, the kernel takes {}", launch.args_bytes, args_bytes));
  }
  return done;
}

std::vector<Region> in_order(std::vector<Region> regions) {
  std::erase_if(regions, [](const Region& r) { return r.begin == nullptr || r.bytes <= 0; });
  std::sort(regions.begin(), regions.end(),
            [](const Region& a, const Region& b) { return std::less<>()(a.begin, b.begin); });
  return regions;
}

/// Where the i-th block to run stands in the grid.
std::vector<std::int64_t> block_order(const Launch& launch) {
  std::vector<std::int64_t> out(static_cast<std::size_t>(launch.blocks));
  std::iota(out.begin(), out.end(), 0);
  if (launch.order == Order::descending) std::reverse(out.begin(), out.end());
  std::mt19937_64 random(launch.seed);
  if (launch.order == Order::random) std::shuffle(out.begin(), out.end(), random);
  return out;
}

/// Says which calls of the text the faults are in.
void name_places(Report& report, const Object& object) {
  std::vector<std::uint64_t> offsets;
  for (const Fault& fault : report.faults) {
    for (const void* site : {fault.site, fault.other_site}) {
      // A return address stands behind its call.
      offsets.push_back(site == nullptr ? 0 : object.offset(site) - 1);
    }
  }
  const auto places = frames(object.bytes, offsets);
  for (std::size_t i = 0; i < report.faults.size(); ++i) {
    Fault& fault = report.faults[i];
    const auto &here = places[2 * i], &there = places[2 * i + 1];
    if (!here.empty()) fault.text += "; in " + print(here);
    if (!there.empty()) fault.text += "; the other in " + print(there);
    if (fault.line == 0 && !here.empty()) fault.line = here.front().line;
  }
}

}  // namespace

Result<std::shared_ptr<const Program>> Program::build(const std::string& text, const std::string& symbol,
                                                      const Options& options) {
  WEFT_TRY(const Compiler compiler, find_compiler(options.compiler));
  Request request{.text = text, .symbols = {symbol}, .count = options.count, .check_plain = options.check_plain};
  request.symbols.insert(request.symbols.end(), options.further.begin(), options.further.end());
  const std::string digest = request.digest(compiler);
  return programs.find_or_build(digest, [&]() -> Programs::Built {
    std::shared_ptr<Program> fresh(new Program);
    WEFT_TRY(fresh->object_, Object::build(compiler, request, digest, kept_in(options)));
    fresh->count_ = options.count;
    return std::shared_ptr<const Program>(std::move(fresh));
  });
}

Program::~Program() = default;

Result<Report> Program::launch(const Launch& given) const {
  if (given.kernel >= object_->kernels.size()) return bad_launch(fmt::format("kernel {} of none", given.kernel));
  const Object::Kernel& kernel = object_->kernels[given.kernel];
  WEFT_CHECK(check(given, kernel.args_bytes));
  Launch launch = given;
  launch.memory = in_order(launch.memory);
  const std::vector<std::int64_t> order = block_order(launch);
  const auto workers =
      static_cast<std::size_t>(std::clamp<std::int64_t>(launch.workers, 1, std::max<std::int64_t>(launch.blocks, 1)));
  std::vector<std::unique_ptr<Scheduler>> schedulers;
  for (std::size_t i = 0; i < workers; ++i) {
    WEFT_TRY(auto scheduler, Scheduler::make(kernel.entry, launch, count_));
    schedulers.push_back(std::move(scheduler));
  }
  std::atomic<std::size_t> next = 0;
  std::atomic<bool> over = false;
  in_parallel(workers, workers, [&](std::size_t at) {
    for (std::size_t i; !over && (i = next++) < order.size();) {
      if (!schedulers[at]->run(order[i])) over = true;
    }
    return true;
  });
  Report report;
  for (const auto& scheduler : schedulers) report += scheduler->report();
  name_places(report, *object_);
  return report;
}

}  // namespace weft::emulate
