#include "compiler/base/guarded.h"
#include "runtime/ring/mpi/plugin.h"

#include <weft/ring.h>

#include <fmt/format.h>

namespace weft {

namespace {

Error broken(const char* wrong, ErrorCode code = ErrorCode::ring_transport) {
  auto error = environment_error(fmt::format("MPI: {}", wrong));
  error.code = code;
  return error;
}

/// Requests are the plug-in's addresses of MPI's own.
class MpiMessenger final : public Messenger {
 public:
  MpiMessenger(const mpi::Plugin& mpi, int rank, int ranks) : mpi_(mpi), rank_(rank), ranks_(ranks) {}

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }

  Result<std::uint64_t> send(int peer, int tag, const void* data, std::size_t bytes) override {
    void* request = nullptr;
    const char* const wrong = mpi_.weft_mpi_send(peer, tag, data, static_cast<int>(bytes), &request);
    return begun(wrong, request);
  }
  Result<std::uint64_t> receive(int peer, int tag, void* data, std::size_t bytes) override {
    void* request = nullptr;
    const char* const wrong = mpi_.weft_mpi_receive(peer, tag, data, static_cast<int>(bytes), &request);
    return begun(wrong, request);
  }
  Result<std::optional<std::size_t>> test(std::uint64_t request) override {
    void* at = reinterpret_cast<void*>(request);
    int is_done = 0, bytes = 0;
    if (const char* const wrong = mpi_.weft_mpi_test(&at, &is_done, &bytes); wrong != nullptr) return broken(wrong);
    return is_done != 0 ? std::optional(static_cast<std::size_t>(bytes)) : std::nullopt;
  }
  void cancel(std::uint64_t request) noexcept override { mpi_.weft_mpi_cancel(reinterpret_cast<void*>(request)); }

 private:
  static Result<std::uint64_t> begun(const char* wrong, void* request) {
    if (wrong != nullptr) return broken(wrong);
    return reinterpret_cast<std::uint64_t>(request);
  }

  const mpi::Plugin& mpi_;
  const int rank_, ranks_;
};

}  // namespace

Result<std::unique_ptr<Transport>> mpi_transport() {
  return guarded([&]() -> Result<std::unique_ptr<Transport>> {
    WEFT_TRY(const auto* const plugin, mpi::open_plugin());
    int rank = 0, ranks = 1;
    if (const char* const wrong = plugin->weft_mpi_start(&rank, &ranks); wrong != nullptr)
      return broken(fmt::format("it does not start: {}", wrong).c_str(), ErrorCode::ring_start);
    return message_transport(std::make_unique<MpiMessenger>(*plugin, rank, ranks));
  });
}

void end_mpi(int status) {
  (void)guarded([&]() -> Status {
    WEFT_TRY(const auto* const plugin, mpi::open_plugin());
    plugin->weft_mpi_end(status);
    return done;
  });
}

}  // namespace weft
