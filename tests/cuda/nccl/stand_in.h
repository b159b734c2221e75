#pragma once

#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

/// An NCCL that is none: its ranks are threads of one process, and its messages are copied on the host, where the
/// memory of the driver that stands in lies. Opened through WEFT_NCCL.
namespace weft::test {

struct NcclStandIn {
  std::mutex mutex;
  std::vector<std::string> calls;
  std::vector<std::string> misuse;  ///< what a real one would hang or crash of
  int comms = 0;                    ///< alive
  int aborts = 0;
  std::size_t bytes = 0;  ///< that went from one to the other

  // What to do.
  int version = 21805;
  int fail_at = -1;           ///< which call fails, counted from 0; -1: none
  bool connects = true;       ///< else ranks never come together
  bool loses = false;         ///< messages are never delivered
  int most_in_a_group = 128;  ///< more hang

  void forget() {
    calls.clear();
    misuse.clear();
    aborts = 0;
    bytes = 0;
    version = 21805;
    fail_at = -1;
    connects = true;
    loses = false;
    most_in_a_group = 128;
  }
};

}  // namespace weft::test

extern "C" __attribute__((visibility("default"))) weft::test::NcclStandIn* weft_nccl_stand_in();
