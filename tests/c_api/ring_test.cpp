#include <weft/c_ring.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

/// Rings by the C face: threads compute what one launch does, to the bit, and errors have their codes.
namespace weft {
namespace {

constexpr std::int64_t kTokens = 50, kDim = 8;
constexpr int kRanks = 3;

std::string message(weft_error* error) {
  const std::string out = error == nullptr ? "" : weft_error_message(error);
  weft_error_free(error);
  return out;
}

std::vector<float> numbers(int step) {
  std::vector<float> made(kTokens * kDim);
  for (std::size_t i = 0; i < made.size(); ++i) made[i] = static_cast<float>(static_cast<int>(i) * step % 17 - 8) / 8;
  return made;
}

weft_tensor rows(const std::vector<float>& of, std::int64_t count) {
  const std::int64_t extents[] = {1, count, 1, kDim};
  return weft_dense(of.data(), WEFT_F32, 4, extents);
}

/// Messages between threads, by functions that a program in C would write.
struct Box {
  struct Open {
    std::int32_t peer = 0, tag = 0;
    void* to = nullptr;  ///< null: one that is sent
    std::size_t bytes = 0;
  };
  std::mutex* mutex = nullptr;
  std::map<std::tuple<std::int32_t, std::int32_t, std::int32_t>, std::vector<std::string>>* letters = nullptr;
  std::int32_t rank = 0;
  std::map<std::uint64_t, Open> open = {};
  std::uint64_t last = 0;
  int sent = 0, refuses = -1;  ///< the number of the message that is refused
  int ended = 0, cancelled = 0;

  static Box& of(void* context) { return *static_cast<Box*>(context); }
  static const char* send(void* context, std::int32_t peer, std::int32_t tag, const void* data, std::size_t bytes,
                          std::uint64_t* request) {
    Box& box = of(context);
    const std::lock_guard lock(*box.mutex);
    if (box.sent++ == box.refuses) return "the line is cut";
    (*box.letters)[{peer, box.rank, tag}].emplace_back(static_cast<const char*>(data), bytes);
    *request = ++box.last;
    box.open[*request] = {.bytes = bytes};
    return nullptr;
  }
  static const char* receive(void* context, std::int32_t peer, std::int32_t tag, void* data, std::size_t bytes,
                             std::uint64_t* request) {
    Box& box = of(context);
    *request = ++box.last;
    box.open[*request] = {.peer = peer, .tag = tag, .to = data, .bytes = bytes};
    return nullptr;
  }
  static const char* test(void* context, std::uint64_t request, std::int32_t* is_done, std::size_t* bytes) {
    Box& box = of(context);
    const std::lock_guard lock(*box.mutex);
    const Open& open = box.open.at(request);
    *bytes = open.bytes;
    *is_done = 1;
    if (open.to != nullptr) {
      auto& letters = (*box.letters)[{box.rank, open.peer, open.tag}];
      *is_done = letters.empty() ? 0 : 1;
      if (letters.empty()) return nullptr;
      *bytes = letters.front().size();
      std::memcpy(open.to, letters.front().data(), std::min(*bytes, open.bytes));
      letters.erase(letters.begin());
    }
    box.open.erase(request);
    return nullptr;
  }
  static void cancel(void* context, std::uint64_t request) {
    of(context).cancelled += static_cast<int>(of(context).open.erase(request));
  }
  static void end(void* context) { ++of(context).ended; }
};

class CRing : public ::testing::Test {
 protected:
  void SetUp() override {
    weft_engine_options options = weft_engine_options_init();
    options.no_cache = 1;
    ASSERT_EQ(message(weft_engine_create(&options, &engine_)), "");
    weft_compile_options compile = weft_compile_options_init();
    compile.dim = kDim;
    compile.dtype = WEFT_F32;
    compile.target = "interpreter";
    const std::string text = "pattern p { branch window(9, 2); }";
    ASSERT_EQ(message(weft_compile(engine_, text.data(), text.size(), &compile, &kernel_)), "");
  }
  void TearDown() override {
    weft_kernel_destroy(kernel_);
    weft_engine_destroy(engine_);
  }

  /// What one rank does, up to its rows in `whole` on rank 0.
  std::string run(weft_transport* transport, std::vector<float>& whole) {
    const auto rank = weft_transport_rank(transport);
    weft_ring_options options = weft_ring_options_init();
    options.layout = WEFT_RING_ZIGZAG;
    options.timeout_ms = 10'000;
    weft_ring* ring = nullptr;
    weft_ring_plan* plan = nullptr;
    auto* error = weft_ring_join(transport, &options, &ring);
    if (error == nullptr) error = weft_ring_plan_create(ring, kernel_, {1, kTokens, 1, 1}, nullptr, 0, &plan);
    if (error == nullptr) {
      std::vector<float> mine[4];
      for (std::size_t number = 0; number < weft_ring_plan_run_count(plan, rank); ++number) {
        const auto own = weft_ring_plan_run(plan, rank, number);
        for (std::int64_t i = 0; i < own.count * kDim; ++i) {
          for (int t = 0; t < 3; ++t) mine[t].push_back(tensors_[t][static_cast<std::size_t>(own.first * kDim + i)]);
        }
      }
      mine[3].resize(mine[0].size());
      const auto count = weft_ring_plan_share(plan).tokens;
      EXPECT_STREQ(weft_ring_plan_carrier(plan), "keys");
      weft_ring_args args = weft_ring_args_init();
      args.q = rows(mine[0], count);
      args.k = rows(mine[1], count);
      args.v = rows(mine[2], count);
      args.out = rows(mine[3], count);
      error = weft_ring_run(plan, &args);
      if (error == nullptr) error = weft_ring_gather(plan, args.out, 1, rows(whole, kTokens));
      if (error == nullptr) {
        EXPECT_EQ(weft_ring_plan_share(plan).received_bytes, weft_ring_plan_share(plan).needed_bytes);
        EXPECT_GT(weft_ring_plan_share(plan).received_bytes, 0U);
      }
      EXPECT_STREQ(weft_ring_plan_layout(plan), "zigzag");
      EXPECT_EQ(weft_ring_plan_run_count(plan, kRanks), 0U);
    }
    if (error == nullptr) error = weft_ring_barrier(ring);
    weft_ring_plan_destroy(plan);
    weft_ring_destroy(ring);
    return message(error);
  }

  /// What one launch gives.
  std::vector<float> whole() const {
    std::vector<float> out(kTokens * kDim, NAN);
    weft_run_args args = weft_run_args_init();
    args.q = rows(tensors_[0], kTokens);
    args.k = rows(tensors_[1], kTokens);
    args.v = rows(tensors_[2], kTokens);
    args.out = rows(out, kTokens);
    EXPECT_EQ(message(weft_run(kernel_, &args)), "");
    return out;
  }

  /// What each rank says over messages of the program's own, of which rank 1 has one refused.
  std::vector<std::string> run_by_messages(int refuses, std::vector<float>& got) {
    std::mutex mutex;
    std::map<std::tuple<std::int32_t, std::int32_t, std::int32_t>, std::vector<std::string>> letters;
    std::vector<Box> boxes(kRanks);
    std::vector<std::string> said(kRanks);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kRanks; ++rank) {
      auto& box = boxes[static_cast<std::size_t>(rank)];
      box.mutex = &mutex;
      box.letters = &letters;
      box.rank = rank;
      if (rank == 1) box.refuses = refuses;
      weft_messenger messenger = weft_messenger_init();
      messenger.context = &box;
      messenger.rank = rank;
      messenger.ranks = kRanks;
      messenger.send = Box::send;
      messenger.receive = Box::receive;
      messenger.test = Box::test;
      messenger.cancel = Box::cancel;
      messenger.end = Box::end;
      weft_transport* transport = nullptr;
      EXPECT_EQ(message(weft_message_transport(&messenger, &transport)), "");
      threads.emplace_back([&, rank, transport] { said[static_cast<std::size_t>(rank)] = run(transport, got); });
    }
    for (auto& thread : threads) thread.join();
    for (const auto& box : boxes) {
      EXPECT_EQ(box.ended, 1);
      EXPECT_TRUE(box.open.empty()) << box.open.size();
      EXPECT_GT(box.cancelled, 0) << "signs of life are waited for to the end";
    }
    return said;
  }

  const std::vector<float> tensors_[3] = {numbers(5), numbers(7), numbers(3)};
  weft_engine* engine_ = nullptr;
  weft_kernel* kernel_ = nullptr;
};

TEST_F(CRing, ComputesWhatOneLaunchComputes) {
  const auto want = whole();
  std::vector<float> got(kTokens * kDim, NAN);
  weft_transport* transports[kRanks] = {};
  ASSERT_EQ(message(weft_local_transports(kRanks, transports)), "");
  EXPECT_EQ(weft_transport_ranks(transports[1]), kRanks);
  std::vector<std::string> said(kRanks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] { said[static_cast<std::size_t>(rank)] = run(transports[rank], got); });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& what : said) EXPECT_EQ(what, "");
  EXPECT_EQ(got, want);
}

TEST_F(CRing, GoesByMessagesOfTheProgram) {
  std::vector<float> got(kTokens * kDim, NAN);
  for (const auto& what : run_by_messages(-1, got)) EXPECT_EQ(what, "");
  EXPECT_EQ(got, whole());
  for (const auto& what : run_by_messages(9, got)) EXPECT_NE(what.find("the line is cut"), std::string::npos) << what;
}

TEST_F(CRing, MessengersThatAreNoneAreRefused) {
  weft_messenger messenger = weft_messenger_init();
  weft_transport* transport = nullptr;
  messenger.ranks = 2;
  EXPECT_NE(message(weft_message_transport(&messenger, &transport)).find("is NULL"), std::string::npos);
  messenger.send = Box::send;
  messenger.receive = Box::receive;
  messenger.test = Box::test;
  messenger.cancel = Box::cancel;
  messenger.rank = 2;
  EXPECT_EQ(message(weft_message_transport(&messenger, &transport)), "rank 2 of 2 is no rank of a ring");
  EXPECT_NE(message(weft_message_transport(nullptr, &transport)), "");
  messenger.rank = 0;
  EXPECT_NE(message(weft_message_transport(&messenger, nullptr)), "");
  EXPECT_EQ(transport, nullptr);
}

TEST_F(CRing, ErrorsSayWhatAndWhich) {
  weft_transport* transports[2] = {};
  ASSERT_EQ(message(weft_local_transports(2, transports)), "");
  weft_ring_options options = weft_ring_options_init();
  options.timeout_ms = 100;
  weft_ring* ring = nullptr;
  auto* error = weft_ring_join(transports[0], &options, &ring);  // the other never comes
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(weft_error_code_of(error), WEFT_ERROR_RING_LOST);
  EXPECT_EQ(weft_error_kind_of(error), WEFT_ERROR_ENVIRONMENT);
  weft_error_free(error);
  EXPECT_EQ(ring, nullptr);
  weft_transport_free(transports[1]);
  ASSERT_EQ(message(weft_local_transports(1, transports)), "");
  options.carrier = static_cast<weft_ring_carrier>(9);
  EXPECT_EQ(message(weft_ring_join(transports[0], &options, &ring)), "weft_ring_options::carrier is 9");
  ::setenv("WEFT_NCCL", "/nowhere/libnccl.so.2", 1);
  ::setenv("WEFT_CUDA_DRIVER", "/nowhere/libcuda.so.1", 1);
  ASSERT_EQ(message(weft_local_transports(1, transports)), "");
  weft_transport* none = transports[0];
  EXPECT_NE(message(weft_nccl_transport(transports[0], nullptr, &none)).find("/nowhere/"), std::string::npos);
  EXPECT_EQ(none, nullptr);
  EXPECT_NE(message(weft_nccl_transport(nullptr, nullptr, &none)), "");
  ::unsetenv("WEFT_NCCL");
  ::unsetenv("WEFT_CUDA_DRIVER");
  EXPECT_NE(message(weft_local_transports(0, transports)), "");
  EXPECT_NE(message(weft_local_transports(1, nullptr)), "");
  EXPECT_NE(message(weft_ring_join(nullptr, nullptr, &ring)), "");
  EXPECT_NE(message(weft_ring_barrier(nullptr)), "");
  EXPECT_NE(message(weft_ring_run(nullptr, nullptr)), "");
  EXPECT_NE(message(weft_ring_plan_create(nullptr, kernel_, {1, 1, 1, 1}, nullptr, 0, nullptr)), "");
  const int unknown = 7;
  std::memcpy(&options.layout, &unknown, sizeof unknown);
  ASSERT_EQ(message(weft_local_transports(1, transports)), "");
  EXPECT_NE(message(weft_ring_join(transports[0], &options, &ring)).find("layout is 7"), std::string::npos);
  EXPECT_EQ(weft_error_code_of(nullptr), WEFT_ERROR_OTHER);
  EXPECT_EQ(weft_ring_plan_run(nullptr, 0, 0).count, 0);
  weft_ring_destroy(nullptr);
  weft_ring_plan_destroy(nullptr);
}

}  // namespace
}  // namespace weft
