#include "ring_fixture.h"

#include "runtime/ring/views.h"

/// Messages travel over the host.
namespace weft::test {
namespace {

TEST_F(CudaRing, HasTheBitsOfOneLaunchAndGivesEverythingBack) {
  Problem problem(kBatch, kTokens, kHeads, kDim);
  {
    const Engine engine(options());
    const auto kernel = compile(engine, "pattern p { branch window(20, 3); }", f32());
    emulate(kernel);
    run_whole(kernel, problem);
    for (const auto carrier : {RingCarrier::keys, RingCarrier::heads}) {
      std::vector<float> of_ring(problem.out.size(), -1);
      for (const auto& status : run_ring(kernel, problem, carrier, of_ring))
        ASSERT_TRUE(status.ok()) << status.error().message;
      EXPECT_EQ(std::memcmp(of_ring.data(), problem.out.data(), of_ring.size() * sizeof(float)), 0);
    }
  }
  driver().on_launch = nullptr;
  expect_nothing_alive();
}

/// A rank's memory is that of the rows it has: beside them there are addresses, behind which zeros are seen.
TEST_F(CudaRing, TakesNoMemoryForRowsThatItDoesNotNeed) {
  Problem problem(1, 512, kHeads, kDim);
  {
    const Engine engine(options());
    const auto kernel = compile(engine, "pattern p { branch window(20, 3); }", f32());
    emulate(kernel);
    run_whole(kernel, problem);
    const auto run = driver().on_launch;
    const auto ring_of = [&](int ranks) {
      std::vector<float> of_ring(problem.out.size(), -1), unused(problem.out.size());
      for (const auto& status : on_ranks(
               [&](std::size_t rank, std::unique_ptr<Transport> transport) {
                 return run_rank(kernel, problem, std::move(transport), RingCarrier::keys, rank == 0 ? of_ring : unused,
                                 20'000, RingLayout::contiguous);
               },
               ranks))
        EXPECT_TRUE(status.ok()) << status.error().message;
      EXPECT_EQ(std::memcmp(of_ring.data(), problem.out.data(), of_ring.size() * sizeof(float)), 0);
      EXPECT_EQ(driver().reserved.size() + driver().mapped.size() + driver().created.size(), 0U);
    };
    const std::size_t granule = 4096, whole = 2 * problem.k.size() * sizeof(float);
    driver().forget();
    driver().on_launch = run;
    driver().granule = granule;
    ring_of(2);
    ring_of(4);
    const auto rows = [&](std::size_t ranks) { return whole / ranks; };
    // Of each head and tensor the rows of others begin and end a granule; and there are two that holes are seen as.
    const std::size_t most = 2 * (rows(2) + 8 * granule + 2 * granule) + 4 * (rows(4) + 8 * granule + 2 * granule);
    EXPECT_LE(driver().all_created, most);
    EXPECT_GT(driver().all_created, 2 * whole);
    // Too large a granule saves nothing.
    driver().forget();
    driver().on_launch = run;
    driver().granule = 65536;
    ring_of(2);
    EXPECT_EQ(driver().count("cuMemCreate"), 0U);
  }
  driver().on_launch = nullptr;
  expect_nothing_alive();
}

/// Of dQ those of its rows, of dK and dV those of its keys: ranks together do what one device does.
TEST_F(CudaRing, BackwardGoesThroughTheTilesOfARankAlone) {
  constexpr std::int64_t kMany = 1024;
  const Engine engine(options());
  auto compiling = f32();
  compiling.gradient = true;
  const auto kernel = compile(engine, "pattern p { keep causal; }", compiling);
  const auto device = device_of(kernel);
  const auto numbers = static_cast<std::size_t>(kMany * kHeads * kDim);
  std::vector<cuda::Buffer> buffers(8);
  for (auto& buffer : buffers) buffer = cuda::Buffer::allocate(device, numbers * sizeof(float)).value();
  const auto view = [&](std::size_t i, std::int64_t rows) {
    return dense_output(buffers[i].data(), DType::f32, {1, rows, kHeads, kDim});
  };
  const auto args = [&](auto out, std::int64_t rows) {
    out.q = operand(view(0, rows));
    out.k = operand(view(1, rows));
    out.v = operand(view(2, rows));
    out.out = view(3, rows);
    out.lse = dense_output(buffers[7].data(), DType::f32, {1, kHeads, rows});
    out.d_out = operand(view(0, rows));
    out.dq = view(4, rows);
    out.dk = view(5, rows);
    out.dv = view(6, rows);
    return out;
  };
  struct Blocks {
    unsigned of_terms = 0, of_tiles = 0;
  };
  const auto blocks = [&] {
    Blocks found;
    for (const auto& launched : driver().launches)
      (driver().functions.at(launched.function) == "weft_terms" ? found.of_terms : found.of_tiles) += launched.grid[0];
    driver().launches.clear();
    return found;
  };
  ASSERT_TRUE(kernel.run(args(RunArgs(), kMany)).ok());
  const auto whole = blocks();
  for (const auto layout : {RingLayout::contiguous, RingLayout::zigzag}) {
    const auto said = on_ranks([&](std::size_t, std::unique_ptr<Transport> transport) -> Status {
      WEFT_TRY(const auto ring, Ring::join(std::move(transport), {.layout = layout, .timeout_ms = 20'000}));
      WEFT_TRY(const auto plan, ring->plan(kernel, {1, kMany, kHeads, kHeads}));
      return plan->run(args(RingArgs(), plan->share().tokens));
    });
    for (const auto& status : said) ASSERT_TRUE(status.ok()) << status.error().message;
    const auto found = blocks();
    EXPECT_EQ(found.of_tiles, whole.of_tiles);
    // Terms are wanted of all rows that keep one's keys: by the first rank of all, by the second of its own.
    if (layout == RingLayout::contiguous) {
      EXPECT_EQ(2 * found.of_terms, 3 * whole.of_terms);
    }
  }
}

/// Whatever call of the driver fails, no rank waits for ever, and what went wrong is said.
TEST_F(CudaRing, AFailureEndsAllRanks) {
  const Problem problem(kBatch, kTokens, kHeads, kDim);
  const Engine engine(options());
  const auto kernel = compile(engine, "pattern p { branch window(20, 3); }", f32());
  std::vector<float> of_ring(problem.out.size());
  ASSERT_TRUE(run_ring(kernel, problem, RingCarrier::keys, of_ring)[0].ok());
  int failed = 0, call = 0;
  for (bool reached = true; reached; call += 7) {
    driver().forget();
    driver().fail_at = call;
    const auto said = run_ring(kernel, problem, call % 2 == 0 ? RingCarrier::keys : RingCarrier::heads, of_ring);
    reached = !driver().failed.empty();
    driver().fail_at = -1;
    if (!reached || (said[0].ok() && said[1].ok())) continue;  // what frees may fail
    ++failed;
    // A rank that had everything may have ended before.
    for (const auto& status : said) {
      if (!status.ok()) {
        EXPECT_EQ(status.error().kind, ErrorKind::environment) << status.error().message;
      }
    }
  }
  EXPECT_GT(failed, 10) << call;
  free_what_is_alive();
}

}  // namespace
}  // namespace weft::test
