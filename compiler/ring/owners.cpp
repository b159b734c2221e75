#include "compiler/ring/owners.h"

#include <fmt/format.h>

namespace weft::ring {

namespace {

__extension__ using Wide = __int128;

std::int64_t border(std::int64_t number, std::int64_t pieces, std::int64_t tokens) {
  return static_cast<std::int64_t>(Wide{number} * tokens / pieces);
}

/// Appends tokens of a rank, to the run before where they follow it.
void own(Runs& runs, std::int64_t begin, std::int64_t end) {
  if (begin >= end) return;
  if (!runs.empty() && runs.back().end() == begin)
    runs.back().count += end - begin;
  else
    runs.push_back({.first = begin, .count = end - begin});
}

OwnerMap striped(std::int64_t tokens, std::int64_t ranks) {
  OwnerMap map{.name = "striped", .tokens = tokens, .runs = std::vector<Runs>(static_cast<std::size_t>(ranks))};
  for (std::int64_t g = 0; g < ranks; ++g) {
    const Run run = members({.rate = ranks, .residue = g}, 0, tokens);
    if (run.count > 0) map.runs[static_cast<std::size_t>(g)].push_back(run);
  }
  return map;
}

std::string name_of(std::int64_t ranks, std::int64_t group, std::int64_t rounds) {
  if (group == 1) return "contiguous";
  if (group == ranks && rounds == 2) return "zigzag";
  return fmt::format("snake(group {}, rounds {})", group, rounds);
}

}  // namespace

std::int64_t OwnerMap::most_tokens() const {
  std::int64_t most = 0;
  for (const auto& of : runs) most = std::max(most, count_of(of));
  return most;
}

OwnerMap snake(std::int64_t tokens, std::int64_t ranks, std::int64_t group, std::int64_t rounds) {
  OwnerMap map{.name = name_of(ranks, group, rounds),
               .tokens = tokens,
               .runs = std::vector<Runs>(static_cast<std::size_t>(ranks))};
  const std::int64_t pieces = ranks * rounds;
  std::int64_t piece = 0;
  for (std::int64_t first = 0; first < ranks; first += group) {
    const std::int64_t size = std::min(group, ranks - first);  // the last group may be smaller
    for (std::int64_t round = 0; round < rounds; ++round) {
      for (std::int64_t place = 0; place < size; ++place, ++piece) {
        const std::int64_t rank = first + (round % 2 == 0 ? place : size - 1 - place);
        own(map.runs[static_cast<std::size_t>(rank)], border(piece, pieces, tokens), border(piece + 1, pieces, tokens));
      }
    }
  }
  return map;
}

OwnerMap chunks(std::int64_t tokens, std::int64_t ranks, const std::vector<std::int64_t>& rank_of) {
  const auto pieces = std::ssize(rank_of);
  OwnerMap map{.name = fmt::format("chunks of {}", (tokens + pieces - 1) / pieces),
               .tokens = tokens,
               .runs = std::vector<Runs>(static_cast<std::size_t>(ranks))};
  for (std::int64_t piece = 0; piece < pieces; ++piece) {
    own(map.runs[static_cast<std::size_t>(rank_of[static_cast<std::size_t>(piece)])], border(piece, pieces, tokens),
        border(piece + 1, pieces, tokens));
  }
  return map;
}

OwnerMap owners(ir::RingLayout layout, std::int64_t tokens, std::int64_t ranks) {
  switch (layout) {
    case ir::RingLayout::contiguous:
      return snake(tokens, ranks, 1, 1);
    case ir::RingLayout::zigzag: {
      auto map = snake(tokens, ranks, ranks, 2);
      map.name = "zigzag";  // of one rank, too
      return map;
    }
    case ir::RingLayout::striped:
    case ir::RingLayout::automatic:
      break;
  }
  return striped(tokens, ranks);
}

}  // namespace weft::ring
