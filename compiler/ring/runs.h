#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

/// Arithmetic progressions of tokens: what owners and needs are lists of.
namespace weft::ring {

/// Tokens first, first + stride, …: `count` of them.
struct Run {
  std::int64_t first = 0, count = 0, stride = 1;
  std::int64_t last() const { return first + (count - 1) * stride; }
  std::int64_t end() const { return count > 0 ? last() + 1 : first; }
  bool operator==(const Run&) const = default;
};
using Runs = std::vector<Run>;

/// Keys [first, end).
struct Keys {
  std::int64_t first = 0, end = std::numeric_limits<std::int64_t>::max();  ///< all
  bool operator==(const Keys&) const = default;
};

/// Rows, and keys that they are computed with.
struct Cell {
  Runs rows;
  Keys keys = {};
};

/// Tokens of two runs; none where they share no token.
std::optional<Run> common(const Run& a, const Run& b);

/// Numbers v with v % rate == residue.
struct Residue {
  std::int64_t rate = 1, residue = 0;
  bool holds(std::int64_t v) const { return (v - residue) % rate == 0; }
  bool operator==(const Residue&) const = default;
};

/// Numbers that meet both; nothing where none does.
std::optional<Residue> common(const Residue& a, const Residue& b);

/// Members of the residue from lo up to, without it, hi.
Run members(const Residue& of, std::int64_t lo, std::int64_t hi);

/// Tokens of disjoint runs.
inline std::int64_t count_of(std::span<const Run> runs) {
  std::int64_t count = 0;
  for (const auto& run : runs) count += run.count;
  return count;
}

/// Tokens of `rows` that are in `of`, or in none of it; both sorted, disjoint and of stride 1.
Runs inside(const Runs& rows, const Runs& of);
Runs outside(const Runs& rows, const Runs& of);

/// Tokens, in their order, in parts of about as many; as many parts as there are tokens at most.
std::vector<Runs> cut(const Runs& runs, std::int64_t parts);

}  // namespace weft::ring
