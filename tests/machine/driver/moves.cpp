/// From registers, constants and what the hardware knows to registers.

#include "tests/machine/driver/lanewise.h"
#include "tests/machine/driver/launch.h"

#include <cstring>

namespace weft::machine {
namespace {

Step nothing(const Reader&) {
  return [](Warp&, Mask) {};
}

Step move(const Reader& r) {
  const std::size_t n = r.is_predicate(0) ? 1 : 0;
  const Place to = r.result(n);
  const Source from = r.word(n + 1);
  const bool wide = r.has("64"), to_uniform = r.name() == "R2UR";
  const int place = r.place();
  return [=](Warp& warp, Mask mask) {
    Lanes x;
    from.read(warp, x);
    each_lane(to_uniform ? mask : 0, [&](int l) {
      if (x[at(l)] == x[at(std::countr_zero(mask))]) return;
      warp.block->launch->findings.insert(fmt::format("R2UR at {:#x} of a value that lanes do not share", place));
    });
    Lanes y;
    if (wide) from.above().read(warp, y);
    to.write(warp, x, mask);
    if (wide) to.above().write(warp, y, mask);
  };
}

Step of_hardware(const Reader& r) {
  const Place to = r.result(0);
  const std::string_view name = r.text(1);
  if (!name.starts_with("SR_")) return move(r);
  const bool wide = r.name() == "CS2R" && !r.has("32");
  const auto axis = static_cast<std::size_t>(name.back() - 'X');
  const bool thread = name.starts_with("SR_TID."), block = name.starts_with("SR_CTAID."), lane = name == "SR_LANEID";
  if (!thread && !block && !lane && name != "SR_CgaCtaId") r.unknown();
  return [=](Warp& warp, Mask mask) {
    Lanes x{};
    for (std::size_t l = 0; l < kLanes; ++l) {
      const auto number = static_cast<Word>(l);
      if (thread && axis == 0) x[l] = static_cast<Word>(warp.number) * kLanes + number;
      if (block) x[l] = warp.block->index[axis];
      if (lane) x[l] = number;
    }
    to.write(warp, x, mask);
    if (wide) to.above().write(warp, Lanes{}, mask);
  };
}

/// CS2R clears two registers where it does not say 32.
Step of_hardware_or_zero(const Reader& r) {
  if (r.text(1) != "SRZ" || r.has("32")) return of_hardware(r);
  return [to = r.result(0)](Warp& warp, Mask mask) { to.write(warp, WideLanes{}, mask); };
}

/// Each lane from an address of its own.
Step load_constant(const Reader& r) {
  const std::string_view text = r.text(1);
  const std::size_t count = r.has("128") ? 4 : r.has("64") ? 2 : 1;
  if (text.find("][R") == text.npos && text.find("][UR") == text.npos && count < 4) return move(r);
  if (r.has_any({"U8", "S8", "U16", "S16"})) r.unknown();
  const auto [bank, where] = r.constant(1);
  const Place to = r.result(0);
  const int place = r.place();
  return [=, bank = bank, where = where](Warp& warp, Mask mask) {
    // All words before any is written: a result may lie in the address's register.
    std::array<Lanes, 4> words{};
    for (std::size_t i = 0; i < count; ++i) {
      each_lane(mask, [&](int l) {
        const Wide from = where.shared(warp, l) + sizeof(Word) * i;
        if (from + sizeof(Word) > bank.size()) fault("at {:#x}: a constant outside its bank, at {:#x}", place, from);
        std::memcpy(&words[i][at(l)], bank.data() + from, sizeof(Word));
      });
    }
    Place result = to;
    for (std::size_t i = 0; i < count; ++i, result = result.above()) result.write(warp, words[i], mask);
  };
}

constexpr int kPredicates = 7;

/// Predicates or, on Maxwell and Pascal, flags: zero, sign, carry and overflow.
std::array<Mask Warp::*, 4> flags() { return {&Warp::zero, &Warp::sign, &Warp::carry, &Warp::overflow}; }

Step from_predicates(const Reader& r) {
  const Place to = r.result(0);
  const bool of_flags = r.text(1) == "CC";
  if (!of_flags && r.text(1) != "PR") r.unknown();
  const Source rest = r.word(2), which = r.word(3);
  return [=](Warp& warp, Mask mask) {
    Lanes x, wanted;
    rest.read(warp, x);
    which.read(warp, wanted);
    for (std::size_t l = 0; l < kLanes; ++l) {
      Word bits = 0;
      for (std::size_t i = 0; i < (of_flags ? flags().size() : kPredicates); ++i) {
        bits |= ((of_flags ? warp.*flags()[i] : warp.predicates[i]) >> l & 1) << i;
      }
      x[l] = (x[l] & ~wanted[l]) | (bits & wanted[l]);
    }
    to.write(warp, x, mask);
  };
}

Step to_predicates(const Reader& r) {
  const bool of_flags = r.text(0) == "CC";
  const Source from = r.word(1), which = r.word(2);
  return [=](Warp& warp, Mask mask) {
    Lanes x, wanted;
    from.read(warp, x);
    which.read(warp, wanted);
    for (std::size_t i = 0; i < (of_flags ? flags().size() : kPredicates); ++i) {
      Mask& held = of_flags ? warp.*flags()[i] : warp.predicates[i];
      const Mask chosen = mask & mask_of([&](std::size_t l) { return (wanted[l] >> i & 1) != 0; });
      held = (held & ~chosen) | (mask_of([&](std::size_t l) { return (x[l] >> i & 1) != 0; }) & chosen);
    }
  };
}

}  // namespace

Rows move_rows() {
  return {{"MOV", move},
          {"MOV32I", move},
          {"R2UR", move},
          {"LDC", load_constant},
          {"LDCU", load_constant},
          {"S2R", of_hardware},
          {"S2UR", of_hardware},
          {"CS2R", of_hardware_or_zero},
          {"P2R", from_predicates},
          {"R2P", to_predicates},
          {"NOP", nothing},
          {"YIELD", nothing},
          {"MEMBAR", nothing},
          {"ERRBAR", nothing},
          {"CCTL", nothing},
          {"TEXDEPBAR", nothing},
          {"ENDCOLLECTIVE", nothing}};
}

}  // namespace weft::machine
