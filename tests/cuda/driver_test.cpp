/// Every call of the driver against a stand-in that writes them down: order, arguments, failures, leaks.

#include "fixture.h"
#include "runtime/cuda/examine.h"
#include "runtime/cuda/memory.h"
#include "runtime/cuda/module.h"
#include "runtime/cuda/sparse.h"
#include "runtime/cuda/timer.h"

#include <algorithm>
#include <thread>

namespace weft::test {
namespace {

using namespace weft::cuda;

class CudaDriver : public WithStandIn {
 protected:
  std::shared_ptr<const Device> open(int number = 0) {
    auto driver = Driver::open();
    if (!driver) throw std::runtime_error(driver.error().message);
    auto device = Device::open(*driver, number);
    if (!device) throw std::runtime_error(device.error().message);
    return *device;
  }
};

/// Everything that a kernel's life consists of. `before_the_end` is called when only cleaning up is left.
Status live_once(const std::function<void()>& before_the_end) {
  WEFT_TRY(auto driver, Driver::open());
  WEFT_TRY(const auto device, Device::open(std::move(driver), 0));
  WEFT_TRY(const auto module, Module::load(device, cubin_of("weft_kernel"), "weft_kernel", "p"));
  WEFT_CHECK(module->allow_shared(64 << 10));
  const std::vector<std::byte> host(1000, std::byte{7});
  WEFT_TRY(auto tables, Buffer::upload(device, host.data(), host.size()));
  BufferPool pool;
  WEFT_TRY(auto scratch, pool.take(device, nullptr, 100));
  WEFT_TRY(const auto timer, Timer::make(device));
  {
    WEFT_TRY(const auto current, Current::make(*device));
    WEFT_TRY(const auto problem, pointer_problem(*device, tables.data()));
    if (!problem.empty()) return internal_error(problem);
    weft_args args{};
    WEFT_CHECK(timer.start(nullptr));
    WEFT_CHECK(module->launch({.blocks = 3, .threads = 128, .shared_bytes = 100}, &args, nullptr));
    WEFT_TRY(const double ms, timer.stop(nullptr));
    if (ms != 1.5) return internal_error("the time is another");
  }
  pool.give_back(nullptr, std::move(scratch));
  std::vector<std::byte> back(host.size());
  WEFT_CHECK(tables.copy_out(back.data(), back.size()));
  if (back != host) return internal_error("the bytes are others");
  before_the_end();
  return done;
}

/// What is used keeps its bytes, whatever is written elsewhere; the rest reads as zeros while nobody writes there.
TEST_F(CudaDriver, SparseMemoryIsThereWhereItIsUsed) {
  constexpr std::size_t kGranule = 4096, kSize = 100 * kGranule;
  const auto device = open();
  driver().granule = kGranule;
  {
    const auto made =
        SparseBuffer::make(device, kSize - 100, {{5000, 9000}, {8000, 12'000}, {kSize - 200, kSize - 100}});
    ASSERT_TRUE(made.ok()) << made.error().message;
    ASSERT_TRUE(*made);
    auto* const bytes = static_cast<unsigned char*>((*made)->data());
    EXPECT_TRUE(std::all_of(bytes, bytes + kSize, [](auto byte) { return byte == 0; }));
    std::fill(bytes + 5000, bytes + 12'000, 7);
    bytes[kSize - 150] = 8;
    EXPECT_EQ(bytes[50 * kGranule], 0);
    std::fill(bytes + 3 * kGranule, bytes + 99 * kGranule, 9);
    EXPECT_TRUE(std::all_of(bytes + 5000, bytes + 12'000, [](auto byte) { return byte == 7; }));
    EXPECT_EQ(bytes[kSize - 150], 8);
    // Two granules of the first ranges, one of the last, and those that holes are seen as.
    EXPECT_LE(driver().all_created, 5 * kGranule);
  }
  EXPECT_EQ(driver().reserved.size() + driver().mapped.size() + driver().created.size(), 0U);
  const auto none = SparseBuffer::make(device, kSize, {{0, kSize / 10 * 8}});
  EXPECT_TRUE(none.ok() && *none == nullptr) << "little would be saved";
  driver().granule = 0;
  const auto unable = SparseBuffer::make(device, kSize, {{0, 1}});
  EXPECT_TRUE(unable.ok() && *unable == nullptr);
}

TEST_F(CudaDriver, SparseMemoryIsGivenBackWhereACallFails) {
  const auto device = open();
  int failed = 0;
  for (int call = 0; call < 200; ++call) {
    driver().forget();
    driver().granule = 4096;
    driver().fail_at = call;
    const auto made = SparseBuffer::make(device, 40 * 4096, {{0, 100}, {50'000, 60'000}});
    driver().fail_at = -1;
    if (driver().failed.empty()) break;
    failed += made.ok() ? 0 : 1;
    // A driver that does not say whether it can is one that cannot.
    EXPECT_TRUE(!made.ok() || (driver().failed == "cuDeviceGetAttribute" && *made == nullptr)) << driver().failed;
    EXPECT_EQ(driver().reserved.size() + driver().mapped.size() + driver().created.size(), 0U) << driver().failed;
  }
  EXPECT_GT(failed, 40);
}

TEST_F(CudaDriver, ListsDevices) {
  driver().devices = {{"Old", 35}, {"Pascal", 61}, {"Ampere", 87}, {"Hopper", 90}};
  const auto found = Driver::open();
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_EQ((*found)->version_text(), "12.4");
  const auto& devices = (*found)->devices();
  ASSERT_EQ(devices.size(), 4u);
  EXPECT_FALSE(devices[0].target);
  EXPECT_EQ(devices[1].target->name, "sm_61");
  EXPECT_EQ(devices[2].target->name, "sm_86");
  EXPECT_EQ(devices[3].target->name, "sm_90a");
  EXPECT_EQ(devices[1].name, "Pascal");
  EXPECT_EQ(devices[1].multiprocessors, 20);
  EXPECT_EQ(driver().calls.front().name, "cuInit");
}

TEST_F(CudaDriver, OpenedOncePerName) {
  ASSERT_TRUE(Driver::open().ok());
  ASSERT_TRUE(Driver::open().ok());
  EXPECT_EQ(driver().count("cuInit"), 1u);
}

TEST_F(CudaDriver, AMachineWithoutDriverOrGpu) {
  ::setenv("WEFT_CUDA_DRIVER", "/nowhere/libcuda.so.1", 1);
  const auto none = Driver::open();
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().kind, ErrorKind::environment);
  EXPECT_NE(none.error().message.find("/nowhere/libcuda.so.1"), std::string::npos);
  EXPECT_FALSE(examine().usable);
  EXPECT_FALSE(examine().mend.empty());

  driver().devices.clear();
  new_name();
  const auto empty = Driver::open();
  ASSERT_TRUE(empty.ok()) << empty.error().message;
  EXPECT_TRUE((*empty)->devices().empty());
  EXPECT_EQ(examine().reason, "the driver finds no GPU");
  EXPECT_EQ(Device::open(*empty, 0).error().kind, ErrorKind::environment);
}

TEST_F(CudaDriver, ALibraryThatIsNoDriverNamesWhatItLacks) {
  ::setenv("WEFT_CUDA_DRIVER", "libm.so.6", 1);
  const auto wrong = Driver::open();
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().kind, ErrorKind::environment);
  EXPECT_NE(wrong.error().message.find("it has no function cuInit"), std::string::npos);
}

TEST_F(CudaDriver, ExamineDescribesGpus) {
  const auto report = examine();
  EXPECT_TRUE(report.usable);
  EXPECT_EQ(report.version, "12.4");
  ASSERT_EQ(report.devices.size(), 1u);
  EXPECT_EQ(describe(report.devices[0]),
            "GPU 0: Stand-in 6.1, compute capability 6.1, 20 SMs, 8.6 GB, runs kernels for sm_61");
}

TEST_F(CudaDriver, ThePrimaryContextIsSharedAndReleased) {
  {
    const auto first = open(), second = open();
    EXPECT_EQ(first, second);
    EXPECT_EQ(driver().contexts, 1);
  }
  expect_nothing_alive();
  EXPECT_EQ(driver().count("cuDevicePrimaryCtxRelease_v2"), 1u);
}

TEST_F(CudaDriver, ADeviceThatIsNotThere) {
  const auto found = Driver::open();
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(Device::open(*found, 1).error().message, "there is no GPU 1; this machine has 1, numbered from 0");
  EXPECT_FALSE(Device::open(*found, -1).ok());
}

TEST_F(CudaDriver, TheCallersContextIsUsedOrPutBack) {
  const auto device = open();
  for (auto before : {std::uint64_t{0}, std::uint64_t{0x77}, primary(0)}) {
    set_current(before);
    driver().forget();
    {
      const auto made = Current::make(*device);
      ASSERT_TRUE(made.ok());
      EXPECT_EQ(current(), primary(0));
    }
    EXPECT_EQ(current(), before);
    EXPECT_EQ(driver().count("cuCtxPushCurrent_v2"), before == primary(0) ? 0u : 1u);
  }
}

TEST_F(CudaDriver, LaunchHandsOverEveryArgument) {
  const auto device = open();
  const auto module = Module::load(device, cubin_of("weft_kernel"), "weft_kernel", "p");
  ASSERT_TRUE(module.ok()) << module.error().message;
  EXPECT_EQ(driver().images.at(0), cubin_of("weft_kernel"));
  EXPECT_EQ(driver().symbols, std::vector<std::string>{"weft_kernel"});
  weft_args args;
  std::memset(&args, 0x5a, sizeof args);
  const auto current = Current::make(*device);
  ASSERT_TRUE(current.ok());
  const auto status = (*module)->launch({.blocks = kMostBlocks, .threads = 256, .shared_bytes = 48 << 10}, &args,
                                        reinterpret_cast<StreamHandle*>(0x99));
  ASSERT_TRUE(status.ok()) << status.error().message;
  ASSERT_EQ(driver().launches.size(), 1u);
  const auto& launched = driver().launches[0];
  EXPECT_EQ(launched.grid[0], 0x7fffffffU);
  EXPECT_EQ(launched.grid[1] * launched.grid[2] * launched.block[1] * launched.block[2], 1u);
  EXPECT_EQ(launched.block[0], 256u);
  EXPECT_EQ(launched.shared_bytes, 48u << 10);
  EXPECT_EQ(launched.stream, 0x99u);
  EXPECT_EQ(launched.context, primary(0));
  EXPECT_EQ(std::memcmp(&launched.args, &args, sizeof args), 0);
}

/// A cubin of several kernels is loaded once, and stays for the last of them.
TEST_F(CudaDriver, SiblingsShareWhatIsLoaded) {
  const auto device = open();
  auto module = Module::load(device, cubin_of("weft_prepass weft_kernel"), "weft_kernel", "p");
  ASSERT_TRUE(module.ok()) << module.error().message;
  auto sibling = (*module)->sibling("weft_prepass");
  ASSERT_TRUE(sibling.ok()) << sibling.error().message;
  EXPECT_EQ(driver().images.size(), 1u);
  EXPECT_EQ(driver().symbols, (std::vector<std::string>{"weft_kernel", "weft_prepass"}));
  EXPECT_FALSE((*module)->sibling("weft_other").ok());
  *module = nullptr;
  EXPECT_EQ(driver().modules, 1);
  {
    const auto current = Current::make(*device);
    ASSERT_TRUE(current.ok());
    weft_args args{};
    ASSERT_TRUE((*sibling)->launch({.blocks = 1, .threads = 128}, &args, nullptr).ok());
    EXPECT_EQ(driver().functions.at(driver().launches.at(0).function), "weft_prepass");
  }
  *sibling = nullptr;
  EXPECT_EQ(driver().modules, 0);
}

TEST_F(CudaDriver, SharedMemoryAboveTheDefaultIsAskedFor) {
  const auto module = Module::load(open(), cubin_of("k"), "k", "p");
  ASSERT_TRUE(module.ok());
  ASSERT_TRUE((*module)->allow_shared(48 << 10).ok());
  EXPECT_EQ(driver().count("cuFuncSetAttribute"), 0u);
  ASSERT_TRUE((*module)->allow_shared((48 << 10) + 16).ok());
  EXPECT_EQ(driver().function_attributes, (std::map<int, int>{{kFunctionMostDynamicShared, (48 << 10) + 16}}));
  // A launch of fewer heads takes nothing from one of more.
  ASSERT_TRUE((*module)->allow_shared(90 << 10).ok());
  ASSERT_TRUE((*module)->allow_shared((48 << 10) + 16).ok());
  EXPECT_EQ(driver().function_attributes, (std::map<int, int>{{kFunctionMostDynamicShared, 90 << 10}}));
}

TEST_F(CudaDriver, ARefusedLaunchSaysWhatWasAsked) {
  const auto device = open();
  const auto module = Module::load(device, cubin_of("k"), "k", "longnet");
  ASSERT_TRUE(module.ok());
  const auto current = Current::make(*device);
  weft_args args{};
  const auto refused = (*module)->launch({.blocks = 1, .threads = 4096}, &args, nullptr);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message, "cuLaunchKernel: error 1 (the driver does not say more)");
  ASSERT_EQ(refused.error().notes.size(), 1u);
  EXPECT_EQ(refused.error().notes[0],
            "longnet on Stand-in 6.1: 1 blocks of 4096 threads with 0 bytes of shared memory");
}

TEST_F(CudaDriver, BytesThatAreNoCubinNeverReachTheDriver) {
  const auto device = open();
  for (const std::string& bytes : {std::string(), std::string("// .version 8.0"), cubin_of("k").substr(0, 40)}) {
    const auto wrong = Module::load(device, bytes, "k", "p");
    ASSERT_FALSE(wrong.ok());
    EXPECT_EQ(wrong.error().kind, ErrorKind::internal);
  }
  EXPECT_EQ(driver().count("cuModuleLoadData"), 0u);
}

TEST_F(CudaDriver, HostPointersAreFoundOut) {
  const auto device = open();
  const auto current = Current::make(*device);
  const auto buffer = Buffer::allocate(device, 64);
  ASSERT_TRUE(buffer.ok());
  int host = 0;
  EXPECT_EQ(*pointer_problem(*device, buffer->data()), "");
  EXPECT_EQ(*pointer_problem(*device, static_cast<std::byte*>(buffer->data()) + 63), "");
  EXPECT_NE(pointer_problem(*device, &host)->find("host memory"), std::string::npos);
}

TEST_F(CudaDriver, NoBytesAreNoCalls) {
  const auto device = open();
  driver().forget();
  const auto nothing = Buffer::upload(device, nullptr, 0);
  ASSERT_TRUE(nothing.ok());
  EXPECT_EQ(nothing->data(), nullptr);
  EXPECT_TRUE(nothing->copy_out(nullptr, 0).ok());
  EXPECT_TRUE(driver().calls.empty());
}

TEST_F(CudaDriver, PoolServesAStreamItsOwnBuffers) {
  const auto device = open();
  auto* const one = reinterpret_cast<StreamHandle*>(0x10);
  auto* const two = reinterpret_cast<StreamHandle*>(0x20);
  BufferPool pool;
  auto a = pool.take(device, one, 1000);
  ASSERT_TRUE(a.ok());
  void* const address = a->data();
  pool.give_back(one, std::move(*a));
  const auto other = pool.take(device, two, 1000);
  ASSERT_TRUE(other.ok());
  EXPECT_NE(other->data(), address) << "another stream may still be computing in it";
  const auto before = driver().calls.size();
  auto again = pool.take(device, one, 900);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->data(), address);
  EXPECT_EQ(driver().calls.size(), before) << "a warm take calls the driver";
  pool.give_back(one, std::move(*again));
  const auto larger = pool.take(device, one, 2000);
  ASSERT_TRUE(larger.ok());
  EXPECT_EQ(larger->size(), 2000u);
  EXPECT_EQ(driver().memory.count(reinterpret_cast<std::uint64_t>(address)), 0u) << "the small one is kept";
}

TEST_F(CudaDriver, PoolKnowsTheStreamThatIsAnotherInEachThread) {
  const auto device = open();
  auto* const per_thread = reinterpret_cast<StreamHandle*>(kStreamPerThread);
  BufferPool pool;
  auto mine = pool.take(device, per_thread, 64);
  ASSERT_TRUE(mine.ok());
  void* const address = mine->data();
  pool.give_back(per_thread, std::move(*mine));
  std::thread([&] {
    const auto theirs = pool.take(device, per_thread, 64);
    ASSERT_TRUE(theirs.ok());
    EXPECT_NE(theirs->data(), address);
  }).join();
}

TEST_F(CudaDriver, ControlALifeWithoutTrouble) {
  bool finished = false;
  const auto status = live_once([&] { finished = true; });
  ASSERT_TRUE(status.ok()) << status.error().message;
  EXPECT_TRUE(finished);
  EXPECT_EQ(driver().launches.size(), 1u);
  expect_nothing_alive();
  EXPECT_EQ(current(), 0u);
}

/// Each call that can fail does once: the error names it, and nothing stays behind.
TEST_F(CudaDriver, EveryFailureIsTypedAndLeaksNothing) {
  std::map<std::string, int> failed;
  for (int at = 0;; ++at) {
    ASSERT_LT(at, 500);
    new_name();
    driver().forget();
    driver().fail_at = at;
    const auto status = live_once([&] { driver().fail_at = -1; });
    if (driver().failed.empty()) {
      EXPECT_TRUE(status.ok());
      break;
    }
    ++failed[driver().failed];
    ASSERT_FALSE(status.ok()) << driver().failed;
    EXPECT_EQ(status.error().kind, ErrorKind::environment);
    EXPECT_EQ(status.error().message.find(driver().failed.substr(0, driver().failed.find("_v2"))), 0u)
        << status.error().message << " after " << driver().failed;
    EXPECT_NE(status.error().message.find("CUDA_ERROR_OUT_OF_MEMORY (out of memory)"), std::string::npos);
    EXPECT_EQ(current(), 0u) << driver().failed;
    expect_nothing_alive();
  }
  EXPECT_GE(failed.size(), 18u);
}

/// Launches are asynchronous: a fault is reported by whichever call comes next.
TEST_F(CudaDriver, AKernelsOwnFaultIsADefectAndAnEarlierOneIsNot) {
  const auto device = open();
  const auto timer = Timer::make(device);
  ASSERT_TRUE(timer.ok());
  driver().fail_with = 700;
  driver().fail_at = 2;  // behind cuCtxGetCurrent and cuEventRecord of stop()
  set_current(primary(0));
  const auto own = timer->stop(nullptr);
  EXPECT_EQ(driver().failed, "cuEventSynchronize");
  ASSERT_FALSE(own.ok());
  EXPECT_EQ(own.error().kind, ErrorKind::internal);
  EXPECT_EQ(own.error().message, "cuEventSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS (the driver does not say more)");
  EXPECT_TRUE(own.error().notes.empty());

  const auto earlier = device->driver().check(700, "cuMemAlloc_v2");
  ASSERT_FALSE(earlier.ok());
  EXPECT_EQ(earlier.error().kind, ErrorKind::environment);
  ASSERT_EQ(earlier.error().notes.size(), 2u);
  EXPECT_NE(earlier.error().notes[0].find("queued earlier"), std::string::npos);
}

/// The driver may return from a copy before the bytes have arrived, and the streams of callers need not wait for the
/// default one.
TEST_F(CudaDriver, UploadsHaveArrivedWhenTheyReturn) {
  const auto device = open();
  const int host = 7;
  driver().forget();
  ASSERT_TRUE(Buffer::upload(device, &host, sizeof host).ok());
  const auto at = [&](const std::string& name) {
    const auto& calls = driver().calls;
    return std::find_if(calls.begin(), calls.end(), [&](const auto& call) { return call.name == name; }) -
           calls.begin();
  };
  EXPECT_EQ(driver().count("cuStreamSynchronize"), 1u);
  EXPECT_LT(at("cuMemcpyHtoD_v2"), at("cuStreamSynchronize"));
}

}  // namespace
}  // namespace weft::test
