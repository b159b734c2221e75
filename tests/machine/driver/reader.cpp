#include "tests/machine/driver/reader.h"

#include "tests/machine/driver/launch.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

namespace weft::machine {
namespace {

std::size_t index(int number) { return static_cast<std::size_t>(number); }

/// `-|R3|.reuse` without what stands around the name; of `R3.reuse.B1` the part stays.
std::string bare(std::string_view text) {
  constexpr std::string_view kReuse = ".reuse";
  std::string out(text.substr(std::min(text.find_first_not_of("-+~!|"), text.size())));
  if (const auto at = out.find(kReuse); at != out.npos) out.erase(at, kReuse.size());
  if (out.ends_with('|')) out.pop_back();
  return out;
}

std::int64_t integer(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  const bool hexadecimal = text.starts_with("0x");
  if (hexadecimal) text.remove_prefix(2);
  std::int64_t out = 0;
  std::from_chars(text.data(), text.data() + text.size(), out, hexadecimal ? 16 : 10);
  return negative ? -out : out;
}

int number_of(std::string_view name, int zero) { return name == "Z" ? zero : static_cast<int>(integer(name)); }

struct Part {
  std::string_view suffix;
  int shift;
  Word mask;
};
constexpr Part kParts[] = {{".H0_H0", 0, 0xffff}, {".H1_H1", 16, 0xffff}, {".H0", 0, 0xffff}, {".H1", 16, 0xffff},
                           {".B0", 0, 0xff},      {".B1", 8, 0xff},       {".B2", 16, 0xff},  {".B3", 24, 0xff}};

Word float_bits(std::string_view text) {
  if (text.find("NAN") != text.npos) return std::bit_cast<Word>(std::nanf(""));
  return std::bit_cast<Word>(std::strtof(std::string(text).c_str(), nullptr));
}

Wide double_bits(std::string_view text) {
  if (text.find("NAN") != text.npos) return std::bit_cast<Wide>(std::nan(""));
  return std::bit_cast<Wide>(std::strtod(std::string(text).c_str(), nullptr));
}

/// The parts of `R4.X16+UR5+0x20`.
Address address_in(std::string_view inside, const Reader& reader) {
  Address out;
  while (!inside.empty()) {
    const auto end = std::min(inside.find('+'), inside.size());
    std::string_view term = inside.substr(0, end);
    inside.remove_prefix(std::min(end + 1, inside.size()));
    while (term.starts_with(' ')) term.remove_prefix(1);
    if (term.starts_with("UR")) {
      out.uniform = number_of(term.substr(2, term.find_first_of(". ") - 2), kUniformZero);
    } else if (term.starts_with('R')) {
      const auto dot = std::min(term.find('.'), term.size());
      out.number = number_of(term.substr(1, dot - 1), kZero);
      if (term.substr(dot).starts_with(".X"))
        out.scale = static_cast<Word>(integer(term.substr(dot + 2)));
      else if (term.substr(dot) == ".U32")
        out.single = true;
      else if (dot != term.size() && term.substr(dot) != ".64")
        reader.unknown();
    } else if (!term.empty()) {
      out.offset += integer(term);
    }
  }
  return out;
}

Word word_at(std::string_view bank, std::int64_t at) {
  Word out = 0;
  if (at < 0 || static_cast<std::size_t>(at) + sizeof out > bank.size()) return out;
  std::memcpy(&out, bank.data() + at, sizeof out);
  return out;
}

}  // namespace

void Source::read(const Warp& warp, Lanes& out) const {
  switch (from) {
    case From::vector:
      out = warp.registers[index(number)];
      break;
    case From::uniform:
      out.fill(warp.uniform[index(number)]);
      break;
    case From::number:
      out.fill(value);
      break;
  }
  if (part != ~Word{0}) {
    for (Word& x : out) x = x >> shift & part;
  }
  constexpr Word kSign = 0x80000000;
  if (absolute) {
    for (Word& x : out) x = real ? x & ~kSign : (x & kSign) != 0 ? 0 - x : x;
  }
  if (negated) {
    for (Word& x : out) x = real ? x ^ kSign : 0 - x;
  }
  if (inverted) {
    for (Word& x : out) x = ~x;
  }
}

void Source::read(const Warp& warp, WideLanes& out) const {
  Lanes low, high;
  plain().read(warp, low);
  above().read(warp, high);
  for (std::size_t l = 0; l < kLanes; ++l) {
    out[l] = low[l] | Wide{high[l]} << 32;
    constexpr Wide kSign = Wide{1} << 63;
    if (absolute) out[l] = real ? out[l] & ~kSign : (out[l] & kSign) != 0 ? 0 - out[l] : out[l];
    if (negated) out[l] = real ? out[l] ^ kSign : 0 - out[l];
    if (inverted) out[l] = ~out[l];
  }
}

Source Source::plain() const {
  Source out = *this;
  out.negated = out.inverted = out.absolute = false;
  return out;
}

Source Source::above() const {
  Source out = plain();
  out.value = value_above;
  if (from == From::vector && number != kZero) ++out.number;
  if (from == From::uniform && number != kUniformZero) ++out.number;
  return out;
}

void Place::write(Warp& warp, const Lanes& values, Mask mask) const {
  if (!uniform) {
    warp.write(number, values, mask);
  } else if (number != kUniformZero && mask != 0) {
    warp.uniform[index(number)] = values[index(std::countr_zero(mask))];
  }
}

void Place::write(Warp& warp, const WideLanes& values, Mask mask) const {
  Lanes low, high;
  for (std::size_t l = 0; l < kLanes; ++l) {
    low[l] = static_cast<Word>(values[l]);
    high[l] = static_cast<Word>(values[l] >> 32);
  }
  write(warp, low, mask);
  above().write(warp, high, mask);
}

Place Place::above() const {
  Place out = *this;
  if (number != (uniform ? kUniformZero : kZero)) ++out.number;
  return out;
}

Mask Predicate::read(const Warp& warp) const {
  const Mask held = !uniform ? warp.predicates[index(number)] : warp.uniform_predicates[index(number)] ? kAllLanes : 0;
  return inverted ? ~held : held;
}

void Predicate::write(Warp& warp, Mask values, Mask mask) const {
  if (number == kTrue || mask == 0) return;
  if (uniform) {
    warp.uniform_predicates[index(number)] = holds(values, std::countr_zero(mask));
  } else {
    Mask& held = warp.predicates[index(number)];
    held = (held & ~mask) | (values & mask);
  }
}

Wide Address::shared(const Warp& warp, int lane) const {
  return warp.registers[index(number)][index(lane)] * scale + warp.uniform[index(uniform)] + static_cast<Word>(offset);
}

Wide Address::global(const Warp& warp, int lane) const {
  Wide out = static_cast<Wide>(offset) + warp.registers[index(number)][index(lane)];
  if (number != kZero && !single) out += Wide{warp.registers[index(number + 1)][index(lane)]} << 32;
  if (uniform != kUniformZero) out += warp.uniform[index(uniform)] | Wide{warp.uniform[index(uniform + 1)]} << 32;
  return out;
}

bool Reader::has_any(std::initializer_list<std::string_view> modifiers) const {
  return std::any_of(modifiers.begin(), modifiers.end(), [&](std::string_view m) { return has(m); });
}

std::string_view Reader::text(std::size_t n) const {
  if (n >= of_->operands.size()) unknown();
  return of_->operands[n].text;
}

int Reader::meeting() const {
  if (of_->meeting.size() < 2) unknown();
  return static_cast<int>(integer(of_->meeting.substr(1)));
}

Source Reader::word(std::size_t n) const { return source(n, Type::word); }
Source Reader::real(std::size_t n) const { return source(n, Type::real); }
Source Reader::wide_real(std::size_t n) const { return source(n, Type::wide_real); }

Source Reader::source(std::size_t n, Type type) const {
  const bool real = type != Type::word;
  std::string name = bare(text(n));
  const sass::Operand& o = of_->operands[n];
  Source out{.negated = o.negated, .inverted = o.inverted, .absolute = o.absolute, .real = real};
  for (const Part& part : kParts) {
    if (const auto at = name.find(part.suffix); at != name.npos) {
      out.shift = part.shift;
      out.part = part.mask;
      name = name.substr(0, at);
      break;
    }
  }
  if (name.starts_with("UR")) {
    out.from = Source::From::uniform;
    out.number = number_of(name.substr(2), kUniformZero);
  } else if (name.starts_with('R')) {
    out.number = number_of(name.substr(1), kZero);
  } else if (name == "SRZ") {
    out.number = kZero;
  } else if (name.starts_with("c[")) {
    const auto [bank, at] = constant(n);
    if (at.number != kZero || at.uniform != kUniformZero) unknown();
    if (static_cast<std::size_t>(at.offset) + sizeof(Word) > bank.size()) {
      fault("at {:#x}: {} lies outside its bank of {} bytes", place(), name, bank.size());
    }
    out.from = Source::From::number;
    out.value = word_at(bank, at.offset);
    out.value_above = word_at(bank, at.offset + 4);
  } else {
    const bool hexadecimal = name.starts_with("0x");
    if (!hexadecimal && !real && o.kind != sass::Operand::Kind::immediate) unknown();
    out = {.from = Source::From::number, .real = real};
    Wide bits = 0;
    if (type == Type::wide_real) {
      if (hexadecimal) unknown();
      bits = double_bits(text(n));
    } else {
      bits = hexadecimal || !real ? static_cast<Wide>(integer(text(n))) : float_bits(text(n));
    }
    out.value = static_cast<Word>(bits);
    out.value_above = static_cast<Word>(bits >> 32);
  }
  return out;
}

Place Reader::result(std::size_t n) const {
  const std::string name = bare(text(n));
  const auto end = name.find('.');
  const bool uniform = name.starts_with('U');
  if (!uniform && !name.starts_with('R')) unknown();
  return {.number = uniform ? number_of(name.substr(2, end - 2), kUniformZero)
                            : number_of(name.substr(1, end == name.npos ? end : end - 1), kZero),
          .uniform = uniform,
          .sets_flags = name.ends_with(".CC")};
}

bool Reader::is_predicate(std::size_t n) const {
  if (n >= of_->operands.size()) return false;
  const auto kind = of_->operands[n].kind;
  return kind == sass::Operand::Kind::predicate || kind == sass::Operand::Kind::uniform_predicate;
}

Predicate Reader::predicate(std::size_t n) const {
  if (!is_predicate(n)) unknown();
  const sass::Operand& o = of_->operands[n];
  return {.number = o.number, .inverted = o.inverted, .uniform = o.kind == sass::Operand::Kind::uniform_predicate};
}

Predicate Reader::predicate(std::size_t n, Predicate otherwise) const {
  return is_predicate(n) ? predicate(n) : otherwise;
}

Word Reader::number(std::size_t n) const { return static_cast<Word>(integer(text(n))); }

Address Reader::address(std::size_t n) const {
  // From sm_90 on a descriptor stands before the address: desc[UR4][R2.64].
  std::string_view all = text(n);
  const auto begin = all.rfind('['), end = all.rfind(']');
  if (begin == all.npos || end == all.npos) unknown();
  return address_in(all.substr(begin + 1, end - begin - 1), *this);
}

std::pair<std::string_view, Address> Reader::constant(std::size_t n) const {
  const std::string name = bare(text(n));
  const auto close = name.find(']');
  if (!name.starts_with("c[") || close == name.npos) unknown();
  const auto bank = static_cast<std::size_t>(integer(name.substr(2, close - 2)));
  if (bank >= kBanks) unknown();
  return {launch_->constants[bank], address(n)};
}

void Reader::unknown() const {
  std::string operands;
  for (const sass::Operand& o : of_->operands) operands += (operands.empty() ? " " : ", ") + o.text;
  fault("at {:#x}: the machine does not know {}{}", of_->address, of_->opcode, operands);
}

}  // namespace weft::machine
