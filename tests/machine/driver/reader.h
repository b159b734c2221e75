#pragma once

#include "laboratory/sass/instruction.h"
#include "tests/machine/driver/warp.h"

#include <functional>
#include <string_view>

namespace weft::machine {

/// What an instruction does to the lanes of a warp for which its guard holds.
using Step = std::function<void(Warp&, Mask)>;

/// Where a value comes from.
struct Source {
  enum class From { vector, uniform, number } from = From::vector;
  int number = kZero;
  Word value = 0, value_above = 0;  ///< of a number, and the word behind it for what reads 64 bits
  bool negated = false, inverted = false, absolute = false;
  bool real = false;     ///< signs are those of f32 or, where 64 bits are read, of f64
  int shift = 0;         ///< a half or a byte: that much down …
  Word part = ~Word{0};  ///< … and so much of it

  void read(const Warp& warp, Lanes& out) const;
  /// 64 bits of two registers, signs applied to the whole.
  void read(const Warp& warp, WideLanes& out) const;
  /// As it stands in the register, without what its signs do.
  Source plain() const;
  Source above() const;
};

/// Where a result goes: a register, or one that the warp has once.
struct Place {
  int number = kZero;
  bool uniform = false;
  bool sets_flags = false;  ///< `.CC`

  void write(Warp& warp, const Lanes& values, Mask mask) const;
  void write(Warp& warp, const WideLanes& values, Mask mask) const;
  Place above() const;
};

/// A predicate as an operand.
struct Predicate {
  int number = kTrue;
  bool inverted = false, uniform = false;

  Mask read(const Warp& warp) const;
  void write(Warp& warp, Mask values, Mask mask) const;
};
constexpr Predicate kNever{.number = kTrue, .inverted = true};

/// `[R4.X16+UR5+0x20]`
struct Address {
  int number = kZero, uniform = kUniformZero;
  Word scale = 1;
  bool single = false;  ///< `.U32`: one register, where a global address has two
  std::int64_t offset = 0;

  Wide shared(const Warp& warp, int lane) const;
  Wide global(const Warp& warp, int lane) const;
};

struct Launch;

/// An instruction, asked for its parts by the rows that know what it does. Constants are numbers here: they are those
/// of the launch.
class Reader {
 public:
  Reader(const sass::Instruction& of, const Launch& launch) : of_(&of), launch_(&launch) {}

  int place() const { return of_->address; }
  std::string_view name() const { return of_->name(); }
  std::string_view opcode() const { return of_->opcode; }  ///< with its modifiers
  bool has(std::string_view modifier) const { return of_->has(modifier); }
  bool has_any(std::initializer_list<std::string_view> modifiers) const;
  std::size_t count() const { return of_->operands.size(); }
  std::string_view text(std::size_t n) const;
  /// Of the register that BSSY, BSYNC and BMOV name.
  int meeting() const;

  Source word(std::size_t n) const;
  Source real(std::size_t n) const;
  Source wide_real(std::size_t n) const;  ///< f64, in two registers
  Place result(std::size_t n) const;
  bool is_predicate(std::size_t n) const;
  Predicate predicate(std::size_t n) const;
  /// The operand, or what stands for one that is not there.
  Predicate predicate(std::size_t n, Predicate otherwise) const;
  Word number(std::size_t n) const;
  Address address(std::size_t n) const;
  /// `c[0x0][R4+0x20]`: the bank's bytes, and the address in it.
  std::pair<std::string_view, Address> constant(std::size_t n) const;

  [[noreturn]] void unknown() const;

 private:
  enum class Type { word, real, wide_real };
  Source source(std::size_t n, Type type) const;

  const sass::Instruction* of_;
  const Launch* launch_;
};

/// One instruction's meaning, by its name without modifiers.
struct Row {
  std::string_view name;
  Step (*read)(const Reader&);
};

/// Null where nothing here knows it. Names that two encodings share without sharing a meaning are looked up by it.
Step meaning_of(const sass::Instruction& instruction, const Launch& launch, bool wide);

}  // namespace weft::machine
