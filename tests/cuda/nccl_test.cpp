#include "nccl/stand_in.h"
#include "ring_fixture.h"

#include <numeric>

/// Ranks on a GPU each, whose rows go from one to the other.
namespace weft::test {
namespace {

constexpr const char* kPattern = "pattern p { branch window(20, 3); }";

class NcclRing : public CudaRing {
 protected:
  NcclRing() {
    driver().devices = {{"Stand-in 6.1", 61}, {"Stand-in 6.1", 61}};
    new_name();
    void* const library = dlopen(WEFT_NCCL_STAND_IN, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw std::runtime_error(dlerror());
    nccl_ = reinterpret_cast<NcclStandIn* (*)()>(dlsym(library, "weft_nccl_stand_in"))();
    nccl_->forget();
    ::setenv("WEFT_NCCL", WEFT_NCCL_STAND_IN, 1);
  }
  ~NcclRing() override { ::unsetenv("WEFT_NCCL"); }

  NcclStandIn& nccl() { return *nccl_; }

  static std::vector<Kernel> kernels(const Engine& engine) {
    return {compile(engine, kPattern, f32("cuda:0")), compile(engine, kPattern, f32("cuda:1"))};
  }

  static std::vector<Status> run_ring(const std::vector<Kernel>& kernels, const Problem& problem, RingCarrier carrier,
                                      std::vector<float>& whole, std::int64_t timeout_ms = 20'000) {
    std::vector<float> unused(whole.size());
    return on_ranks([&](std::size_t rank, std::unique_ptr<Transport> control) -> Status {
      WEFT_TRY(auto transport,
               nccl_transport(std::move(control), {.device = static_cast<int>(rank), .timeout_ms = timeout_ms}));
      return run_rank(kernels[rank], problem, std::move(transport), carrier, rank == 0 ? whole : unused, timeout_ms);
    });
  }

  void expect_nothing_alive() {
    CudaRing::expect_nothing_alive();
    EXPECT_EQ(nccl().comms, 0);
    EXPECT_TRUE(nccl().misuse.empty()) << nccl().misuse.front();
  }

  /// A rank's bytes by the two carriers, over all ranks.
  static std::size_t bytes_by(RingCarrier carrier, const std::vector<Kernel>& kernels) {
    std::vector<std::size_t> sent(kRanks);
    on_ranks([&](std::size_t rank, std::unique_ptr<Transport> transport) -> Status {
      WEFT_TRY(const auto ring, Ring::join(std::move(transport), {.layout = RingLayout::zigzag, .carrier = carrier}));
      WEFT_TRY(const auto plan, ring->plan(kernels[rank], {kBatch, kTokens, kHeads, kHeads}));
      sent[rank] = plan->share().needed_bytes;
      return done;
    });
    return std::accumulate(sent.begin(), sent.end(), std::size_t{0});
  }

 private:
  NcclStandIn* nccl_ = nullptr;
};

TEST_F(NcclRing, HasTheBitsOfOneLaunchAndNothingGoesOverTheHost) {
  Problem problem(kBatch, kTokens, kHeads, kDim);
  {
    const Engine engine(options());
    const auto of_rank = kernels(engine);
    emulate(of_rank[0]);
    run_whole(of_rank[0], problem);
    for (const auto carrier : {RingCarrier::keys, RingCarrier::heads}) {
      const auto bytes = bytes_by(carrier, of_rank);
      driver().host_lines = 0;
      driver().unready_events = 5;
      nccl().forget();
      std::vector<float> of_ring(problem.out.size(), -1);
      for (const auto& status : run_ring(of_rank, problem, carrier, of_ring))
        ASSERT_TRUE(status.ok()) << status.error().message;
      EXPECT_EQ(std::memcmp(of_ring.data(), problem.out.data(), of_ring.size() * sizeof(float)), 0);
      EXPECT_EQ(nccl().bytes, bytes);
      // What is gathered is the only thing that the host sees: the rows of O.
      EXPECT_EQ(driver().host_lines, kBatch * kTokens * kHeads);
      EXPECT_EQ(driver().unready_events, 0);
    }
  }
  driver().on_launch = nullptr;
  expect_nothing_alive();
}

/// Whatever call of NCCL or of the driver fails, no rank waits for ever, and all is given back.
TEST_F(NcclRing, AFailureEndsAllRanks) {
  const Problem problem(kBatch, kTokens, kHeads, kDim);
  {
    const Engine engine(options());
    const auto of_rank = kernels(engine);
    std::vector<float> of_ring(problem.out.size());
    int failed = 0;
    for (int call = 0;; ++call) {
      nccl().forget();
      nccl().fail_at = call;
      const auto said = run_ring(of_rank, problem, call % 2 == 0 ? RingCarrier::keys : RingCarrier::heads, of_ring);
      if (nccl().fail_at >= 0) break;
      ++failed;
      EXPECT_FALSE(said[0].ok() && said[1].ok()) << call;
      for (const auto& status : said) {
        if (!status.ok()) {
          EXPECT_NE(status.error().message.find("system error"), std::string::npos) << status.error().message;
        }
      }
    }
    EXPECT_GT(failed, 20);
    nccl().forget();
  }
  expect_nothing_alive();
}

/// Likewise of the driver, though what could not be freed stays.
TEST_F(NcclRing, AFailureOfTheDriverEndsAllRanks) {
  const Problem problem(kBatch, kTokens, kHeads, kDim);
  const Engine engine(options());
  const auto of_rank = kernels(engine);
  std::vector<float> of_ring(problem.out.size());
  int refused = 0;
  for (int call = 3;; call += 17) {
    driver().forget();
    driver().fail_at = call;
    const auto said = run_ring(of_rank, problem, call % 2 == 0 ? RingCarrier::keys : RingCarrier::heads, of_ring, 700);
    if (driver().failed.empty()) break;
    refused += said[0].ok() && said[1].ok() ? 0 : 1;
  }
  EXPECT_GT(refused, 10);
  EXPECT_TRUE(nccl().misuse.empty()) << nccl().misuse.front();
  driver().forget();
  free_what_is_alive();
}

TEST_F(NcclRing, RanksThatDoNotMeetEndWithAWord) {
  const Problem problem(kBatch, kTokens, kHeads, kDim);
  {
    const Engine engine(options());
    const auto of_rank = kernels(engine);
    std::vector<float> whole(problem.out.size());
    nccl().connects = false;
    for (const auto& status : run_ring(of_rank, problem, RingCarrier::keys, whole, 300)) {
      ASSERT_FALSE(status.ok());
      EXPECT_NE(status.error().message.find("NCCL has not connected the ranks in 300 ms"), std::string::npos)
          << status.error().message;
      EXPECT_EQ(status.error().code, ErrorCode::ring_lost);
    }
    EXPECT_EQ(nccl().aborts, kRanks);

    nccl().forget();
    nccl().loses = true;
    for (const auto& status : run_ring(of_rank, problem, RingCarrier::keys, whole, 300)) {
      ASSERT_FALSE(status.ok());
      EXPECT_EQ(status.error().code, ErrorCode::ring_lost) << status.error().message;
    }
    EXPECT_EQ(nccl().aborts, kRanks);

    nccl().forget();
    const auto same = on_ranks([&](std::size_t, std::unique_ptr<Transport> control) -> Status {
      WEFT_TRY(const auto transport, nccl_transport(std::move(control)));
      return done;
    });
    for (const auto& status : same) {
      ASSERT_FALSE(status.ok());
      EXPECT_NE(status.error().message.find("ranks 0 and 1 have the same GPU, 0000:10:00.0"), std::string::npos)
          << status.error().message;
      EXPECT_EQ(status.error().code, ErrorCode::ring_mismatch);
    }

    // A kernel for one GPU, a transport of the other.
    for (const auto& status : run_ring({of_rank[0], of_rank[0]}, problem, RingCarrier::keys, whole)) {
      ASSERT_FALSE(status.ok());
      EXPECT_NE(status.error().message.find("compile it for 'cuda:1'"), std::string::npos) << status.error().message;
    }

    ::setenv("WEFT_NCCL", "/nowhere/libnccl.so", 1);
    const auto without = on_ranks([&](std::size_t rank, std::unique_ptr<Transport> control) -> Status {
      WEFT_TRY(const auto transport, nccl_transport(std::move(control), {.device = static_cast<int>(rank)}));
      return done;
    });
    for (const auto& status : without) {
      ASSERT_FALSE(status.ok());
      EXPECT_NE(status.error().message.find("/nowhere/libnccl.so"), std::string::npos) << status.error().message;
    }
  }
  expect_nothing_alive();
}

TEST_F(NcclRing, RanksHaveTheSameOne) {
  const auto other = folder_ + "/libnccl.so";
  std::filesystem::create_symlink(WEFT_NCCL_STAND_IN, other);
  const auto has_opened = [&] {
    const std::lock_guard lock(nccl().mutex);
    return !nccl().calls.empty();
  };
  const auto said = on_ranks([&](std::size_t rank, std::unique_ptr<Transport> control) -> Status {
    if (rank == 1) {
      while (!has_opened()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      nccl().version = 21806;
      ::setenv("WEFT_NCCL", other.c_str(), 1);
    }
    WEFT_TRY(const auto transport, nccl_transport(std::move(control), {.device = static_cast<int>(rank)}));
    return done;
  });
  for (const auto& status : said) {
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().message,
              "the ranks of the ring have different NCCLs: rank 0 has 2.18.5, rank 1 has 2.18.6");
    EXPECT_EQ(status.error().code, ErrorCode::ring_mismatch);
  }
}

/// One that is older than what is called of it.
TEST_F(NcclRing, AnOldOneIsRefused) {
  nccl().version = 21304;
  const auto link = folder_ + "/libnccl.so";
  std::filesystem::create_symlink(WEFT_NCCL_STAND_IN, link);
  ::setenv("WEFT_NCCL", link.c_str(), 1);
  auto transports = local_transports(1).value();
  const auto transport = nccl_transport(std::move(transports[0]));
  ASSERT_FALSE(transport.ok());
  EXPECT_NE(transport.error().message.find("is NCCL 2.13.4; rings need 2.14.0 or newer"), std::string::npos)
      << transport.error().message;
  EXPECT_EQ(transport.error().code, ErrorCode::ring_start);
}

}  // namespace
}  // namespace weft::test
