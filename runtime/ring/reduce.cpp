#include "runtime/ring/reduce.h"

#include <algorithm>

namespace weft {

namespace {

struct Share {
  std::size_t first = 0, count = 0;
};

Share share_of(std::size_t numbers, int rank, int ranks) {
  const auto border = [&](int of) { return numbers * static_cast<std::size_t>(of) / static_cast<std::size_t>(ranks); };
  return {.first = border(rank), .count = border(rank + 1) - border(rank)};
}

}  // namespace

Status add_over_ranks(Link& link, std::vector<float>& numbers) {
  const int me = link.rank(), ranks = link.ranks();
  if (ranks == 1) return done;
  const auto mine = share_of(numbers.size(), me, ranks);
  // What others have of the numbers that this rank adds up, rank by rank.
  std::vector<float> others(mine.count * static_cast<std::size_t>(ranks));
  std::vector<Transport::Part> sends, receives;
  const auto part = [](int peer, float* data, std::size_t count) {
    return Transport::Part{.peer = peer, .data = data, .bytes = count * sizeof(float)};
  };
  for (int peer = 0; peer < ranks; ++peer) {
    if (peer == me) continue;
    const auto its = share_of(numbers.size(), peer, ranks);
    if (its.count > 0) sends.push_back(part(peer, numbers.data() + its.first, its.count));
    if (mine.count > 0)
      receives.push_back(part(peer, others.data() + mine.count * static_cast<std::size_t>(peer), mine.count));
  }
  WEFT_TRY(const auto scattered, link.post(sends, receives));
  WEFT_CHECK(link.wait(scattered));
  std::copy_n(numbers.begin() + static_cast<std::ptrdiff_t>(mine.first), mine.count,
              others.begin() + static_cast<std::ptrdiff_t>(mine.count * static_cast<std::size_t>(me)));
  for (std::size_t i = 0; i < mine.count; ++i) {
    float sum = 0;
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks); ++rank) sum += others[rank * mine.count + i];
    numbers[mine.first + i] = sum;
  }
  sends.clear();
  receives.clear();
  for (int peer = 0; peer < ranks; ++peer) {
    if (peer == me) continue;
    const auto its = share_of(numbers.size(), peer, ranks);
    if (mine.count > 0) sends.push_back(part(peer, numbers.data() + mine.first, mine.count));
    if (its.count > 0) receives.push_back(part(peer, numbers.data() + its.first, its.count));
  }
  WEFT_TRY(const auto gathered, link.post(sends, receives));
  return link.wait(gathered);
}

}  // namespace weft
