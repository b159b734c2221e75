#include "tests/support/places.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

/// `weft run --ring mpi` as jobs of processes, one of which may be killed or stopped. Skipped without an MPI.
namespace weft::test {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;  // MPI's own libraries are not clean
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
#else
constexpr bool kSanitized = false;
#endif

class MpiJob : public ::testing::Test {
 protected:
  void SetUp() override {
    if (kSanitized) GTEST_SKIP() << "MPI under sanitizers";
    if (std::system("command -v mpirun >/dev/null 2>&1") != 0 ||
        !fs::exists(fs::path(WEFT_COMMAND).parent_path() / "weft-mpi.so"))
      GTEST_SKIP() << "no mpirun, or no weft-mpi.so, which cmake makes where it finds mpicc";
    const auto* const name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    folder_ = fs::temp_directory_path() / ("weft-mpi-" + std::string(name) + std::to_string(::getpid()));
    fs::create_directories(folder_);
    // Open MPI wants to be asked twice by root, and counts cores.
    ::setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    ::setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    ::setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 1);
    ::setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 1);
    ::setenv("WEFT_CACHE_DIR", (folder_ / "cache").c_str(), 1);
    ::unsetenv("WEFT_MPI");
  }
  void TearDown() override {
    if (!folder_.empty()) fs::remove_all(folder_);
  }

  /// A job of so many ranks; its exit status, 124 where two minutes do not end it. `harm` is a command of the shell
  /// with the job's processes in $ranks, sent after a second.
  int run(int ranks, const std::string& arguments, const std::string& harm = "") {
    const auto job = "timeout 120 mpirun -n " + std::to_string(ranks) + " " + WEFT_COMMAND + " run " + arguments;
    auto script = "cd " + folder_.string() + "; " + job + " >out 2>err";
    if (!harm.empty()) {
      script += " & job=$!; sleep 1; mpi=$(ps --ppid $job -o pid= | head -n 1); ranks=$(ps --ppid $mpi -o pid=); " +
                harm + "; wait $job";
    }
    return WEXITSTATUS(std::system(("bash -c '" + script + "'").c_str()));
  }
  std::string out() const { return text_of(folder_ / "out"); }
  std::string err() const { return text_of(folder_ / "err"); }

  fs::path folder_;
};

TEST_F(MpiJob, HasTheBitsOfOneDevice) {
  const auto window =
      in_checkout("examples/window.weft") + " --tokens 700 --heads 2 --seed 5 --target cpu --threads 1 ";
  ASSERT_EQ(std::system((std::string(WEFT_COMMAND) + " run " + window + "--quiet -o " + (folder_ / "one.npy").string() +
                         " --lse " + (folder_ / "one_l.npy").string() + " >/dev/null")
                            .c_str()),
            0);
  for (const char* layout : {"", ":contiguous", ":zigzag", ":striped"}) {
    ASSERT_EQ(run(3, window + "--check -o ring.npy --lse ring_l.npy --ring mpi" + layout), 0) << err();
    EXPECT_EQ(text_of(folder_ / "ring.npy"), text_of(folder_ / "one.npy")) << layout;
    EXPECT_EQ(text_of(folder_ / "ring_l.npy"), text_of(folder_ / "one_l.npy")) << layout;
    EXPECT_NE(out().find("3 ranks (mpi)"), std::string::npos) << out();
    EXPECT_EQ(out().find("ring "), out().rfind("ring ")) << "one rank prints: " << out();
  }
}

TEST_F(MpiJob, CutsKeys) {
  const std::string pattern = "pattern p { branch global(16) | window(20, 20); }";
  std::ofstream(folder_ / "global.weft") << pattern;
  const auto text = (folder_ / "global.weft").string() + " --tokens 1500 --heads 2 --target cpu --threads 1 --check ";
  for (const std::string how : {"--ring-by queries", "--ring-memory 400k"}) {
    ASSERT_EQ(run(3, text + "-o three.npy --ring mpi " + how), 0) << err();
    EXPECT_NE(out().find("bits of chunks of"), std::string::npos) << out();
    ASSERT_EQ(run(2, text + "-o two.npy --ring mpi " + how), 0) << err();
    EXPECT_EQ(text_of(folder_ / "three.npy"), text_of(folder_ / "two.npy")) << how;
  }
}

TEST_F(MpiJob, GradientsHaveTheBitsOfOneDevice) {
  const auto window = in_checkout("examples/window.weft") +
                      " -D width=100 --tokens 700 --heads 2 --seed 5 --target cpu --threads 1 --grad random ";
  ASSERT_EQ(std::system((std::string("cd ") + folder_.string() + "; " + WEFT_COMMAND + " run " + window +
                         "--quiet --dq q1.npy --dk k1.npy --dv v1.npy >/dev/null")
                            .c_str()),
            0);
  for (const auto& [ranks, carrier] : {std::pair{3, "keys"}, {4, "heads"}}) {
    ASSERT_EQ(run(ranks, window + "--check --dq q.npy --dk k.npy --dv v.npy --ring mpi --ring-by " + carrier), 0)
        << err();
    for (const std::string of : {"q", "k", "v"})
      EXPECT_EQ(text_of(folder_ / (of + ".npy")), text_of(folder_ / (of + "1.npy"))) << of << carrier;
  }
  const auto biased = in_checkout("examples/t5.weft") +
                      " --pattern t5_decoder --tokens 300 --heads 2 --dim 16 --target cpu "
                      "--threads 1 --grad random --check --dinput bias=b.npy --ring mpi";
  ASSERT_EQ(run(3, biased), 0) << err();
  EXPECT_FALSE(text_of(folder_ / "b.npy").empty());
}

TEST_F(MpiJob, RanksThatDisagreeEndWithStatusOne) {
  // Each rank makes its own tensors: of other lengths, where it is told so.
  std::ofstream(folder_ / "rank.sh") << "tokens=512; [ \"$OMPI_COMM_WORLD_RANK\" = 1 ] && tokens=500\nexec "
                                     << WEFT_COMMAND << " run " << in_checkout("examples/window.weft")
                                     << " --tokens $tokens --ring mpi --target cpu -o x.npy\n";
  const int status =
      WEXITSTATUS(std::system(("cd " + folder_.string() + "; timeout 60 mpirun -n 3 bash rank.sh >out 2>err").c_str()));
  EXPECT_EQ(status, 1) << err();
  EXPECT_NE(err().find("disagree on the number of tokens; ranks 0, 2: 512; rank 1: 500"), std::string::npos) << err();
  EXPECT_FALSE(fs::exists(folder_ / "x.npy"));
}

/// Long enough that a second later it still computes.
std::string long_run() {
  return in_checkout("examples/dense.weft") +
         " --pattern causal --tokens 24k --heads 8 --target cpu --threads 1 "
         "--ring mpi --ring-timeout 1500 -o x.npy";
}

TEST_F(MpiJob, ARankThatStopsIsLost) {
  const int status = run(3, long_run(), "kill -STOP $(echo $ranks | cut -d \" \" -f 3)");
  EXPECT_EQ(status, 3) << out() << err();
  EXPECT_NE(err().find("rank 2 is lost"), std::string::npos) << err();
  EXPECT_FALSE(fs::exists(folder_ / "x.npy"));
}

TEST_F(MpiJob, ARankThatIsKilledEndsTheJob) {
  const int status = run(3, long_run(), "kill -KILL $(echo $ranks | cut -d \" \" -f 2)");
  EXPECT_NE(status, 0) << out() << err();
  EXPECT_FALSE(fs::exists(folder_ / "x.npy"));
}

TEST(MpiPlugin, WithoutItASentenceSaysHowToMakeOne) {
  const auto folder = fs::temp_directory_path() / ("weft-no-mpi-" + std::to_string(::getpid()));
  fs::create_directories(folder);
  const auto command = "WEFT_MPI=" + (folder / "none.so").string() + " " + WEFT_COMMAND + " run " +
                       in_checkout("examples/window.weft") + " --tokens 64 --ring mpi 2>" + (folder / "err").string();
  EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 3);
  EXPECT_NE(text_of(folder / "err").find("mpicc"), std::string::npos) << text_of(folder / "err");
  fs::remove_all(folder);
}

}  // namespace
}  // namespace weft::test
