/// Work that takes longer than a second says so on a terminal, also where it is one step.

#include "command.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>
#include <thread>

namespace weft::test {
namespace {

/// A terminal whose reader keeps up: one that nobody reads stops its writers after some kilobytes.
class Terminal {
 public:
  Terminal() : file_(::posix_openpt(O_RDWR | O_NOCTTY)) {
    if (file_ < 0 || ::grantpt(file_) != 0 || ::unlockpt(file_) != 0) return;
    other_side_ = ::open(name().c_str(), O_RDWR | O_NOCTTY);
    if (usable()) reader_ = std::thread([this] { keep_up(); });
  }
  ~Terminal() {
    said();
    ::close(file_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  bool usable() const { return other_side_ >= 0; }
  std::string name() const { return ::ptsname(file_); }
  /// All that was written; nothing is, afterwards.
  const std::string& said() {
    if (reader_.joinable()) {
      ::close(other_side_);  // the last one: whoever reads is told that it is over
      reader_.join();
    }
    return said_;
  }

 private:
  void keep_up() {
    std::string piece(4096, '\0');
    for (ssize_t got = 0; (got = ::read(file_, piece.data(), piece.size())) > 0;)
      said_.append(piece, 0, static_cast<std::size_t>(got));
  }

  int file_ = -1, other_side_ = -1;
  std::string said_;
  std::thread reader_;
};

TEST(ProgressTest, IsShownOfOneLongStep) {
  const Scratch scratch;
  Terminal terminal;
  if (!terminal.usable()) GTEST_SKIP() << "no terminals here";
  const auto file = scratch.write("p.weft", "pattern everything { branch all; }\n");
  const auto finished = run_weft(scratch, Call{.arguments = {"run", file, "--target", "cpu", "--tokens", "32k",
                                                             "--heads", "1", "--dim", "128", "--threads", "1"},
                                               .err_to = terminal.name()});
  ASSERT_EQ(finished.status, 0) << terminal.said();
  const auto& said = terminal.said();
  EXPECT_NE(said.find("running everything, 1 s"), std::string::npos) << said;
  EXPECT_TRUE(said.ends_with("\r\x1b[K")) << "nothing is left of it: " << said;
}

}  // namespace
}  // namespace weft::test
