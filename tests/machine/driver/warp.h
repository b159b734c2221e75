#pragma once

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

/// A GPU that executes machine code on the host, one warp instruction after the other. What it knows of time is
/// nothing.
namespace weft::machine {

using Word = std::uint32_t;
using Wide = std::uint64_t;
using Mask = Word;  ///< one bit for each lane of a warp

constexpr int kLanes = 32;
constexpr Mask kAllLanes = ~Mask{0};
constexpr int kZero = 255, kUniformZero = 63, kTrue = 7;  ///< RZ, URZ and PT: written in vain

/// One register of a warp.
using Lanes = std::array<Word, kLanes>;
/// Two, as numbers of 64 bits.
using WideLanes = std::array<Wide, kLanes>;

/// What ends a launch: a kernel did what a GPU would not bear, or an instruction is unknown here.
struct Fault {
  std::string what;
};

template <typename... Values>
[[noreturn]] void fault(fmt::format_string<Values...> format, Values&&... values) {
  throw Fault{fmt::format(format, std::forward<Values>(values)...)};
}

/// Calls `act(lane)` for each lane of the mask.
template <typename Act>
void each_lane(Mask mask, Act act) {
  for (; mask != 0; mask &= mask - 1) act(std::countr_zero(mask));
}

inline bool holds(Mask mask, int lane) { return (mask >> lane & 1) != 0; }

struct Block;

/// A place to which lanes of Maxwell and Pascal come back.
struct Return {
  enum class Kind { meeting, loop_end, other_side, call } kind;
  Mask mask;
  int at;  ///< index of an instruction
};

/// Volta's barrier of convergence, as one lane knows it: the lanes that shall meet. It does not know where: they go on
/// behind the BSYNC. (What BSSY names is that place, too: in 5,500 BSYNCs of our kernels, without exception.)
using Meeting = Mask;

/// Data on its way to shared memory, which nobody may count on before its warp has waited for it.
struct Copy {
  Wide to = 0;
  const std::byte* from = nullptr;  ///< null: zeros
  int bytes = 0;
};

/// How the barrier of a block answers.
enum class Answer { none, count, any, all };

struct Warp {
  Block* block = nullptr;
  int number = 0;

  std::array<Lanes, 256> registers{};
  std::array<Mask, 8> predicates{};
  std::array<Word, 64> uniform{};
  std::array<bool, 8> uniform_predicates{};
  Mask zero = 0, carry = 0, sign = 0, overflow = 0;  ///< flags, which Volta has no more
  Mask second_carry = 0;                             ///< of IADD3: three words may be two more than one holds

  Mask active = 0, exited = 0;
  Mask waiting = 0;  ///< at the block's barrier
  Answer answer = Answer::none;
  Mask vote = 0;     ///< what lanes bring to the barrier …
  Word outcome = 0;  ///< … and what it answered
  std::vector<Copy> copies;
  std::vector<std::byte> stacks;  ///< local memory of each lane, where the kernel has some

  // Maxwell and Pascal: a warp is at one place.
  int at = 0;
  std::vector<Return> returns;

  // Volta and newer: each lane is at its own.
  std::array<int, kLanes> places{};
  Mask blocked = 0;  ///< waits for other lanes
  std::array<std::array<Meeting, kLanes>, 16> meetings{};

  Mask live() const { return ~exited; }
  void write(int to_register, const Lanes& values, Mask mask) {
    if (to_register == kZero) return;
    Lanes& to = registers[static_cast<std::size_t>(to_register)];
    if (mask == kAllLanes) {
      to = values;
    } else {
      each_lane(mask, [&](int l) { to[static_cast<std::size_t>(l)] = values[static_cast<std::size_t>(l)]; });
    }
  }
};

}  // namespace weft::machine
