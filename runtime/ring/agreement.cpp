#include "runtime/ring/agreement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>

namespace weft {

namespace {

constexpr std::size_t kField = 48, kFields = 12;
using Record = std::array<char, kField * kFields>;

std::string field_of(std::span<const char> record, std::size_t number) {
  const auto field = record.subspan(number * kField, kField);
  return {field.begin(), std::find(field.begin(), field.end(), '\0')};
}

}  // namespace

std::string names_of(const std::vector<int>& ranks) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    parts.push_back(last > i ? fmt::format("{} to {}", ranks[i], ranks[last]) : std::to_string(ranks[i]));
    i = last + 1;
  }
  return fmt::format("rank{} {}", ranks.size() > 1 ? "s" : "", fmt::join(parts, ", "));
}

Result<std::vector<char>> said_by_all(Link& link, std::span<const char> mine) {
  const auto size = mine.size();
  std::vector<char> out(static_cast<std::size_t>(link.ranks()) * size);
  const auto of = [&](int rank) { return out.data() + static_cast<std::size_t>(rank) * size; };
  std::copy(mine.begin(), mine.end(), of(link.rank()));
  std::vector<Transport::Part> sends, receives;
  for (int peer = 0; peer < link.ranks(); ++peer) {
    if (peer == link.rank()) continue;
    sends.push_back({peer, of(link.rank()), size});
    receives.push_back({peer, of(peer), size});
  }
  WEFT_TRY(const auto step, link.post(sends, receives));
  WEFT_CHECK(link.wait(step));
  return out;
}

Status agree(Link& link, const std::vector<Agreed>& things) {
  Record mine = {};
  for (std::size_t i = 0; i < things.size() && i < kFields; ++i)
    things[i].value.copy(mine.data() + i * kField, kField - 1);
  const auto ranks = static_cast<std::size_t>(link.ranks());
  WEFT_TRY(const auto records, said_by_all(link, mine));
  for (std::size_t i = 0; i < things.size() && i < kFields; ++i) {
    std::vector<std::string> values;  // in the order of the ranks
    std::map<std::string, std::vector<int>> who;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      auto value = field_of(std::span(records).subspan(rank * mine.size(), mine.size()), i);
      if (!who.contains(value)) values.push_back(value);
      who[value].push_back(static_cast<int>(rank));
    }
    if (values.size() == 1) continue;
    std::vector<std::string> said;
    for (const auto& value : values) said.push_back(fmt::format("{}: {}", names_of(who[value]), value));
    auto error =
        user_error(fmt::format("the ranks of the ring disagree on the {}; {}", things[i].what, fmt::join(said, "; ")));
    error.code = ErrorCode::ring_mismatch;
    return error;
  }
  return done;
}

}  // namespace weft
