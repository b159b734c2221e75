#include "tests/machine/driver/lanewise.h"

#include <iterator>
#include <map>

namespace weft::machine {
namespace {

using Table = std::map<std::string_view, Step (*)(const Reader&)>;

Table table_of(std::initializer_list<Rows> parts) {
  Table out;
  for (const Rows& rows : parts) {
    for (const Row& row : rows) out.emplace(row.name, row.read);
  }
  return out;
}

const Table& table(bool wide) {
  static const Table kWide = table_of({real_rows(), double_rows(), conversion_rows(), integer_rows(), logic_rows(),
                                       move_rows(), warp_rows(), matrix_rows(), access_rows()});
  static const Table kNarrow = table_of({narrow_rows(), real_rows(), double_rows(), conversion_rows(), integer_rows(),
                                         logic_rows(), move_rows(), warp_rows(), access_rows()});
  return wide ? kWide : kNarrow;
}

}  // namespace

Step meaning_of(const sass::Instruction& instruction, const Launch& launch, bool wide) {
  const Table& rows = table(wide);
  std::string_view name = instruction.name();
  auto found = rows.find(name);
  // What a warp does once is named for what lanes do: UIADD3, UMOV.
  if (found == rows.end() && name.starts_with('U')) found = rows.find(name.substr(1));
  const Reader reader(instruction, launch);
  try {
    if (found == rows.end()) reader.unknown();
    return found->second(reader);
  } catch (const Fault& unknown) {
    // Only what runs must be known.
    return [unknown](Warp&, Mask) { throw unknown; };
  }
}

Comparison Comparison::read(const Reader& r) {
  constexpr unsigned kLess = 1, kEqual = 2, kGreater = 4, kUnordered = 8;
  static constexpr std::pair<std::string_view, unsigned> kNames[] = {
      {"LT", kLess},
      {"LE", kLess | kEqual},
      {"GT", kGreater},
      {"GE", kGreater | kEqual},
      {"EQ", kEqual},
      {"NE", kLess | kGreater},
      {"LTU", kLess | kUnordered},
      {"LEU", kLess | kEqual | kUnordered},
      {"GTU", kGreater | kUnordered},
      {"GEU", kGreater | kEqual | kUnordered},
      {"EQU", kEqual | kUnordered},
      {"NEU", kLess | kGreater | kUnordered},
      {"NUM", kLess | kEqual | kGreater},
      {"NAN", kUnordered},
  };
  Comparison out;
  for (const auto& [name, accepted] : kNames) {
    if (r.has(name)) out.accepted_ = accepted;
  }
  if (out.accepted_ == 0) r.unknown();
  return out;
}

Junction Junction::read(const Reader& r, int nth) {
  static constexpr std::string_view kNames[] = {"AND", "OR", "XOR"};
  Junction out;
  std::string_view rest = r.opcode();
  while (!rest.empty()) {
    rest.remove_prefix(std::min(rest.find('.'), rest.size() - 1) + 1);
    const auto* const found = std::find(std::begin(kNames), std::end(kNames), rest.substr(0, rest.find('.')));
    if (found != std::end(kNames) && nth-- == 0) out.kind_ = static_cast<int>(found - std::begin(kNames));
  }
  return out;
}

}  // namespace weft::machine
