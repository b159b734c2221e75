#pragma once

#include <weft/ring.h>

#include <cstdint>
#include <memory>
#include <vector>

/// A program's own messages between threads, which come late and in any order, and have faults.
namespace weft::test {

struct Weather {
  std::uint64_t seed = 1;
  int most_delay_us = 2000;  ///< of each message, drawn

  /// What becomes of the message number `number` that this rank sends to others, of those with more bytes than a sign
  /// of life has.
  enum class Fault { none, lost, shorter, refused, refused_later } fault = Fault::none;
  int rank = 0;
  int number = 0;
};

/// What is wrong with how messages were used; looked at when all messengers have gone.
struct Misuse {
  int left_open = 0;  ///< messages that were neither done nor cancelled
};

std::vector<std::unique_ptr<Messenger>> messengers(int ranks, const Weather& weather,
                                                   const std::shared_ptr<Misuse>& misuse);

}  // namespace weft::test
