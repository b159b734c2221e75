#pragma once

#include "runtime/cuda/device.h"
#include "runtime/ring/nccl/library.h"

#include <chrono>
#include <memory>
#include <span>
#include <vector>

namespace weft::nccl {

/// A rank's end of NCCL's communicator, which does not block, and the stream that it works on. One thread at a time.
class Communicator {
 public:
  /// Begins to connect: done where is_ready() says so.
  static Result<std::unique_ptr<Communicator>> begin(const Library& library, std::shared_ptr<const cuda::Device> device,
                                                     const UniqueId& id, int rank, int ranks);
  /// Waits for what is under way, or after fail() for nothing.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// What was begun last is queued on the stream: the next may begin. Error where this rank's end, or another's, broke.
  Result<bool> is_ready() const;

  struct Message {
    int peer = 0;
    void* data = nullptr;
    std::size_t bytes = 0;
    bool comes = false;
  };
  /// Begins messages that wait for each other; not before is_ready().
  Status post(std::span<const Message> messages) const;

  /// Marks on the stream: nothing from before it is under way any more where `has_passed`. To be given back.
  Result<cuda::EventHandle*> mark();
  Result<bool> has_passed(cuda::EventHandle* mark) const;
  void give_back(cuda::EventHandle* mark) { free_.push_back(mark); }

  /// Others are gone, or are to know: what is under way ends.
  void fail() noexcept { end(true); }

 private:
  Communicator(const Library& library, std::shared_ptr<const cuda::Device> device)
      : library_(library), device_(std::move(device)) {}
  void end(bool abort) noexcept;
  Status check(int result, const char* call) const { return library_.check(result, call, comm_); }

  const Library& library_;
  std::shared_ptr<const cuda::Device> device_;
  cuda::StreamHandle* stream_ = nullptr;
  CommHandle* comm_ = nullptr;
  std::vector<cuda::EventHandle*> marks_, free_;
};

/// Environment error where the driver is too old.
Status check_driver(const cuda::Device& device);

}  // namespace weft::nccl
