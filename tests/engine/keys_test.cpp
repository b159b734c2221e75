/// R6 to R8: the key of a kernel changes with everything that can change its bytes and with nothing else; the same key
/// gives the same bytes.

#include "compiler/base/digest.h"
#include "problem.h"
#include "runtime/engine/compilation.h"
#include "runtime/engine/compilers.h"
#include "runtime/engine/destination.h"
#include "runtime/engine/kernel_state.h"
#include "tests/support/effort.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <clocale>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <random>
#include <set>
#include <thread>

namespace weft::test {
namespace {

namespace fs = std::filesystem;

CompileOptions f32(std::int64_t dim, std::string target = "cpu:x86-64-v3") {
  return {.dim = dim, .dtype = DType::f32, .target = std::move(target)};
}

Compilation compilation(const std::string& text, const CompileOptions& options) {
  auto front = read_pattern({.name = options.source_name, .text = text}, options);
  if (!front) throw std::runtime_error(front.error().message);
  auto planned = plan_pattern(std::move(*front), options, find_destination(options.target)->target);
  if (!planned) throw std::runtime_error(planned.error().message);
  return Compilation(std::move(*planned));
}

std::string key_text(const std::string& text, const CompileOptions& options, const EngineOptions& engine = {},
                     ir::Regime regime = ir::Regime::many_queries) {
  const auto kernel = compilation(text, options);
  const auto key = Compilers(engine).key_of(kernel.target, binary_of(kernel, regime));
  if (!key) throw std::runtime_error(key.error().message);
  return key->text();
}

TEST(Keys, HoldTheseFields) {
  std::vector<std::string> names;
  for (const auto& field : cache::fields_of(key_text(kLongnet, f32(32)))) names.push_back(field.name);
  const std::vector<std::string> expected = {"backend", "abi",    "target", "cpu",    "features",
                                             "options", "regime", "launch", "source", "compiler"};
  EXPECT_EQ(names, expected) << "a field more or less wants a case below";
}

/// One case for each thing that is compiled in.
TEST(Keys, ChangeWithWhatIsCompiledIn) {
  CompileOptions half = f32(32), branches = f32(32), value = f32(32), paged = f32(32);
  half.dtype = DType::f16;
  branches.branch_lse = true;
  value.dim_v = 64;
  paged.paged = true;
  const std::string keys[] = {
      key_text(kLongnet, f32(32)),
      key_text(kLongnet, f32(64)),
      key_text(kLongnet, half),
      key_text(kLongnet, branches),
      key_text(kLongnet, value),
      key_text(kLongnet, paged),
      key_text(kLongnet, f32(32), {}, ir::Regime::few_queries),
      key_text(kLongnet, f32(32, "cpu:x86-64-v4")),
      key_text("pattern p { keep causal; score s * 2; }", f32(32)),
      key_text("pattern p { keep causal; score s + 1; }", f32(32)),
      key_text(kLongnet, f32(32), {.llvm = "/bin/true"}),
      key_text(kLongnet, f32(32), {.llvm = "/bin/ls"}),
  };
  EXPECT_EQ(std::set<std::string>(std::begin(keys), std::end(keys)).size(), std::size(keys));
}

/// Each field, by itself, makes another key: of two that differ in one, that one is found.
TEST(Keys, ChangeWithEachField) {
  const std::string text = key_text(kLongnet, f32(32));
  const auto fields = cache::fields_of(text);
  std::set<std::string> digests = {hex(sha256(text))};
  for (std::size_t changed = 0; changed < fields.size(); ++changed) {
    cache::Key other;
    for (std::size_t i = 0; i < fields.size(); ++i)
      other.add(fields[i].name, fields[i].value + (i == changed ? "'" : ""));
    EXPECT_TRUE(digests.insert(other.digest()).second) << fields[changed].name;
    const auto found = cache::differences(text, other.text());
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].name, fields[changed].name);
  }
}

TEST(Keys, DoNotChangeWithWhatIsNot) {
  const std::string expected = key_text("pattern p { keep window(7, 0); }", f32(32));
  EXPECT_EQ(key_text("# a comment\npattern   p {\n  keep window(7,0);\n}\n", f32(32)), expected);
  EXPECT_EQ(key_text("pattern other { keep window(31, 0); }", f32(32)), expected) << "its numbers are arguments";
  CompileOptions named = f32(32);
  named.source_name = "/some/file.weft";
  EXPECT_EQ(key_text("pattern p { keep window(7, 0); }", named), expected);
  // A compiler is what it is, wherever it lies.
  const auto copy = fs::temp_directory_path() / fmt::format("weft-keys-{}", ::getpid());
  fs::copy_file("/bin/true", copy, fs::copy_options::overwrite_existing);
  EXPECT_EQ(key_text(kLongnet, f32(32), {.llvm = copy.string()}), key_text(kLongnet, f32(32), {.llvm = "/bin/true"}));
  fs::remove(copy);
}

/// What surrounds a process, drawn by lot.
void shake(std::mt19937& random) {
  const auto one_of = [&](const auto& list) { return list[random() % std::size(list)]; };
  static constexpr std::array kLocales = {"C", "C.UTF-8", "de_DE.UTF-8", "tr_TR.UTF-8", "en_US.UTF-8"};
  static constexpr std::array kFolders = {"/", "/tmp", "/usr/share", "/proc"};
  static constexpr std::array kZones = {"UTC", "Asia/Kathmandu", "America/St_Johns"};
  for (const char* name : {"LC_ALL", "LANG", "LC_NUMERIC"}) ::setenv(name, one_of(kLocales), 1);
  ::setenv("TZ", one_of(kZones), 1);
  ::setenv("HOME", one_of(kFolders), 1);
  ::setenv("NO_COLOR", std::to_string(random()).c_str(), 1);
  ::setenv(fmt::format("UNKNOWN_{}", random() % 1000).c_str(), std::string(random() % 5000, 'x').c_str(), 1);
  std::setlocale(LC_ALL, one_of(kLocales));
  ::umask(random() % 2 == 0 ? 0077 : 0022);
  if (::chdir(one_of(kFolders)) != 0) std::abort();
}

/// What `work` returns in a process of its own in such surroundings, behind a history of other kernels.
std::string shaken(unsigned seed, const std::function<std::string()>& work) {
  int ends[2];
  if (::pipe(ends) != 0) std::abort();
  const pid_t child = ::fork();
  if (child == 0) {
    std::mt19937 random(seed);
    shake(random);
    for (unsigned i = 0; i < random() % 3; ++i) (void)compilation(kCausal, f32(8 + 8 * static_cast<int>(random() % 8)));
    std::string out;
    if (random() % 2 == 0) {
      out = work();
    } else {
      std::thread([&] { out = work(); }).join();
    }
    ::_exit(::write(ends[1], out.data(), out.size()) == static_cast<ssize_t>(out.size()) ? 0 : 1);
  }
  ::close(ends[1]);
  std::string out;
  std::array<char, 4096> buffer;
  for (ssize_t got = 0; (got = ::read(ends[0], buffer.data(), buffer.size())) > 0;) {
    out.append(buffer.data(), static_cast<std::size_t>(got));
  }
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  return status == 0 ? out : fmt::format("status {}", status);
}

TEST(Keys, AreTheSameInAnySurroundings) {
  const auto work = [] { return key_text(kLongnet, f32(32)); };
  const std::string expected = work();
  const unsigned times = effort(150U, 1000U);
  for (unsigned seed = 0; seed < times; ++seed) ASSERT_EQ(shaken(seed, work), expected) << seed;
  EXPECT_NE(shaken(0, [] { return key_text(kLongnet, f32(40)); }), expected) << "the control";
}

TEST(Keys, TheSameGiveTheSameBytes) {
  const auto binary = [](std::int64_t dim) {
    const Engine engine({.no_cache = true});
    const auto kernel = engine.compile(kLongnet, f32(dim, "cpu"));
    return kernel ? hex(sha256(kernel->state().binary.entry.binary)) : kernel.error().message;
  };
  const std::string expected = shaken(1, [&] { return binary(32); });
  ASSERT_EQ(expected.size(), 64U) << expected;
  for (unsigned seed = 2; seed < 8; ++seed) EXPECT_EQ(shaken(seed, [&] { return binary(32); }), expected);
  EXPECT_NE(shaken(1, [&] { return binary(40); }), expected) << "the control";
}

}  // namespace
}  // namespace weft::test
