#include "compiler/ring/rounds.h"

#include "compiler/ir/key_chunks.h"
#include "compiler/ring/portions.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft::ring {

namespace {

/// Rounds are multiples of it, mostly whole blocks of kernels.
constexpr std::int64_t kBlock = 64;
/// K and V of the round at hand and of the next, and messages in and out.
constexpr std::int64_t kBuffers = 4;

/// K and V by position, and messages, of the rank with the most.
double most_memory(const Report& report) {
  double most = 0;
  for (const auto& share : report.ranks)
    most = std::max(most, share.held_bytes() + share.keys_bytes() + share.sent_bytes);
  return most;
}

}  // namespace

Result<Choice> choose_within(std::size_t memory, const Relation& relation, ir::RingLayout layout, std::int64_t ranks,
                             const Machine& machine, Carrier carrier) {
  WEFT_TRY(auto choice, choose(relation, layout, ranks, machine, carrier));
  const auto room = static_cast<double>(memory);
  double most = memory > 0 ? most_memory(report_of(relation, choice.split, machine)) : 0;
  if (most <= room) return choice;
  if (carrier == Carrier::automatic && (choice.split.changes_heads() || choice.split.moves_queries())) {
    WEFT_TRY(choice, choose(relation, layout, ranks, machine, Carrier::keys));
    most = most_memory(report_of(relation, choice.split, machine));
    if (most <= room) return choice;
  }
  const auto refused = [&](const std::string& why) {
    return user_error(
        fmt::format("a rank needs {:.4g} MB for K, V and messages, and has {:.4g}; {}", most / 1e6, room / 1e6, why));
  };
  if (choice.split.changes_heads() || choice.split.moves_queries())
    return refused("the carrier 'keys' goes through the keys in rounds");
  if (layout == ir::RingLayout::striped) return refused("a striped ring does not go through the keys in rounds");
  WEFT_CHECK(ir::check_key_cuts(relation.plan()));
  const auto& shape = relation.shape();
  const auto row = row_bytes(relation) * static_cast<double>(shape.kv_heads * shape.batch * kBuffers);
  choice.split.round_keys = static_cast<std::int64_t>(room / row) / kBlock * kBlock;
  if (choice.split.round_keys == 0)
    return refused(fmt::format("the smallest round of keys takes {:.4g}", row * kBlock / 1e6));
  choice.reasons.push_back(fmt::format("a rank needs {:.4g} MB for K, V and messages, and has {:.4g}: {} rounds",
                                       most / 1e6, room / 1e6,
                                       (shape.n_k + choice.split.round_keys - 1) / choice.split.round_keys));
  return choice;
}

}  // namespace weft::ring
