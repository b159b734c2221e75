#include "tests/support/program_writer.h"

#include <algorithm>

namespace weft::test {

/// Mostly short, now and then longer than the sequence.
std::int64_t ProgramWriter::length(const Place& place) {
  return random_.between(1, random_.one_in(4) ? 2 * place.n_k : std::max<std::int64_t>(2, place.n_k / 3));
}

std::string ProgramWriter::size(std::int64_t value) {
  value = std::max<std::int64_t>(value, 1);
  if (integers_.empty() || !random_.one_in(4)) return std::to_string(value);
  const std::string name = random_.pick(integers_).name;
  const std::string forms[] = {name, name + " + " + std::to_string(value), std::to_string(value) + " * " + name,
                               "max(" + name + " - 1, " + std::to_string(value) + ")"};
  return forms[random_.between(0, 3)];
}

std::string ProgramWriter::phase(std::int64_t rate) {
  const std::string r = random_.one_in(2) ? "rate" : std::to_string(rate);
  switch (random_.between(0, 4)) {
    case 0:
      return "h % " + r;
    case 1:
      return form("h / ((H + {} - 1) / {})", {r, r});
    case 2:
      return "h";
    case 3:
      return form("select(h < {}, 0, {})", {random_.between(1, 3), random_.between(0, rate)});
    default:
      return std::to_string(random_.between(0, 2 * rate));
  }
}

std::string ProgramWriter::dilated_arguments() {
  const std::int64_t rate = random_.between(1, 6);
  const Place place{.n_k = program_.shape.n_k};
  std::string out = form("segment: {}, rate: {}", {size(length(place)), size(rate)});
  if (!random_.one_in(3)) out += ", phase: " + phase(rate);
  if (random_.one_in(3)) out += ", queries: all";
  return out;
}

std::string ProgramWriter::neighborhood(const Place& place) {
  const bool on_grid = !grid_.empty() && place.block == 0;
  const std::vector<std::int64_t> extents = on_grid ? grid_ : std::vector<std::int64_t>{place.n_k};
  std::string sizes, dilations, strides, flags;
  for (const std::int64_t n : extents) {
    if (n < 2) return "causal";
    const std::int64_t size = random_.between(2, std::min<std::int64_t>(n, 9));
    const std::int64_t dilation = random_.one_in(2) ? 1 : random_.between(1, n / size);
    const char* comma = sizes.empty() ? "" : ", ";
    sizes += comma + std::to_string(size);
    dilations += comma + std::to_string(dilation);
    strides += comma + std::to_string(random_.one_in(2) ? 1 : random_.between(1, size));
    flags += form("{}{}", {comma, random_.one_in(3)});
  }
  neighbors_ = true;
  const auto argument = [&](const char* name, const std::string& values) {
    return form("{}: {}", {name, on_grid ? "[" + values + "]" : values});
  };
  std::string out = "neighborhood(" + argument("size", sizes);
  if (random_.one_in(2)) out += ", " + argument("dilation", dilations);
  if (random_.one_in(2)) out += ", " + argument("stride", strides);
  if (random_.one_in(2)) out += ", " + argument("causal", flags);
  return out + ")";
}

std::string ProgramWriter::blocks(const Place& place) {
  const std::int64_t block = random_.between(1, std::max<std::int64_t>(2, place.n_k / 4));
  const std::int64_t tokens = block * std::max<std::int64_t>(place.block, 1);
  const Place inside{.n_k = (place.n_k + block - 1) / block, .block = tokens};
  return form("blocks({}, {})", {block, set(static_cast<int>(random_.between(0, 2)), inside)});
}

std::string ProgramWriter::input(const std::string& role, const std::string& type, const std::string& axes,
                                 const Place& place) {
  std::string name = role;
  for (const char c : axes) {
    if (c >= 'a' && c <= 'z') name += c;
  }
  if (axes.find("blocks") != std::string::npos) name += std::to_string(place.block);
  if (declared_.insert(name).second) inputs_ += form("  input {}: {}[{}];\n", {name, type, axes});
  return name;
}

std::string ProgramWriter::input_leaf(const Place& place) {
  const bool by_block = place.block > 0;
  const std::string tokens = by_block ? "blocks" : "tokens";
  const std::string batch = random_.one_in(2) ? "batch, " : "";
  switch (random_.between(0, by_block ? 4 : 2)) {
    case 0:
      indexed_by_q_ = true;
      return form("document({})", {input("doc", "i32", "batch, " + tokens, place)});
    case 1:
      return form("lengths({})", {input("len", "i32", "batch", place)});
    case 2: {
      indexed_by_q_ = true;
      const std::string heads = random_.one_in(2) ? "heads, " : "";
      const std::string pairs = by_block ? "blocks, blocks" : "queries, keys";
      return form("table({})", {input("mask", "u8", batch + heads + pairs, place)});
    }
    case 3:
      indexed_by_q_ = true;
      return form("top({}, by: input({}))",
                  {random_.between(1, 4), input("scores", "f32", "batch, heads, blocks, blocks", place)});
    default: {
      const char* causal = random_.one_in(3) ? ", causal: true" : "";
      return form("top({}, by: pooled{})", {random_.between(1, 4), causal});
    }
  }
}

std::string ProgramWriter::plain_leaf(const Place& place) {
  switch (random_.between(0, 10)) {
    case 0:
      return form("window({}, {})", {size(length(place)), random_.one_in(2) ? "0" : size(length(place))});
    case 1:
      return form("segment({})", {size(length(place))});
    case 2:
      return form("dilated({})", {dilated_arguments()});
    case 3:
      return form("strided({}{})",
                  {size(random_.between(1, 5)), random_.one_in(2) ? form(", phase: {}", {random_.between(0, 6)}) : ""});
    case 4:
      return form("lag({})", {size(random_.between(1, 7))});
    case 5:
      return form("{}({})", {random_.one_in(2) ? "sink" : "prefix", random_.between(0, place.n_k / 2)});
    case 6:
      return form("global({})", {random_.between(0, std::max<std::int64_t>(1, place.n_k / 6))});
    case 7:
      return form("random({}, seed: {})",
                  {random_.between(1, std::max<std::int64_t>(2, place.n_k / 2)), random_.between(0, 99)});
    case 8:
      return "all";
    default:
      return "causal";
  }
}

std::string ProgramWriter::leaf(const Place& place) {
  switch (random_.between(0, 11)) {
    case 0:
      if (place.n_k >= 2 && (grid_.empty() || place.block == 0)) return neighborhood(place);
      return plain_leaf(place);
    case 1:
      if (place.n_k >= 4 && (place.block == 0 || random_.one_in(4))) return blocks(place);
      return plain_leaf(place);
    case 2:
      return input_leaf(place);
    case 3:
      if (!grid_.empty() && place.block == 0) return random_.one_in(2) ? "axial" : neighborhood(place);
      return plain_leaf(place);
    case 4:
    case 5:
      return form("where({})", {relation(place)});
    case 6:
      return form("where({})", {condition(static_cast<int>(random_.between(1, options_.nesting)), place)});
    case 7:
      if (place.block == 0 && !sets_.empty()) return random_.pick(sets_);
      return plain_leaf(place);
    default:
      return plain_leaf(place);
  }
}

std::string ProgramWriter::set(int nesting, const Place& place) {
  if (nesting == 0 || random_.one_in(3)) return leaf(place);
  // Brackets stay out now and then: whatever the operators then bind is a set as well.
  const auto part = [&] {
    const std::string inner = set(nesting - 1, place);
    return random_.one_in(4) ? inner : "(" + inner + ")";
  };
  const std::string a = part();
  switch (random_.between(0, 6)) {
    case 0:
    case 1:
      return a + " & " + part();
    case 2:
    case 3:
      return a + " | " + part();
    case 4:
      return a + " - " + part();
    case 5:
      return "!(" + a + ")";
    default:
      return "!" + leaf(place) + " | " + a;
  }
}

}  // namespace weft::test
