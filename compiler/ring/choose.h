#pragma once

#include "compiler/base/result.h"
#include "compiler/ring/report.h"

#include <optional>
#include <string_view>

namespace weft::ring {

/// What travels: rows of K and V to the rows that keep them, or whole heads, which change places inside groups of
/// ranks, and then rows of K and V between the groups. Where nothing has to, nothing does.
enum class Carrier { automatic, keys, heads };
/// `auto`, `keys` or `heads`.
std::optional<Carrier> carrier_named(std::string_view word);

struct Choice {
  Split split;
  std::vector<std::string> reasons = {};  ///< for people
};

/// Who owns and computes what under a layout of the language. `auto` is, of contiguous, snakes (zigzag among them) and
/// chunks, the map whose slowest rank is predicted fastest: the same on every rank. With an automatic carrier heads
/// change places where that layout is `auto`, no map hides what it costs, and the prediction says that it pays. User
/// error where heads are asked for, and there are fewer of K and V than any group of ranks has.
Result<Choice> choose(const Relation& relation, ir::RingLayout layout, std::int64_t ranks, const Machine& machine,
                      Carrier carrier = Carrier::automatic);

}  // namespace weft::ring
