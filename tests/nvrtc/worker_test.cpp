#include "runtime/nvrtc/worker.h"

#include "planted.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

namespace weft::nvrtc {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;
/// A busy machine ends a worker later, but long before its work would end: half a minute, or an hour.
constexpr std::chrono::seconds kLate(5);

/// A sanitizer reserves terabytes of address space, which a memory limit counts.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kReserved = true;
#else
constexpr bool kReserved = false;
#endif

constexpr const char* kSmall = "extern \"C\" __global__ void weft_kernel(float* o) { o[threadIdx.x] *= 2.0f; }\n";

/// A table of a million entries in a few lines: 600 MB of the front end's memory.
constexpr const char* kHungry = R"(
#define TIMES16(x) x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x
__device__ const int table[] = {TIMES16(TIMES16(TIMES16(TIMES16(TIMES16(1)))))};
extern "C" __global__ void weft_kernel(int* o) { o[0] = table[o[1]]; }
)";

/// Straight-line code with long chains of dependencies: half a minute of NVRTC's time.
std::string endless(int lines) {
  std::string text = "extern \"C\" __global__ void weft_kernel(float* o, const float* b) {\n  float a[32];\n";
  for (int i = 0; i < 32; ++i) text += "  a[" + std::to_string(i) + "] = o[" + std::to_string(i) + "];\n";
  for (int i = 0; i < lines; ++i) {
    const auto a = [](int at) { return "a[" + std::to_string(at % 32) + "]"; };
    text += "  " + a(i) + " = " + a(i + 7) + " * b[" + std::to_string(i) + "] + " + a(i + 3) + " * o[" +
            std::to_string(i) + "];\n";
  }
  for (int i = 0; i < 32; ++i) text += "  o[" + std::to_string(i) + "] = a[" + std::to_string(i) + "];\n";
  return text + "}\n";
}

class NvrtcWorker : public testing::Test {
 protected:
  void SetUp() override { fs::create_directory(place_.path("tmp")); }

  std::shared_ptr<const Library> fake() { return *locate(named("sm_80"), plant(place_, kFake13_5)); }

  /// The error of a compilation under limits, which must not take `longer_than`.
  Error refused(const std::shared_ptr<const Library>& library, const std::string& text, const Limits& limits,
                const char* target = "sm_80") {
    const auto began = Clock::now();
    const auto result = compile(*library, text, named(target), {.pattern = "hat", .limits = limits});
    took_ = std::chrono::duration_cast<milliseconds>(Clock::now() - began);
    if (!result.ok()) return result.error();
    ADD_FAILURE() << "it compiled";
    return {};
  }

  Directory place_;
  Variable program_{"WEFT_WORKER", WEFT_WORKER_PROGRAM};
  Variable temporary_{"TMPDIR", place_.path("tmp")};
  milliseconds took_{0};
};

TEST_F(NvrtcWorker, GivesTheSameBytesUnderAnyEnvironment) {
  const auto library = library_for(named("sm_61"));
  ASSERT_NE(library, nullptr);
  const auto here = compile(*library, kSmall, named("sm_61"));
  ASSERT_TRUE(here.ok());
  Options apart{.limits = {.deadline = std::chrono::minutes(5)}};
  if (!kReserved) apart.limits.memory_bytes = std::uint64_t{8} << 30;
  const fs::path before = fs::current_path();
  for (const std::string& folder : {std::string("/"), place_.path()}) {
    for (const char* locale : {"C", "de_DE.UTF-8", "tr_TR.UTF-8"}) {
      const Variable language("LC_ALL", locale), home("HOME", folder), leak("NVCC_APPEND_FLAGS", "-lineinfo");
      fs::current_path(folder);
      const auto there = compile(*library, kSmall, named("sm_61"), apart);
      ASSERT_TRUE(there.ok()) << there.error().message;
      EXPECT_EQ(there->cubin, here->cubin);
      EXPECT_EQ(there->registers(), here->registers());
    }
  }
  fs::current_path(before);
}

TEST_F(NvrtcWorker, IsKilledAtItsDeadline) {
  const Error error = refused(fake(), "sleep", {.deadline = milliseconds(300)});
  EXPECT_EQ(error.kind, ErrorKind::environment);
  EXPECT_NE(error.message.find("pattern 'hat' for sm_80"), std::string::npos) << error.message;
  EXPECT_NE(error.message.find("deadline of 300 ms"), std::string::npos) << error.message;
  EXPECT_TRUE(mentions(error, "are in " + place_.path("tmp")));
  EXPECT_GE(took_, milliseconds(300));
  EXPECT_LE(took_, milliseconds(300) + kLate);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a process is left behind";
}

TEST_F(NvrtcWorker, IsKilledAtItsDeadlineInTheMiddleOfRealWork) {
  const auto library = library_for(named("sm_61"));
  ASSERT_NE(library, nullptr);
  const Error error = refused(library, endless(3000), {.deadline = milliseconds(1000)}, "sm_61");
  EXPECT_NE(error.message.find("deadline of 1000 ms"), std::string::npos) << error.message;
  EXPECT_LE(took_, milliseconds(1000) + kLate);
}

TEST_F(NvrtcWorker, RunsOutOfItsMemoryAndNobodyElseDoes) {
  if (kReserved) GTEST_SKIP() << "under a sanitizer";
  const auto library = library_for(named("sm_61"));
  ASSERT_NE(library, nullptr);
  const Limits enough{.memory_bytes = std::uint64_t{768} << 20};
  std::thread neighbour([&] {
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(compile(*library, kSmall, named("sm_61"), {.limits = enough}).ok());
      EXPECT_TRUE(compile(*library, kSmall, named("sm_61")).ok());
    }
  });
  // The library cannot be opened, the front end runs out, the assembler runs out.
  for (const std::uint64_t mebibytes : {16U, 200U, 400U}) {
    const Limits limits{.deadline = std::chrono::minutes(5), .memory_bytes = mebibytes << 20};
    const Error error = refused(library, kHungry, limits, "sm_61");
    EXPECT_EQ(error.kind, ErrorKind::environment);
    EXPECT_NE(error.message.find("memory limit of " + std::to_string(mebibytes) + " MiB"), std::string::npos)
        << error.message;
  }
  neighbour.join();
  EXPECT_TRUE(compile(*library, kHungry, named("sm_61"), {.limits = {.memory_bytes = std::uint64_t{4} << 30}}).ok())
      << "the control: nothing else is wrong with it";
}

TEST_F(NvrtcWorker, ADeathIsAnErrorThatNamesTheLimitIfThereIsOne) {
  const auto library = fake();
  const Error plain = refused(library, "abort", {.deadline = std::chrono::minutes(1)});
  EXPECT_EQ(plain.kind, ErrorKind::environment);
  EXPECT_NE(plain.message.find("ended by signal 6"), std::string::npos) << plain.message;
  const Limits memory{.memory_bytes = std::uint64_t{1} << 30};
  EXPECT_NE(refused(library, "abort", memory).message.find("memory limit of 1024 MiB"), std::string::npos);
  EXPECT_NE(refused(library, "out of memory", memory).message.find("memory limit of 1024 MiB"), std::string::npos);
}

TEST_F(NvrtcWorker, PassesLongTextsAndAnswers) {
  const auto library = fake();
  const std::string text = "large " + std::string(20 << 20, 'x');
  const auto outcome =
      invoke_in_worker(*library, text, {"--an-option"}, Stage::cubin, {.deadline = std::chrono::minutes(1)});
  ASSERT_TRUE(outcome.ok()) << outcome.error().message;
  EXPECT_EQ(outcome->output.size(), (10U << 20) + 1);
  EXPECT_EQ(outcome->log, "--an-option\n");
}

TEST_F(NvrtcWorker, ARejectedTextIsTheSameDefectAsHere) {
  const auto library = library_for(named("sm_61"));
  ASSERT_NE(library, nullptr);
  const auto here = compile(*library, "nonsense", named("sm_61"));
  const Error there = refused(library, "nonsense", {.deadline = std::chrono::minutes(1)}, "sm_61");
  ASSERT_FALSE(here.ok());
  EXPECT_EQ(there.kind, ErrorKind::internal);
  EXPECT_EQ(there.message.substr(there.message.find("sm_61")),
            here.error().message.substr(here.error().message.find("sm_61")));
  EXPECT_EQ(there.notes, here.error().notes);
}

TEST_F(NvrtcWorker, AReplacedLibraryIsNoticed) {
  const auto library = fake();
  fs::remove(library->path());
  place_.copy(kFake12_9.built, "libnvrtc.so.13");
  place_.copy(kFake12_9.built, "libnvrtc-builtins.so.12.9");
  const Error error = refused(library, kSmall, {.deadline = std::chrono::minutes(1)});
  EXPECT_EQ(error.kind, ErrorKind::environment);
  EXPECT_NE(error.message.find("was replaced"), std::string::npos) << error.message;
}

TEST_F(NvrtcWorker, AMissingProgramIsAnEnvironmentError) {
  const auto library = fake();
  const Limits limits{.deadline = std::chrono::minutes(1)};
  {
    const Variable elsewhere("WEFT_WORKER", "/nonexistent/weft-compile");
    const Error error = refused(library, kSmall, limits);
    EXPECT_EQ(error.kind, ErrorKind::environment);
    EXPECT_TRUE(mentions(error, "/nonexistent/weft-compile"));
  }
  const Variable not_ours("WEFT_WORKER", "/bin/true");
  EXPECT_TRUE(mentions(refused(library, kSmall, limits), "without an answer"));
  const Variable unset("WEFT_WORKER", "");
  EXPECT_TRUE(mentions(refused(library, kSmall, limits), "set WEFT_WORKER")) << "none lies beside this test";
}

TEST_F(NvrtcWorker, HidesFilesAndSignalsOfTheProgram) {
  const auto library = fake();
  // A closed standard input, a blocked and an ignored signal, a file that exec would pass on.
  const int saved = ::dup(STDIN_FILENO);
  ::close(STDIN_FILENO);
  int pipe_ends[2];
  ASSERT_EQ(::pipe(pipe_ends), 0);
  auto* const handler = ::signal(SIGPIPE, SIG_IGN);
  const auto outcome = invoke_in_worker(*library, "x", {}, Stage::cubin, {.deadline = std::chrono::minutes(1)});
  EXPECT_TRUE(outcome.ok());
  // A worker that still held the writing end would keep this from ending.
  std::thread late(
      [&] { (void)invoke_in_worker(*library, "sleep", {}, Stage::cubin, {.deadline = milliseconds(1500)}); });
  std::this_thread::sleep_for(milliseconds(300));
  ::close(pipe_ends[1]);
  const auto began = Clock::now();
  char byte = 0;
  EXPECT_EQ(::read(pipe_ends[0], &byte, 1), 0);
  EXPECT_LT(Clock::now() - began, milliseconds(1000)) << "the worker lives for 1200 more";
  late.join();
  ::close(pipe_ends[0]);
  ::signal(SIGPIPE, handler);
  ::dup2(saved, STDIN_FILENO);
  ::close(saved);
}

TEST_F(NvrtcWorker, ManyAtOnceAreIndependent) {
  const auto library = fake();
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      const std::string words[] = {"x", "abort", "large", "sleep"};
      const auto outcome = invoke_in_worker(*library, words[i % 4], {}, Stage::cubin,
                                            {.deadline = milliseconds(i % 4 == 3 ? 400 : 30'000)});
      EXPECT_EQ(outcome.ok(), i % 2 == 0);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

/// NVRTC keeps locks while it compiles: a child of that moment has nobody who lets go of them.
TEST_F(NvrtcWorker, ForkedProcessesCompileWhateverOtherThreadsCompile) {
  if (kReserved) GTEST_SKIP() << "the sanitizer's allocator does not survive a fork amid allocations";
  const auto library = locate(named("sm_80"), {});
  if (!library) GTEST_SKIP() << library.error().message;
  const auto compiles = [&](const std::string& text) { return compile(**library, text, named("sm_80")).ok(); };
  const auto in_child = [&] {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(60);  // one that hangs fails
      ::_exit(compiles(kSmall) && compiles(kSmall) ? 0 : 1);
    }
    return child;
  };
  std::vector<pid_t> children = {in_child()};
  std::thread other([&] { EXPECT_TRUE(compiles(endless(600))); });
  for (int i = 0; i < 3; ++i) {
    std::this_thread::sleep_for(milliseconds(150));
    children.push_back(in_child());
  }
  other.join();
  children.push_back(in_child());
  for (const pid_t child : children) {
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
}

}  // namespace
}  // namespace weft::nvrtc
