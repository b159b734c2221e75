#include "runtime/nvrtc/compile.h"

#include "planted.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <set>
#include <thread>

#if defined(__SANITIZE_ADDRESS__)
/// What NVRTC keeps for its threads makes the leak checker itself fault now and then, as the program ends ("Tracer
/// caught signal 11"): a failure that says nothing of us. Addresses are checked as everywhere.
// NOLINTNEXTLINE(bugprone-reserved-identifier): its name for this; the sanitizers' library must see it
extern "C" [[gnu::visibility("default")]] int __lsan_is_turned_off() { return 1; }
#endif

namespace weft::nvrtc {
namespace {

/// Every rejected text leaves a file: none of them outside of the tests' own folder.
class OwnTemporaryFolder : public testing::Environment {
 public:
  void SetUp() override {
    folder_.emplace();
    variable_.emplace("TMPDIR", folder_->path());
  }
  void TearDown() override {
    variable_.reset();
    folder_.reset();
  }

 private:
  std::optional<Directory> folder_;
  std::optional<Variable> variable_;
};
[[maybe_unused]] const auto* const kOwnTemporaryFolder =
    testing::AddGlobalTestEnvironment(new OwnTemporaryFolder);  // GoogleTest owns it

/// Shared memory, arithmetic, an intrinsic: what every architecture has.
constexpr const char* kSmall = R"(
extern "C" __global__ void weft_kernel(float* out, const float* in, int n) {
  __shared__ float tile[256];
  tile[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  float sum = 0.0f;
  for (int i = 0; i < n; ++i) sum = sum * tile[i % 256] + 1.5f;
  out[threadIdx.x] = sum + __shfl_xor_sync(0xffffffffu, sum, 1);
}
)";

/// More live values than the registers that its bound leaves.
constexpr const char* kSpilling = R"(
extern "C" __global__ void __launch_bounds__(1024) weft_kernel(float* out, const float* in, int n) {
  float a[128];
  for (int i = 0; i < 128; ++i) a[i] = in[i * n + threadIdx.x];
  for (int j = 0; j < n; ++j)
    for (int i = 0; i < 128; ++i) a[i] = a[i] * in[j] + a[(i + 7) % 128];
  for (int i = 0; i < 128; ++i) out[i * n + threadIdx.x] = a[i];
}
extern "C" __global__ void other(float* out) { out[0] = 1.0f; }
)";

/// Registers of every kernel by the ELF file's own notes: the assembler's second word on them.
std::multiset<int> registers_in_notes(const std::string& cubin) {
  constexpr unsigned char kWithSize = 4, kRegisterCount = 0x2f;
  std::multiset<int> out;
  Elf64_Ehdr header;
  std::memcpy(&header, cubin.data(), sizeof header);
  std::vector<Elf64_Shdr> sections(header.e_shnum);
  std::memcpy(sections.data(), cubin.data() + header.e_shoff, sections.size() * sizeof(Elf64_Shdr));
  for (const Elf64_Shdr& section : sections) {
    if (std::string(cubin.data() + sections[header.e_shstrndx].sh_offset + section.sh_name) != ".nv.info") continue;
    const char* at = cubin.data() + section.sh_offset;
    for (const char* end = at + section.sh_size; at < end;) {
      std::uint16_t size;
      std::memcpy(&size, at + 2, sizeof size);
      const auto format = static_cast<unsigned char>(at[0]), attribute = static_cast<unsigned char>(at[1]);
      if (format == kWithSize && attribute == kRegisterCount) {
        std::int32_t count;
        std::memcpy(&count, at + 8, sizeof count);
        out.insert(count);
      }
      at += 4 + (format == kWithSize ? size : 0);
    }
  }
  return out;
}

std::string compiled(const std::string& text, const Target& target, const Options& options = {}) {
  const auto library = library_for(target);
  if (library == nullptr) return {};
  auto binary = compile(*library, text, target, options);
  if (binary.ok()) return std::move(binary->cubin);
  ADD_FAILURE() << binary.error().message;
  return {};
}

TEST(NvrtcCompile, EveryArchitectureGivesItsCubin) {
  std::set<std::string> different;
  for (const Target& target : cuda_targets()) {
    SCOPED_TRACE(target.name);
    const std::string cubin = compiled(kSmall, target);
    ASSERT_GT(cubin.size(), sizeof(Elf64_Ehdr));
    EXPECT_EQ(cubin.substr(0, 4), ELFMAG);
    different.insert(cubin);
  }
  EXPECT_EQ(different.size(), cuda_targets().size());
  EXPECT_GE(different.size(), 10U);
}

TEST(NvrtcCompile, EveryNvrtcHereTellsRegistersSharedMemoryAndSpills) {
  std::size_t tried = 0;
  for (const auto& item : examine().items) {
    if (item.library == nullptr) continue;
    for (const Target& target : cuda_targets()) {
      if (!item.library->knows(target)) continue;
      SCOPED_TRACE(item.candidate.path + " " + target.name);
      const auto small = compile(*item.library, kSmall, target);
      const auto spilling = compile(*item.library, kSpilling, target);
      ASSERT_TRUE(small.ok() && spilling.ok());
      ASSERT_EQ(small->kernels.size(), 1U) << small->log;
      EXPECT_EQ(small->kernels[0].name, "weft_kernel");
      EXPECT_EQ(small->shared_bytes(), 1024);
      EXPECT_EQ(small->spill_bytes(), 0);
      ASSERT_EQ(spilling->kernels.size(), 2U) << spilling->log;
      EXPECT_GT(spilling->spill_bytes(), 64) << spilling->log;
      for (const auto* binary : {&*small, &*spilling}) {
        std::multiset<int> said;
        for (const KernelUse& kernel : binary->kernels) said.insert(kernel.registers);
        EXPECT_EQ(said, registers_in_notes(binary->cubin)) << binary->log;
        EXPECT_EQ(binary->registers(), *said.rbegin());
      }
      ++tried;
    }
  }
  EXPECT_GE(tried, 10U);
}

TEST(NvrtcCompile, TheArchitectureDecidesWhatThereIs) {
  const std::string async = "extern \"C\" __global__ void k() { asm volatile(\"cp.async.wait_all;\"); }\n";
  const std::string wgmma = "extern \"C\" __global__ void k() { asm volatile(\"wgmma.fence.sync.aligned;\"); }\n";
  const auto builds = [](const std::string& text, const char* target) {
    const auto library = library_for(named(target));
    return library != nullptr && compile(*library, text, named(target)).ok();
  };
  EXPECT_TRUE(builds(async, "sm_80"));
  EXPECT_FALSE(builds(async, "sm_75"));
  EXPECT_TRUE(builds(wgmma, "sm_90a"));
  EXPECT_FALSE(builds(wgmma, "sm_90"));
}

TEST(NvrtcCompile, ContractingIsAnOptionOfTheKey) {
  const std::string text = "extern \"C\" __global__ void k(float* x) { x[0] = x[1] * x[2] + x[3]; }\n";
  const Options apart{.contract = false};
  EXPECT_NE(compiled(text, named("sm_61")), compiled(text, named("sm_61"), apart));
  EXPECT_NE(Options{}.text(), apart.text());
  Options limited;
  limited.pattern = "p";
  limited.limits.deadline = std::chrono::hours(1);
  EXPECT_EQ(Options{}.text(), limited.text()) << "limits and names change no byte";
}

TEST(NvrtcCompile, PtxIsForReaders) {
  for (const char* name : {"sm_61", "sm_90a"}) {
    const auto library = library_for(named(name));
    ASSERT_NE(library, nullptr);
    const auto text = ptx(*library, kSmall, named(name));
    ASSERT_TRUE(text.ok()) << text.error().message;
    EXPECT_NE(text->find(std::string(".target ") + name), std::string::npos);
    EXPECT_NE(text->find(".entry weft_kernel"), std::string::npos);
    EXPECT_EQ(text->find('\0'), std::string::npos);
  }
}

/// Everything a rejected text must leave: an internal error that names pattern and complaint, and the file.
void expect_defect(const std::string& text, const std::string& complaint) {
  SCOPED_TRACE(complaint);
  const auto library = library_for(named("sm_61"));
  ASSERT_NE(library, nullptr);
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  const auto refused = compile(*library, text, named("sm_61"), {.pattern = "hat"});
  EXPECT_EQ(testing::internal::GetCapturedStderr() + testing::internal::GetCapturedStdout(), "");
  ASSERT_FALSE(refused.ok());
  const Error& error = refused.error();
  EXPECT_EQ(error.kind, ErrorKind::internal);
  EXPECT_NE(error.message.find("pattern 'hat' for sm_61"), std::string::npos) << error.message;
  EXPECT_NE(error.message.find(complaint), std::string::npos) << error.message;
  ASSERT_EQ(error.notes.size(), 1U);
  const std::string path = error.notes[0].substr(error.notes[0].find(" are in ") + 8);
  std::ifstream file(path);
  const std::string kept((std::istreambuf_iterator<char>(file)), {});
  EXPECT_EQ(kept.substr(0, text.size()), text) << path;
  EXPECT_NE(kept.find(complaint), std::string::npos);
}

TEST(NvrtcCompile, ATextThatNvrtcRejectsIsADefectAndIsKept) {
  const Directory place;
  const Variable temporary("TMPDIR", place.path());
  const std::string signature = "extern \"C\" __global__ void k(float* o) ";
  expect_defect(signature + "{ o[0] = nonsense; }", "weft_kernel.cu(1): error: identifier \"nonsense\"");
  expect_defect(signature + "{ asm(\"nonsense;\"); }", "Not a name of any known instruction: 'nonsense'");
  expect_defect(signature + "{ __shared__ float s[20000]; s[threadIdx.x] = o[1]; __syncthreads(); o[0] = s[3]; }",
                "uses too much shared data");
  expect_defect("#include <cuda_fp16.h>\n", "could not open source file");
  expect_defect(signature + "{ o[0] = nonsense; }", "weft_kernel.cu(1): error");
  std::size_t files = 0;
  for (const auto& entry : fs::directory_iterator(place.path())) {
    EXPECT_EQ(entry.path().extension(), ".cu");
    ++files;
  }
  EXPECT_EQ(files, 4U) << "one for each defect, however often";
}

TEST(NvrtcCompile, WithoutATemporaryFolderTheErrorSaysSo) {
  const Variable temporary("TMPDIR", "/dev/null");
  const auto library = library_for(named("sm_61"));
  ASSERT_NE(library, nullptr);
  const auto refused = compile(*library, "nonsense", named("sm_61"));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::internal);
  EXPECT_TRUE(mentions(refused.error(), "could not be saved")) << refused.error().notes.at(0);
}

TEST(NvrtcCompile, ATextBeyondTheBoundIsRefusedBeforeItCostsAnything) {
  const auto library = library_for(named("sm_61"));
  ASSERT_NE(library, nullptr);
  const std::string text = kSmall + std::string(Options{}.largest_text, '\n');
  const auto refused = compile(*library, text, named("sm_61"), {.pattern = "hat"});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::internal);
  EXPECT_TRUE(mentions(refused.error(), "pattern 'hat'"));
  EXPECT_TRUE(mentions(refused.error(), "NVRTC would take up to"));
  EXPECT_TRUE(compile(*library, text, named("sm_61"), {.largest_text = text.size()}).ok()) << "a bound, not a wall";
}

TEST(NvrtcCompile, OtherTargetsAndHiddenTextsAreRefused) {
  const auto library = library_for(named("sm_61"));
  ASSERT_NE(library, nullptr);
  EXPECT_FALSE(compile(*library, kSmall, named("cpu:x86-64")).ok());
  EXPECT_FALSE(compile(*library, kSmall + std::string(1, '\0') + "nonsense", named("sm_61")).ok());
  const Directory place;
  const auto recent = locate(named("sm_80"), plant(place, kFake13_5));
  ASSERT_TRUE(recent.ok());
  const auto unknown = compile(**recent, kSmall, named("sm_61"));
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().kind, ErrorKind::environment);
}

std::atomic<int> interrupts = 0;

/// NVRTC would end the process.
TEST(NvrtcCompile, AnInterruptGoesToTheProgram) {
  const Directory place;
  const auto fake = locate(named("sm_80"), plant(place, kFake13_5));
  ASSERT_TRUE(fake.ok());
  interrupts = 0;
  const auto before = std::signal(SIGINT, [](int) { ++interrupts; });
  EXPECT_FALSE(compile(**fake, "signals", named("sm_80")).ok()) << "it makes nothing";
  EXPECT_EQ(interrupts, 1);
  // The real one, when it has put its handlers in place long ago.
  const auto library = library_for(named("sm_61"));
  if (library != nullptr) {
    std::thread other([] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      kill(getpid(), SIGINT);
    });
    EXPECT_FALSE(compiled(kSpilling, named("sm_61")).empty());
    other.join();
    EXPECT_EQ(interrupts, 2);
  }
  std::signal(SIGINT, before);
}

TEST(NvrtcCompile, WhatIsNoCubinIsNotTakenForOne) {
  const Directory place;
  const auto fake = locate(named("sm_80"), plant(place, kFake13_5));
  ASSERT_TRUE(fake.ok());
  const auto refused = compile(**fake, "large", named("sm_80"));
  ASSERT_FALSE(refused.ok());
  EXPECT_TRUE(mentions(refused.error(), "gave no cubin"));
}

TEST(NvrtcCompile, ThreadsAndFoldersGetTheSameBytes) {
  const Target target = named("sm_61");
  const std::string expected = compiled(kSmall, target);
  ASSERT_FALSE(expected.empty());
  const fs::path before = fs::current_path();
  const Directory place;
  fs::current_path(place.path());
  std::vector<std::string> results(4);
  std::vector<std::thread> threads;
  for (std::string& result : results) {
    threads.emplace_back([&result, &target] {
      // Other texts and failures in between must not show.
      EXPECT_FALSE(compile(*library_for(target), "nonsense", target).ok());
      EXPECT_FALSE(compiled(kSpilling, target).empty());
      result = compiled(kSmall, target);
    });
  }
  for (std::thread& thread : threads) thread.join();
  fs::current_path(before);
  for (const std::string& result : results) EXPECT_EQ(result, expected);
}

}  // namespace
}  // namespace weft::nvrtc
