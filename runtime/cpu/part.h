#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft::cpu {

/// What a backward pass computes where others compute the rest: the gradients of tokens of its own. Beside them it has
/// rows of Q, O and dO of others that keep one of its keys, and the keys that its own rows keep. Its tiles are those of
/// the whole, with rows that are not there, so that what it computes has the bits of the whole.
struct Part {
  std::vector<std::uint8_t> own;  ///< by token
  /// By token: is its row there? One's own are. Heads of K and V that have the same rows share a set.
  std::vector<std::vector<std::uint8_t>> there;
  std::vector<int> of;  ///< by entry and kv head, or by kv head alone where entries are alike
  std::int64_t kv_heads = 1;

  const std::vector<std::uint8_t>& rows(std::int64_t entry, std::int64_t kv) const {
    const bool alike = static_cast<std::int64_t>(of.size()) == kv_heads;
    return there[static_cast<std::size_t>(of[static_cast<std::size_t>((alike ? 0 : entry * kv_heads) + kv)])];
  }
  /// Of tokens whose rows are there for any head.
  std::vector<std::uint8_t> all_there() const {
    std::vector<std::uint8_t> out = own;
    for (const auto& rows : there) {
      for (std::size_t i = 0; i < out.size(); ++i) out[i] |= rows[i];
    }
    return out;
  }
  /// Of keys [first, end), is any its own?
  bool owns_any(std::int64_t first, std::int64_t end) const {
    for (auto key = first; key < end; ++key) {
      if (own[static_cast<std::size_t>(key)] != 0) return true;
    }
    return false;
  }
};

}  // namespace weft::cpu
