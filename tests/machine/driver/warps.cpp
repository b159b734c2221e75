/// Between the lanes of a warp, and the warps of a block.

#include "tests/machine/driver/lanewise.h"
#include "tests/machine/driver/launch.h"

namespace weft::machine {
namespace {

enum class Way { to_index, xor_index, down, up };

/// The lane that one reads, and whether it lies in its segment.
std::pair<int, bool> partner(Way way, int lane, Word by, Word clamp) {
  const Word segment = clamp >> 8 & 31, end = clamp & 31, l = static_cast<Word>(lane);
  const Word first = l & segment, last = first | (end & ~segment), n = by & 31;
  switch (way) {
    case Way::to_index:
      return {static_cast<int>(first | (n & ~segment)), (first | (n & ~segment)) <= last};
    case Way::xor_index:
      return {static_cast<int>(l ^ n), (l ^ n) <= last};
    case Way::down:
      return {static_cast<int>(l + n), l + n <= last};
    case Way::up:
      return {lane - static_cast<int>(n), lane - static_cast<int>(n) >= static_cast<int>(last)};
  }
  return {lane, false};
}

Step shuffle(const Reader& r) {
  const Way way = r.has("IDX") ? Way::to_index : r.has("BFLY") ? Way::xor_index : r.has("DOWN") ? Way::down : Way::up;
  const Predicate inside = r.predicate(0);
  const Place to = r.result(1);
  const Source from = r.word(2), by = r.word(3), clamp = r.word(4);
  const int place = r.place();
  return [=](Warp& warp, Mask mask) {
    Lanes x, n, c, out{};
    from.read(warp, x);
    by.read(warp, n);
    clamp.read(warp, c);
    Mask in_segment = 0;
    each_lane(mask, [&](int l) {
      auto [other, is_inside] = partner(way, l, n[at(l)], c[at(l)]);
      if (!is_inside) other = l;
      out[at(l)] = x[at(other & 31)];
      in_segment |= Word{is_inside} << l;
      if (holds(warp.active, other & 31)) return;
      warp.block->launch->findings.insert(
          fmt::format("SHFL at {:#x}: lane {} reads lane {}, which is not there", place, l, other & 31));
    });
    to.write(warp, out, mask);
    inside.write(warp, in_segment, mask);
  };
}

Step vote(const Reader& r) {
  const std::size_t n = r.is_predicate(0) ? 0 : 1;
  const Place to = n == 1 ? r.result(0) : Place();
  const Predicate answer = r.predicate(n), asked = r.predicate(n + 1);
  const bool all = r.has("ALL"), same = r.has("EQ");
  return [=](Warp& warp, Mask mask) {
    const Mask yes = asked.read(warp) & mask;
    const bool is_true = same ? yes == 0 || yes == mask : all ? yes == mask : yes != 0;
    answer.write(warp, is_true ? kAllLanes : 0, mask);
    Lanes ballot;
    ballot.fill(yes);
    to.write(warp, ballot, mask);
  };
}

/// One value of all lanes together.
Step reduce(const Reader& r) {
  const bool is_signed = r.has("S32"), least = r.has("MIN"), most = r.has("MAX"), sum = r.has("SUM"),
             either = r.has("OR"), differs = r.has("XOR");
  const auto join = [=](Word a, Word b) {
    const bool less = is_signed ? static_cast<std::int32_t>(a) < static_cast<std::int32_t>(b) : a < b;
    if (least || most) return less == least ? a : b;
    return sum ? a + b : either ? a | b : differs ? a ^ b : a & b;
  };
  return [=, to = r.result(0), from = r.word(1)](Warp& warp, Mask mask) {
    Lanes x;
    from.read(warp, x);
    Word all = x[at(std::countr_zero(mask))];
    each_lane(mask & (mask - 1), [&](int l) { all = join(all, x[at(l)]); });
    x.fill(all);
    to.write(warp, x, mask);
  };
}

/// What the block's last barrier answered.
Step barrier_result(const Reader& r) {
  if (!r.has("RESULT")) r.unknown();
  Place to;
  Predicate answer;
  for (std::size_t n = 0; n < r.count(); ++n) {
    if (r.is_predicate(n)) {
      answer = r.predicate(n);
    } else {
      to = r.result(n);
    }
  }
  return [=](Warp& warp, Mask mask) {
    Lanes x;
    x.fill(warp.outcome);
    to.write(warp, x, mask);
    answer.write(warp, warp.outcome != 0 ? kAllLanes : 0, mask);
  };
}

/// Keeps the lanes that shall meet in a register, where places to meet nest deeper than there are barriers.
Step move_meeting(const Reader& r) {
  const auto meeting = static_cast<std::size_t>(r.meeting());
  const bool saves = r.text(1).starts_with('B'), clears = r.has("CLEAR");
  const Place to = saves ? r.result(0) : Place();
  const Source from = saves ? Source() : r.word(1);
  return [=](Warp& warp, Mask mask) {
    Lanes x;
    from.read(warp, x);
    for (std::size_t l = 0; l < kLanes; ++l) {
      Meeting& lanes = warp.meetings[meeting][l];
      if (!holds(mask, static_cast<int>(l))) continue;
      if (!saves) lanes = x[l];
      x[l] = lanes;
      if (saves && clears) lanes = 0;
    }
    if (saves) to.write(warp, x, mask);
  };
}

}  // namespace

Rows warp_rows() {
  return {{"SHFL", shuffle}, {"VOTE", vote},          {"VOTEU", vote},
          {"REDUX", reduce}, {"B2R", barrier_result}, {"BMOV", move_meeting}};
}

}  // namespace weft::machine
