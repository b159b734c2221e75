/// A system that refuses files costs the store, and nothing else: no signal, no wrong result.

#include "tests/engine/folder.h"
#include "tests/engine/problem.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

namespace weft::test {
namespace {

const CompileOptions kOptions{.dim = 16, .dtype = DType::f32};

/// `work` in a process of its own, whose limits are no business of ours: its exit status, or 128 + the signal's number.
template <typename Work>
int in_process(const Work& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    ::_exit(work());
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

bool limit(int what, rlim_t to) {
  const rlimit both = {to, to};
  return ::setrlimit(static_cast<__rlimit_resource>(what), &both) == 0;
}

bool runs(const Engine& engine) {
  Problem problem(1, 64, 2, 16);
  const auto kernel = engine.compile(kLongnet, kOptions);
  return kernel && kernel->run(problem.args()).ok() && !std::isnan(problem.out[0]);
}

TEST(Files, ThatMayNotGrowAreNoSignal) {
  // The control: who writes without care is ended.
  const Folder folder;
  EXPECT_EQ(in_process([&] {
              if (!limit(RLIMIT_FSIZE, 1000)) return 1;
              std::ofstream(folder.path() / "control") << std::string(2000, 'x') << std::flush;
              return 0;
            }),
            128 + SIGXFSZ);
  for (const rlim_t most : {rlim_t{0}, rlim_t{100}, rlim_t{4000}}) {
    EXPECT_EQ(in_process([&] {
                if (!limit(RLIMIT_FSIZE, most)) return 1;
                const auto record = (folder.path() / "record").string();
                const Engine engine({.cache_dir = (folder.path() / "store").string(), .record = record});
                if (!runs(engine)) return 2;
                return engine.take_warnings().empty() ? 3 : 0;
              }),
              0)
        << most;
  }
}

TEST(Files, ThatCannotBeOpenedAreAnError) {
  const Folder folder;
  const auto store = (folder.path() / "store").string();
  ASSERT_TRUE(runs(Engine({.cache_dir = store})));
  const int used = ::dup(0);
  ::close(used);
  bool ran = false, failed = false;
  for (int more = 0; more < 12; ++more) {
    for (const bool stored : {true, false}) {
      const int status = in_process([&] {
        if (!limit(RLIMIT_NOFILE, static_cast<rlim_t>(used + more))) return 1;
        const Engine engine({.cache_dir = stored ? store : "", .no_cache = !stored});
        const auto kernel = engine.compile(kLongnet, kOptions);
        if (!kernel) return kernel.error().kind == ErrorKind::environment ? 10 : 2;
        return runs(engine) ? 0 : 3;
      });
      EXPECT_TRUE(status == 0 || status == 10) << status << " with " << more << " files";
      (status == 0 ? ran : failed) = true;
    }
  }
  EXPECT_TRUE(ran && failed);
}

}  // namespace
}  // namespace weft::test
