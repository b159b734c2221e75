/// What stores note of requests: with it engines start without planning and emitting, and never with another kernel.

#include "runtime/engine/memo.h"

#include "folder.h"
#include "problem.h"
#include "runtime/engine/destination.h"
#include "runtime/engine/kernel_state.h"
#include "runtime/engine/tuned.h"
#include "runtime/object/identity.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <latch>
#include <thread>
#include <utility>

namespace weft::test {
namespace {

namespace fs = std::filesystem;

CompileOptions f32(std::int64_t dim) { return {.dim = dim, .dtype = DType::f32}; }

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
void overwrite(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

class MemoTest : public ::testing::Test {
 protected:
  std::string place() const { return (base_.path() / "store").string(); }
  EngineOptions own() const { return {.cache_dir = place()}; }

  static Kernel compiled(const Engine& engine, const std::string& text = kLongnet,
                         const CompileOptions& options = f32(32)) {
    auto kernel = engine.compile(text, options);
    if (!kernel) throw std::runtime_error(kernel.error().message);
    return std::move(*kernel);
  }
  /// By an engine that knows nothing but its store.
  Kernel compiled() const { return compiled(Engine(own())); }

  std::vector<fs::path> files(bool notes) const {
    std::vector<fs::path> out;
    for (const auto& item : fs::recursive_directory_iterator(place())) {
      const bool stored = item.is_regular_file() && item.path().filename().string().size() >= 62;
      const auto ending = item.path().extension();
      if (stored && ending == (notes ? ".note" : "")) out.push_back(item.path());
    }
    return out;
  }
  fs::path the_note() const { return files(true).at(0); }
  fs::path the_kernel() const { return files(false).at(0); }

  static bool was_emitted(const Kernel& kernel) { return kernel.times().emit_ms > 0; }
  static std::vector<float> results(const Kernel& kernel) {
    Problem problem(1, 96, 2, 32);
    EXPECT_TRUE(kernel.run(problem.args()).ok());
    return problem.out;
  }

  Folder base_;
};

TEST_F(MemoTest, AStoredKernelStartsWithoutItsText) {
  const auto first = compiled();
  EXPECT_EQ(first.origin(), CacheOrigin::miss);
  EXPECT_TRUE(was_emitted(first));
  ASSERT_EQ(files(true).size(), 1U);
  const auto second = compiled();
  EXPECT_EQ(second.origin(), CacheOrigin::disk);
  EXPECT_FALSE(was_emitted(second));
  EXPECT_FALSE(second.state().emitted());
  EXPECT_EQ(results(second), results(first));
  // Whoever wants to read gets what was compiled.
  EXPECT_EQ(second.plan_text(), first.plan_text());
  EXPECT_FALSE(second.state().emitted());
  EXPECT_TRUE(second.source_text() == first.source_text());
  EXPECT_EQ(second.pattern_text(), first.pattern_text());
  // The control: without the note the text is emitted, and the kernel noted.
  fs::remove(the_note());
  EXPECT_TRUE(was_emitted(compiled()));
  EXPECT_FALSE(was_emitted(compiled()));
}

TEST_F(MemoTest, OneTextOfManyThreadsOnDemand) {
  constexpr int kThreads = 8;
  const auto text = compiled().source_text();
  const auto kernel = compiled();
  std::latch together(kThreads);
  std::vector<const char*> seen(kThreads);
  std::vector<std::thread> threads;
  for (auto& mine : seen) {
    threads.emplace_back([&] {
      together.arrive_and_wait();
      mine = kernel.source_text().data();
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(seen, std::vector<const char*>(kThreads, kernel.source_text().data())) << "it was made more than once";
  EXPECT_TRUE(kernel.source_text() == text);
}

TEST_F(MemoTest, OtherRequestsHaveOtherNotes) {
  compiled();
  std::size_t notes = 1;
  const auto differs = [&](const char* what, const std::string& text, const CompileOptions& options) {
    EXPECT_TRUE(was_emitted(compiled(Engine(own()), text, options))) << what;
    EXPECT_EQ(files(true).size(), ++notes) << what;
    EXPECT_FALSE(was_emitted(compiled(Engine(own()), text, options))) << what;
  };
  differs("dim", kLongnet, f32(24));
  auto options = f32(32);
  options.dtype = DType::f16;
  differs("dtype", kLongnet, options);
  options = f32(32);
  options.heads = 4;
  differs("heads", kLongnet, options);
  options.kv_heads = 2;
  differs("kv heads", kLongnet, options);
  options = f32(32);
  options.dim_v = 16;
  differs("value dim", kLongnet, options);
  options = f32(32);
  options.branch_lse = true;
  differs("branch lse", kLongnet, options);
  options = f32(32);
  options.paged = true;
  differs("pages", kLongnet, options);
  options = f32(32);
  options.target = "cpu:x86-64-v3";
  differs("target", kLongnet, options);
  const std::string text = "pattern p(width: int = 8) { keep window(width, 0); } pattern other { keep window(9, 0); }";
  options = f32(32);
  options.pattern = "p";
  differs("pattern", text, options);
  options.params = {{"width", "9"}};
  differs("parameter", text, options);
  options.params.clear();
  options.pattern = "other";
  differs("another of the text", text, options);
  EXPECT_EQ(cache::Store::open({.directory = place()})->verify().bad.size(), 0U);
}

TEST_F(MemoTest, ATunedScheduleIsAnotherRequest) {
  const std::string text = "pattern p { keep window(99, 0); }";
  const auto usual = compiled(Engine(own()), text, f32(16)).plan_text();
  EXPECT_FALSE(was_emitted(compiled(Engine(own()), text, f32(16))));
  const auto front = read_pattern({.name = "p", .text = text}, f32(16)).value();
  const auto store = cache::Store::open({.directory = place()});
  const auto key =
      tuned_key(front.pattern, bind_of(front.pattern, f32(16)).value(), find_destination("cpu").value().target);
  ASSERT_TRUE(keep_tuned(*store, key,
                         {.schedule = {{.key = "tile_k", .value = 48, .range = {}, .tuned = true}}, .measured = ""})
                  .published);
  const auto tuned = compiled(Engine(own()), text, f32(16));
  EXPECT_TRUE(was_emitted(tuned));
  EXPECT_NE(tuned.plan_text(), usual);
  EXPECT_EQ(compiled(Engine(own()), text, f32(16)).plan_text(), tuned.plan_text());
  EXPECT_EQ(store->totals().entries, 2U) << "neither notes nor schedules are kernels";
}

/// Every cut and many a bit: a damaged note is none, and is mended.
TEST_F(MemoTest, ADamagedNoteIsMended) {
  const auto expected = results(compiled());
  const auto note = the_note();
  const auto whole = contents(note);
  std::vector<std::string> damaged;
  for (std::size_t at = 0; at < whole.size(); at += 1 + whole.size() / 23) {
    damaged.push_back(whole.substr(0, at));
    damaged.push_back(whole);
    damaged.back()[at] = static_cast<char>(damaged.back()[at] ^ 4);
  }
  for (const auto& bytes : damaged) {
    overwrite(note, bytes);
    const Engine engine(own());
    const auto kernel = compiled(engine);
    EXPECT_TRUE(was_emitted(kernel));
    EXPECT_EQ(kernel.origin(), CacheOrigin::disk) << "the kernel is whole";
    EXPECT_EQ(engine.cache_stats().store_misses.size(), 0U);
    EXPECT_EQ(results(kernel), expected);
    ASSERT_TRUE(contents(note) == whole);
  }
  EXPECT_FALSE(was_emitted(compiled()));
}

/// Whole, and of no use: what another version of Weft with the same build-id might have written.
TEST_F(MemoTest, ANoteThatMakesNoSenseIsMended) {
  const auto expected = results(compiled());
  const auto note = the_note();
  const auto whole = contents(note);
  const auto [key_text, entry] = cache::decode(whole).value();
  auto no_plan = entry, no_key = entry, other_sizes = entry, other_kernel = entry;
  no_plan.plan = "weft plan 1\n";
  no_key.source = "";
  other_sizes.plan.replace(other_sizes.plan.find("bind d 32"), 9, "bind d 16");
  const auto other = cache::fields_of(entry.source);
  cache::Key changed;
  for (const auto& field : other) changed.add(field.name, field.name == "source" ? "another" : field.value);
  other_kernel.source = changed.text();
  for (const auto& wrong : {no_plan, no_key, other_sizes, other_kernel}) {
    overwrite(note, cache::encode(key_text, wrong));
    EXPECT_EQ(results(compiled()), expected);
    EXPECT_TRUE(contents(note) == whole);
    EXPECT_FALSE(was_emitted(compiled()));
  }
  EXPECT_EQ(files(false).size(), 1U) << "nothing was stored under a key that is not its own";
}

TEST_F(MemoTest, AKernelThatIsGoneIsCompiledAgain) {
  const auto first = compiled();
  const auto whole = contents(the_kernel());
  for (const bool damaged : {false, true}) {
    const auto kernel = the_kernel();
    damaged ? overwrite(kernel, whole.substr(0, 1000)) : void(fs::remove(kernel));
    const Engine engine(own());
    const auto again = compiled(engine);
    EXPECT_EQ(again.origin(), CacheOrigin::miss);
    EXPECT_TRUE(was_emitted(again));
    EXPECT_EQ(engine.cache_stats().compiled, 1U);
    EXPECT_EQ(engine.cache_stats().store_misses,
              (std::map<std::string, std::uint64_t>{{damaged ? "corrupt" : "absent", 1}}));
    EXPECT_EQ(results(again), results(first));
    EXPECT_TRUE(again.source_text() == first.source_text());
    const auto after = compiled();
    EXPECT_EQ(after.origin(), CacheOrigin::disk);
    EXPECT_FALSE(was_emitted(after));
  }
  fs::remove(the_kernel());
  const Engine strict({.cache_dir = place(), .no_compile = true});
  EXPECT_FALSE(strict.compile(kLongnet, f32(32)).ok());
}

TEST_F(MemoTest, NotesOfOtherStoresAreReadAndNotWritten) {
  compiled();
  EngineOptions reading{.no_cache = true};
  reading.read_only_caches = {place()};
  const auto kernel = compiled(Engine(reading));
  EXPECT_EQ(kernel.origin_path(), place());
  EXPECT_FALSE(was_emitted(kernel));
  const auto note = the_note();
  overwrite(note, "damage");
  EXPECT_TRUE(was_emitted(compiled(Engine(reading))));
  EXPECT_EQ(contents(note), "damage");
}

/// Backends share all of it.
TEST_F(MemoTest, ServesKernelsForGpus) {
  const auto front = read_pattern({.name = "p", .text = kLongnet}, f32(64)).value();
  const auto target = find_target("sm_80").value();
  const Compilation kernel(plan_pattern(front, f32(64), target).value());
  auto binary = binary_of(kernel);
  const auto request = memo_key("a request", front.pattern, target, "a build");
  binary.memo = memo_of(*request, binary.regime);
  const auto store = cache::Store::open({.directory = place()});
  keep_memo(*store, kernel, binary);
  const auto found = find_memo({store}, *request, kernel.bind);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->binary.request.text(), binary.request.text());
  EXPECT_EQ(found->binary.memo->text(), binary.memo->text());
  const Compilation again(Planned{front, kernel.bind, target, found->plan});
  EXPECT_EQ(again.launch, kernel.launch);
  EXPECT_TRUE(again.source().text == kernel.source().text);
  const auto is_known = [&](const std::optional<cache::Key>& key) { return find_memo({store}, *key, kernel.bind); };
  EXPECT_FALSE(is_known(memo_key("another", front.pattern, target, "a build")));
  EXPECT_FALSE(is_known(memo_key("a request", front.pattern, target, "another build")));
  EXPECT_FALSE(is_known(memo_key("a request", front.pattern, find_target("sm_86").value(), "a build")));
  EXPECT_FALSE(memo_key("a request", front.pattern, target, ""));
}

TEST_F(MemoTest, APlanWhoseTextGivesAnotherKernelIsNotNoted) {
  const auto target = find_target("cpu:x86-64-v3").value();
  const auto planned = [&](std::int64_t dim) {
    return plan_pattern(read_pattern({.name = "p", .text = kLongnet}, f32(dim)).value(), f32(dim), target).value();
  };
  const auto store = cache::Store::open({.directory = place()});
  const auto is_noted = [&](const Compilation& kernel) {
    auto binary = binary_of(kernel);
    const auto request = memo_key("a request", kernel.pattern, target, "a build");
    binary.memo = memo_of(*request, binary.regime);
    keep_memo(*store, kernel, binary);
    return find_memo({store}, *request, kernel.bind).has_value();
  };
  // The text of this kernel, and the plan of another.
  Compilation other(planned(64));
  ASSERT_FALSE(other.source().text.empty());
  other.plan.choices.tile_k *= 2;
  EXPECT_FALSE(is_noted(other));
  EXPECT_TRUE(is_noted(Compilation(planned(64)))) << "the control";
}

/// … and others may delete what they look for.
TEST_F(MemoTest, ProcessesMayStartAtOnce) {
  compiled();
  const auto note = the_note(), kernel_file = the_kernel();
  std::vector<pid_t> children;
  for (int i = 0; i < 16; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(60);
      bool good = true;
      for (int round = 0; round < 4 && good; ++round) {
        const auto kernel = Engine(own()).compile(kLongnet, f32(32));
        good = kernel.ok() && !kernel->source_text().empty();
        std::error_code gone;
        if (i % 4 == 0) fs::remove(i % 8 == 0 ? note : kernel_file, gone);
      }
      ::_exit(good ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(cache::Store::open({.directory = place()})->verify().bad.size(), 0U);
  compiled();
  EXPECT_FALSE(was_emitted(compiled()));
}

constexpr const char* kPlaceOfChild = "WEFT_TEST_MEMO_PLACE";

/// What a program of another build does: this one, started by AnotherBuild.
TEST(MemoChild, DISABLED_Starts) {
  const Engine engine({.cache_dir = std::getenv(kPlaceOfChild)});
  const auto kernel = engine.compile(kLongnet, f32(32));
  ASSERT_TRUE(kernel.ok());
  ::_exit(kernel->times().emit_ms > 0 ? 10 : 11);
}

class AnotherBuild : public MemoTest {
 protected:
  static constexpr int kEmitted = 10, kRecalled = 11;

  /// Runs a copy of this program with the byte `before` the first of its build-id changed.
  int started(std::size_t before, char change) const {
    auto program = contents("/proc/self/exe");
    const auto at = program.find(id_bytes());
    EXPECT_NE(at, std::string::npos);
    program[at - before] = static_cast<char>(program[at - before] ^ change);
    const auto copy = base_.path() / "program";
    overwrite(copy, program);
    EXPECT_EQ(::chmod(copy.c_str(), 0700), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      ::setenv(kPlaceOfChild, place().c_str(), 1);
      const int nowhere = ::open("/dev/null", O_WRONLY);
      ::dup2(nowhere, STDOUT_FILENO);
      ::execl(copy.c_str(), copy.c_str(), "--gtest_also_run_disabled_tests", "--gtest_filter=MemoChild.*", nullptr);
      ::_exit(1);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WEXITSTATUS(status);
  }

 private:
  static std::string id_bytes() {
    std::string out;
    const auto words = object::own_build();  // `build-id HEX size N`
    const auto hex = words.substr(9, words.find(' ', 9) - 9);
    for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
      out += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
    return out;
  }
};

TEST_F(AnotherBuild, EmitsAnew) {
  ASSERT_NE(object::own_build(), "") << "this program was linked without a build-id";
  EXPECT_EQ(started(0, 0), kEmitted) << "the first";
  EXPECT_EQ(started(0, 0), kRecalled) << "the control: the same build";
  EXPECT_EQ(files(true).size(), 1U);
  EXPECT_EQ(started(0, 1), kEmitted);
  EXPECT_EQ(files(true).size(), 2U);
  EXPECT_EQ(started(0, 1), kRecalled);
  EXPECT_EQ(started(0, 0), kRecalled);
  EXPECT_EQ(files(false).size(), 1U) << "their texts agree";
}

TEST_F(AnotherBuild, OfUnknownIdentityNotesNothing) {
  constexpr std::size_t kType = 8;  // of the note: before the name, which is before the id
  EXPECT_EQ(started(kType, 0x40), kEmitted);
  EXPECT_EQ(started(kType, 0x40), kEmitted);
  EXPECT_EQ(files(true).size(), 0U);
  EXPECT_EQ(files(false).size(), 1U);
}

}  // namespace
}  // namespace weft::test
