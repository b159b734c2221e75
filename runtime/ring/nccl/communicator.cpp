#include "runtime/ring/nccl/communicator.h"

#include <future>
#include <thread>

namespace weft::nccl {

namespace {

/// NCCL may wait for ranks that are gone when its end is asked for; then what it holds stays.
constexpr std::chrono::seconds kEnding{5};

}  // namespace

Status check_driver(const cuda::Device& device) {
  const auto& functions = device.driver().functions();
  if (functions.cuStreamCreate != nullptr && functions.cuStreamDestroy_v2 != nullptr &&
      functions.cuEventQuery != nullptr)
    return done;
  return environment_error("the CUDA driver has no streams and events, which rings by NCCL need");
}

Result<std::unique_ptr<Communicator>> Communicator::begin(const Library& library,
                                                          std::shared_ptr<const cuda::Device> device,
                                                          const UniqueId& id, int rank, int ranks) {
  std::unique_ptr<Communicator> out(new Communicator(library, std::move(device)));
  // NCCL takes the GPU that is current.
  WEFT_TRY(const auto current, cuda::Current::make(*out->device_));
  WEFT_CUDA(out->device_->driver(), cuStreamCreate, (&out->stream_, cuda::kStreamOfItsOwn));
  Config config;
  WEFT_CHECK(out->check(library.functions.CommInitRankConfig(&out->comm_, ranks, id, rank, &config),
                        "ncclCommInitRankConfig"));
  return out;
}

Communicator::~Communicator() {
  end(false);
  const auto current = cuda::Current::make(*device_);
  const auto& functions = device_->driver().functions();
  for (auto* const mark : marks_) functions.cuEventDestroy_v2(mark);
  if (stream_ != nullptr) functions.cuStreamDestroy_v2(stream_);
}

Result<bool> Communicator::is_ready() const {
  int state = kSuccess;
  WEFT_CHECK(check(library_.functions.CommGetAsyncError(comm_, &state), "ncclCommGetAsyncError"));
  WEFT_CHECK(check(state, "NCCL"));
  return state == kSuccess;
}

Status Communicator::post(std::span<const Message> messages) const {
  WEFT_TRY(const auto current, cuda::Current::make(*device_));
  const auto& nccl = library_.functions;
  WEFT_CHECK(check(nccl.GroupStart(), "ncclGroupStart"));
  Status begun = done;
  for (const auto& message : messages) {
    begun = message.comes
                ? check(nccl.Recv(message.data, message.bytes, kInt8, message.peer, comm_, stream_), "ncclRecv")
                : check(nccl.Send(message.data, message.bytes, kInt8, message.peer, comm_, stream_), "ncclSend");
    if (!begun) break;
  }
  // A group that was begun ends, also where something in it failed.
  const auto ended = check(nccl.GroupEnd(), "ncclGroupEnd");
  return begun.ok() ? ended : begun;
}

Result<cuda::EventHandle*> Communicator::mark() {
  WEFT_TRY(const auto current, cuda::Current::make(*device_));
  if (free_.empty()) {
    cuda::EventHandle* made = nullptr;
    WEFT_CUDA(device_->driver(), cuEventCreate, (&made, cuda::kEventWithoutTime));
    marks_.push_back(made);
    free_.push_back(made);
  }
  auto* const mark = free_.back();
  free_.pop_back();
  WEFT_CUDA(device_->driver(), cuEventRecord, (mark, stream_));
  return mark;
}

Result<bool> Communicator::has_passed(cuda::EventHandle* mark) const {
  WEFT_TRY(const auto current, cuda::Current::make(*device_));
  const auto said = device_->driver().functions().cuEventQuery(mark);
  if (said == cuda::kErrorNotReady) return false;
  WEFT_CHECK(device_->driver().check(said, "cuEventQuery"));
  return true;
}

void Communicator::end(bool abort) noexcept {
  if (comm_ == nullptr) return;
  auto* const comm = std::exchange(comm_, nullptr);
  try {
    std::promise<void> ended;
    auto seen = ended.get_future();
    std::thread([&library = library_, device = device_, comm, abort, ended = std::move(ended)]() mutable {
      {
        const auto current = cuda::Current::make(*device);
        (void)(abort ? library.functions.CommAbort(comm) : library.functions.CommDestroy(comm));
      }
      device.reset();
      ended.set_value();
    }).detach();
    seen.wait_for(kEnding);
  } catch (...) {  // without a thread it stays
  }
}

}  // namespace weft::nccl
