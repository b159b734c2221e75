#pragma once

#include "compiler/base/result.h"
#include "compiler/ring/report.h"

#include <optional>
#include <string_view>
#include <utility>

namespace weft::ring {

/// What travels: rows of K and V to the rows that keep them; or whole heads, which change places inside groups of
/// ranks, and then rows of K and V between the groups; or rows of Q that keep more than others to the keys, and as in
/// `keys` what the others need. Where nothing has to, nothing does.
enum class Carrier { automatic, keys, heads, queries };
inline constexpr std::pair<const char*, Carrier> kCarriers[] = {
    {"auto", Carrier::automatic}, {"keys", Carrier::keys}, {"heads", Carrier::heads}, {"queries", Carrier::queries}};
/// One of these; in words `auto, keys, heads or queries`.
std::optional<Carrier> carrier_named(std::string_view word);

struct Choice {
  Split split;
  std::vector<std::string> reasons = {};  ///< for people
};

/// Who owns and computes what under a layout of the language. `auto` is, of contiguous, snakes (zigzag among them) and
/// chunks, the map whose slowest rank is predicted fastest: the same on every rank. With an automatic carrier heads
/// change places, or queries go to the keys, where that layout is `auto`, no map hides what `keys` costs, and the
/// prediction says that it pays; by queries, as a row's bits are no more one device's, a fifth of the time. User error
/// where heads are asked for, and there are fewer of K and V than any group of ranks has, or queries of a plan whose
/// kernels cut no keys.
Result<Choice> choose(const Relation& relation, ir::RingLayout layout, std::int64_t ranks, const Machine& machine,
                      Carrier carrier = Carrier::automatic);

}  // namespace weft::ring
