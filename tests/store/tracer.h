#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

/// Work in a traced process, where each system call can be refused, or the process killed in front of it.
namespace weft::store_test {

struct Call {
  std::uint64_t number = 0;  ///< SYS_...
  std::array<std::uint64_t, 6> arguments{};
  std::string path = {}, second_path = {};  ///< of calls that have them, as they are given
  std::string data = {};                    ///< of write and pwrite
  std::int64_t result = 0;                  ///< negative: an errno; meaningless of a killed call
};

/// What becomes of a call: 0: it is made; kKill: the process dies in front of it; else the errno it fails with.
inline constexpr int kKill = -1;
using Decide = std::function<int(const Call& call, std::size_t index)>;

struct Ended {
  std::vector<Call> calls;
  bool killed = false;
  int status = -1;  ///< what `work` returned, where it was not killed
};

/// Forks, runs `work` in the child and returns when that has ended. `work` returns 0..255. The calls are those of the
/// work, without the process's end.
Ended traced(const std::function<int()>& work, const Decide& decide = {});

/// Why processes cannot be traced here; empty where they can.
std::string cannot_trace();

/// It names a file, or works on an open one: what storage can refuse.
bool is_about_files(const Call& call);

}  // namespace weft::store_test
