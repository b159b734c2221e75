#include "compiler/base/guarded.h"
#include "runtime/ring/agreement.h"
#include "runtime/ring/nccl/communicator.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>

namespace weft {

namespace {

using Clock = std::chrono::steady_clock;
using Message = nccl::Communicator::Message;

/// For the time in which ranks meet; counts the steps that this takes.
class Lent final : public Transport {
 public:
  Lent(Transport& transport, std::uint64_t& posted) : transport_(transport), posted_(posted) {}
  int rank() const override { return transport_.rank(); }
  int ranks() const override { return transport_.ranks(); }
  Status post(std::uint64_t step, std::span<const Part> sends, std::span<const Part> receives) override {
    ++posted_;
    return transport_.post(step, sends, receives);
  }
  Result<Progress> poll() override { return transport_.poll(); }
  void abandon(const std::string& why) noexcept override { transport_.abandon(why); }

 private:
  Transport& transport_;
  std::uint64_t& posted_;
};

/// Messages of one step, of which so many at most are begun at once: those between ranks that are about as far apart,
/// which both sides know. NCCL hangs where a group is large.
constexpr int kDistances = 64;

class NcclTransport final : public Transport {
 public:
  NcclTransport(std::unique_ptr<Transport> control, std::uint64_t steps_before,
                std::unique_ptr<nccl::Communicator> communicator, int device)
      : control_(std::move(control)),
        steps_before_(steps_before),
        communicator_(std::move(communicator)),
        device_(device) {}
  ~NcclTransport() override {
    // Nobody waits any more for what is under way.
    if (!steps_.empty()) communicator_->fail();
  }
  NcclTransport(const NcclTransport&) = delete;
  NcclTransport& operator=(const NcclTransport&) = delete;

  int rank() const override { return control_->rank(); }
  int ranks() const override { return control_->ranks(); }
  std::optional<int> device() const override { return device_; }

  Status post(std::uint64_t step, std::span<const Part> sends, std::span<const Part> receives) override {
    return guarded([&]() -> Status {
      std::vector<Part> host_sends, host_receives;
      auto& pending = steps_.emplace_back();
      divide(sends, false, host_sends, pending);
      divide(receives, true, host_receives, pending);
      WEFT_CHECK(control_->post(step + steps_before_, host_sends, host_receives));
      return advance();
    });
  }

  Result<Progress> poll() override {
    return guarded([&]() -> Result<Progress> {
      WEFT_TRY(auto progress, control_->poll());
      WEFT_CHECK(advance());
      const auto own = [&](std::uint64_t steps) { return steps - std::min(steps, steps_before_); };
      progress.done = std::min(own(progress.done), done_);
      for (auto& begun : progress.begun) begun = own(begun);
      for (const auto& step : steps_)
        progress.waits_for.insert(progress.waits_for.end(), step.peers.begin(), step.peers.end());
      std::sort(progress.waits_for.begin(), progress.waits_for.end());
      progress.waits_for.erase(std::unique(progress.waits_for.begin(), progress.waits_for.end()),
                               progress.waits_for.end());
      return progress;
    });
  }

  void abandon(const std::string& why) noexcept override {
    control_->abandon(why);
    steps_.clear();
    communicator_->fail();
  }

 private:
  struct Step {
    std::vector<std::vector<Message>> groups = {};  ///< not yet begun: the first is the next
    bool begun = false;                             ///< one of them is, and not yet queued
    cuda::EventHandle* mark = nullptr;              ///< behind the last
    std::vector<int> peers = {};
  };

  void divide(std::span<const Part> parts, bool come, std::vector<Part>& host, Step& step) const {
    for (const auto& part : parts) {
      if (!part.on_device) {
        host.push_back(part);
        continue;
      }
      const int apart = ((come ? rank() - part.peer : part.peer - rank()) + ranks()) % ranks();
      const auto group = static_cast<std::size_t>(apart / kDistances);
      if (step.groups.size() <= group) step.groups.resize(group + 1);
      step.peers.push_back(part.peer);
      step.groups[group].push_back({.peer = part.peer, .data = part.data, .bytes = part.bytes, .comes = come});
    }
  }

  /// Begins what can begin, in the order of posting, and sees what is done.
  Status advance() {
    for (auto& step : steps_) {
      while (step.begun || !step.groups.empty()) {
        WEFT_TRY(const bool ready, communicator_->is_ready());
        if (!ready) return pass();
        if (step.begun) {
          step.begun = false;
          step.groups.erase(step.groups.begin());
          if (!step.groups.empty()) continue;
          WEFT_TRY(step.mark, communicator_->mark());
          break;
        }
        if (!step.groups.front().empty()) WEFT_CHECK(communicator_->post(step.groups.front()));
        step.begun = true;
      }
    }
    return pass();
  }

  Status pass() {
    for (; !steps_.empty(); steps_.pop_front(), ++done_) {
      auto& step = steps_.front();
      if (step.begun || !step.groups.empty()) break;
      if (step.mark == nullptr) continue;
      WEFT_TRY(const bool passed, communicator_->has_passed(step.mark));
      if (!passed) break;
      communicator_->give_back(step.mark);
    }
    return done;
  }

  std::unique_ptr<Transport> control_;
  const std::uint64_t steps_before_;  ///< of `control_`, in which ranks met
  std::unique_ptr<nccl::Communicator> communicator_;
  const int device_;
  std::deque<Step> steps_;
  std::uint64_t done_ = 0;
};

/// What each rank says of itself when they meet.
struct Introduction {
  std::array<char, 160> gpu = {};  ///< which machine's
  nccl::UniqueId id = {};          ///< rank 0's counts
  int version = 0;
};

/// As NCCL tells machines apart.
std::string name_of_machine() {
  if (const char* const said = std::getenv("NCCL_HOSTID"); said != nullptr && *said != '\0') return said;
  std::array<char, 64> host = {};
  ::gethostname(host.data(), host.size() - 1);
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return fmt::format("{} {}", host.data(), boot.substr(0, 8));
}

/// Of all machines.
std::string name_of_gpu(const cuda::Device& device) {
  std::array<char, 64> bus = {};
  const auto& functions = device.driver().functions();
  if (functions.cuDeviceGetPCIBusId == nullptr ||
      functions.cuDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), device.handle()) != cuda::kSuccess)
    fmt::format_to_n(bus.data(), bus.size() - 1, "{}", device.info().number);
  return fmt::format("{} of {}", bus.data(), name_of_machine());
}

Status check_meeting(std::span<const Introduction> all) {
  const auto wrong = [](std::string message) {
    auto error = user_error(std::move(message));
    error.code = ErrorCode::ring_mismatch;
    return error;
  };
  for (std::size_t a = 0; a < all.size(); ++a) {
    if (all[a].version != all[0].version)
      return wrong(fmt::format("the ranks of the ring have different NCCLs: rank 0 has {}, rank {} has {}",
                               nccl::text_of(all[0].version), a, nccl::text_of(all[a].version)));
    for (std::size_t b = 0; b < a; ++b) {
      if (all[a].gpu == all[b].gpu)
        return wrong(
            fmt::format("ranks {} and {} have the same GPU, {}: NCCL wants one for each", b, a, all[a].gpu.data()));
    }
  }
  return done;
}

/// Until all ranks are connected.
Status wait(Link& link, const nccl::Communicator& communicator, std::int64_t timeout_ms) {
  const auto late = Clock::now() + std::chrono::milliseconds(timeout_ms);
  while (true) {
    WEFT_TRY(const bool ready, communicator.is_ready());
    if (ready) return agree(link, {{"way to travel", "NCCL"}});
    WEFT_CHECK(link.steps_done());
    if (Clock::now() > late) {
      auto error = environment_error(fmt::format("NCCL has not connected the ranks in {} ms", timeout_ms));
      error.code = ErrorCode::ring_lost;
      return error;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

/// Connects; `link` tells of ranks that are lost meanwhile.
Result<std::unique_ptr<nccl::Communicator>> connect(Link& link, const NcclOptions& options,
                                                    std::shared_ptr<const cuda::Device> device) {
  WEFT_TRY(const auto* const library, nccl::open());
  WEFT_CHECK(nccl::check_driver(*device));
  std::vector<Introduction> all(static_cast<std::size_t>(link.ranks()));
  Introduction mine{.version = library->version};
  name_of_gpu(*device).copy(mine.gpu.data(), mine.gpu.size() - 1);
  if (link.rank() == 0) {
    WEFT_TRY(const auto current, cuda::Current::make(*device));
    WEFT_CHECK(library->check(library->functions.GetUniqueId(&mine.id), "ncclGetUniqueId", nullptr));
  }
  WEFT_TRY(const auto said, said_by_all(link, {reinterpret_cast<const char*>(&mine), sizeof mine}));
  std::memcpy(all.data(), said.data(), said.size());
  WEFT_CHECK(check_meeting(all));
  WEFT_TRY(auto communicator,
           nccl::Communicator::begin(*library, std::move(device), all[0].id, link.rank(), link.ranks()));
  if (auto connected = wait(link, *communicator, options.timeout_ms); !connected) {
    communicator->fail();
    return connected.error();
  }
  return communicator;
}

}  // namespace

Result<std::unique_ptr<Transport>> nccl_transport(std::unique_ptr<Transport> control, const NcclOptions& options) {
  return guarded([&]() -> Result<std::unique_ptr<Transport>> {
    if (!control) return user_error("NCCL moves a GPU's memory only: a ring needs another transport beside it");
    std::uint64_t steps = 0;
    auto communicator = [&]() -> Result<std::unique_ptr<nccl::Communicator>> {
      Link link(std::make_unique<Lent>(*control, steps), options.timeout_ms);
      auto made = [&]() -> Result<std::unique_ptr<nccl::Communicator>> {
        WEFT_TRY(auto driver, cuda::Driver::open());
        WEFT_TRY(auto device, cuda::Device::open(std::move(driver), options.device));
        return connect(link, options, std::move(device));
      }();
      if (!made) return link.give_up(made.error());
      return made;
    }();
    if (!communicator) return communicator.error();
    std::unique_ptr<Transport> out =
        std::make_unique<NcclTransport>(std::move(control), steps, std::move(*communicator), options.device);
    return out;
  });
}

}  // namespace weft
