/// Loads, stores, and copies from global to shared memory.

#include "tests/machine/driver/lanewise.h"
#include "tests/machine/driver/launch.h"

#include <cstring>

namespace weft::machine {
namespace {

/// How many bytes of memory a lane has in each.
int width_of(const Reader& r) {
  if (r.has_any({"U8", "S8"})) return 1;
  if (r.has_any({"U16", "S16"})) return 2;
  return r.has("128") ? 16 : r.has("64") ? 8 : 4;
}

void expect_aligned(Wide address, int bytes, int lane, int place) {
  if (address % static_cast<Wide>(bytes) == 0) return;
  fault("at {:#x}: lane {} accesses {} bytes at {:#x}, which is no multiple", place, lane, bytes, address);
}

std::byte* global(Warp& warp, Wide address, int bytes, int lane, int place, const char* what) {
  auto* const found = warp.block->launch->memory->find(address, static_cast<std::size_t>(bytes));
  if (found == nullptr) {
    fault("the {} at {:#x} of {} bytes, lane {} of warp {} in block {}: {:#x} lies outside every allocation", what,
          place, bytes, lane, warp.number, warp.block->index[0], address);
  }
  return found;
}

enum class Space { global, shared, local };

/// A lane's stack, which begins at 0 and grows down. What nobody wrote is NaN.
std::byte* local(Warp& warp, Word address, int bytes, int lane, int place) {
  constexpr Word kBytes = 16 << 10;
  const Word depth = 0 - address;
  if (depth > kBytes || depth < static_cast<Word>(bytes)) fault("at {:#x}: no local memory at {:#x}", place, address);
  if (warp.stacks.empty()) warp.stacks.assign(kLanes * std::size_t{kBytes}, std::byte{0xff});
  return warp.stacks.data() + at(lane + 1) * kBytes - depth;
}

/// The bytes of one lane, checked.
std::byte* reach(Warp& warp, Space space, bool load, Wide address, int bytes, int lane, int place) {
  expect_aligned(address, bytes, lane, place);
  if (space == Space::local) return local(warp, static_cast<Word>(address), bytes, lane, place);
  if (space == Space::shared) {
    return load ? warp.block->shared.load(warp.number, address, bytes, place)
                : warp.block->shared.store(warp.number, address, bytes, place);
  }
  auto& launch = *warp.block->launch;
  auto* const out = global(warp, address, bytes, lane, place, load ? "load" : "store");
  if (load) launch.note_load(warp, address);
  const auto size = static_cast<std::size_t>(bytes);
  if (!load) {
    launch.memory->mark_written(address, size);
  } else if (!launch.memory->is_written(address, size)) {
    launch.findings.insert(fmt::format("the load at {:#x} reads global memory nobody wrote", place));
  }
  return out;
}

Step access(const Reader& r) {
  const bool load = r.name().starts_with('L');
  const Space space = r.name().ends_with('S')                  ? Space::shared
                      : r.name() == "LDL" || r.name() == "STL" ? Space::local
                                                               : Space::global;
  const Place value = r.result(load ? 0 : 1);
  const Address where = r.address(load ? 1 : 0);
  const int bytes = width_of(r), sign_bits = r.has("S8") ? 24 : r.has("S16") ? 16 : 0, place = r.place();
  return [=](Warp& warp, Mask mask) {
    each_lane(mask, [&](int l) {
      const Wide address = space == Space::global ? where.global(warp, l) : where.shared(warp, l);
      std::byte* const memory = reach(warp, space, load, address, bytes, l, place);
      for (int word = 0; 4 * word < bytes; ++word) {
        const auto size = static_cast<std::size_t>(std::min(bytes, 4));
        Word& held = warp.registers[value.number == kZero ? at(kZero) : at(value.number + word)][at(l)];
        if (!load) {
          std::memcpy(memory + 4 * word, &held, size);
        } else if (value.number != kZero) {
          held = 0;
          std::memcpy(&held, memory + 4 * word, size);
          held = static_cast<Word>(static_cast<std::int32_t>(held << sign_bits) >> sign_bits);
        }
      }
    });
  };
}

/// memory = join(memory, register), of lanes one after the other.
template <typename Number, typename Join>
Step joined(const Reader& r, Join join) {
  const Address where = r.address(0);
  const Source with = r.word(1);
  const int place = r.place();
  return [=](Warp& warp, Mask mask) {
    std::array<Number, kLanes> x;
    with.read(warp, x);
    each_lane(mask, [&](int l) {
      std::byte* const memory = reach(warp, Space::global, true, where.global(warp, l), sizeof(Number), l, place);
      Number held;
      std::memcpy(&held, memory, sizeof held);
      held = join(held, x[at(l)]);
      std::memcpy(memory, &held, sizeof held);
    });
  };
}

/// Adds to a number of global memory, or joins it.
Step reduce(const Reader& r) {
  const bool real = r.has("F32"), is_signed = r.has("S32"), most = r.has("MAX"), least = r.has("MIN"),
             sum = r.has("ADD"), either = r.has("OR"), both = r.has("AND"), wide = r.has_any({"64", "U64", "S64"});
  if (r.has_any({"F16x2", "F64"}) || !(most || least || sum || either || both) || (!sum && (real || wide))) r.unknown();
  if (wide) return joined<Wide>(r, [](Wide a, Wide b) { return a + b; });
  return joined<Word>(r, [=](Word a, Word b) {
    const bool less = is_signed ? static_cast<std::int32_t>(a) < static_cast<std::int32_t>(b) : a < b;
    if (real) return std::bit_cast<Word>(std::bit_cast<float>(a) + std::bit_cast<float>(b));
    if (sum) return a + b;
    return most || least ? (less == least ? a : b) : either ? a | b : a & b;
  });
}

/// Until the warp has waited, the bytes are NaNs: what reads too early computes something else.
Step copy(const Reader& r) {
  constexpr std::byte kPoison{0x7e};
  const Address to = r.address(0), from = r.address(1);
  const Predicate taken = r.predicate(2, {});
  const int bytes = width_of(r), place = r.place();
  return [=](Warp& warp, Mask mask) {
    const Mask wanted = taken.read(warp);
    each_lane(mask, [&](int l) {
      Copy one{.to = to.shared(warp, l), .from = nullptr, .bytes = bytes};
      expect_aligned(one.to, bytes, l, place);
      if (holds(wanted, l)) one.from = reach(warp, Space::global, true, from.global(warp, l), bytes, l, place);
      std::fill_n(warp.block->shared.store(warp.number, one.to, bytes, place), bytes, kPoison);
      warp.copies.push_back(one);
    });
  };
}

Step end_of_group(const Reader&) {
  return [](Warp&, Mask) {};
}

/// Waits for all copies of the warp. On Maxwell and Pascal it waits for loads, which have come at once.
Step wait(const Reader& r) {
  const bool all = r.count() < 2 || r.text(1) == "0x0";
  const int place = r.place();
  return [=](Warp& warp, Mask) {
    if (!all && !warp.copies.empty()) fault("at {:#x}: copies in several groups are not known here", place);
    for (const Copy& c : warp.copies) {
      std::byte* const to = warp.block->shared.store(warp.number, c.to, c.bytes, place);
      if (c.from == nullptr) {
        std::fill_n(to, c.bytes, std::byte{0});
      } else {
        std::memcpy(to, c.from, static_cast<std::size_t>(c.bytes));
      }
    }
    warp.copies.clear();
  };
}

}  // namespace

Rows access_rows() {
  return {{"LDS", access},  {"STS", access}, {"LDG", access}, {"STG", access},  {"LDL", access},
          {"STL", access},  {"LD", access},  {"ST", access},  {"LDGSTS", copy}, {"LDGDEPBAR", end_of_group},
          {"DEPBAR", wait}, {"RED", reduce}, {"REDG", reduce}};
}

}  // namespace weft::machine
