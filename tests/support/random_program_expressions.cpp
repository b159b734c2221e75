#include "tests/support/program_writer.h"

#include <algorithm>

namespace weft::test {

std::string ProgramWriter::list() {
  if (!integer_lists_.empty() && random_.one_in(2)) return random_.pick(integer_lists_).name;
  if (random_.one_in(4)) return form("{}..{}", {random_.between(0, 2), random_.between(3, 6)});
  std::string out = "[" + std::to_string(random_.between(0, 9));
  for (auto more = random_.between(0, 3); more > 0; --more) out += ", " + std::to_string(random_.between(0, 9));
  return out + "]";
}

std::string ProgramWriter::over_list(const char* word, int nesting, const Place& place, bool boolean) {
  Place inside = place;
  inside.bound.push_back("x" + std::to_string(place.bound.size()));
  const std::string body = boolean ? condition(nesting, inside) : integer(nesting, inside);
  return form("{}({} in {}: {})", {word, inside.bound.back(), list(), body});
}

/// An element of an input at this pair.
std::string ProgramWriter::element(const Place& place, const std::string& type, const std::string& role) {
  const std::string batch = random_.one_in(2) ? "batch, " : "", b = batch.empty() ? "" : "b, ";
  if (place.block > 0) {
    const bool by_q = random_.one_in(2);
    indexed_by_q_ = indexed_by_q_ || by_q;
    return form("{}[{}{}]", {input(role, type, batch + "blocks", place), b, by_q ? "q" : "k"});
  }
  switch (random_.between(0, 3)) {
    case 0:
      indexed_by_q_ = true;
      return form("{}[{}q]", {input(role, type, batch + "queries", place), b});
    case 1:
      return form("{}[{}k]", {input(role, type, batch + "keys", place), b});
    case 2:
      indexed_by_q_ = true;
      return form("{}[{}{}]", {input(role, type, batch + "tokens", place), b, random_.one_in(2) ? "q" : "k"});
    default: {
      const std::int64_t reach = random_.between(1, 4);
      indexed_by_q_ = true;
      return form(
          "{}[h, min(max(q - k, -{}), {}) + {}]",
          {input(role + std::to_string(reach), type, form("heads, {}", {2 * reach + 1}), place), reach, reach, reach});
    }
  }
}

std::string ProgramWriter::integer_leaf(const Place& place) {
  if (!place.bound.empty() && random_.one_in(2)) return random_.pick(place.bound);
  switch (random_.between(0, 9)) {
    case 0:
    case 1:
      return "q";
    case 2:
    case 3:
      return "k";
    case 4:
      return random_.one_in(2) ? "q - k" : "h";
    case 5:
      return random_.pick(std::vector<std::string>{"b", "H", "n_q", "n_k"});
    case 6:
      if (!integers_.empty()) return random_.pick(integers_).name;
      return "1";
    case 7:
      return element(place, random_.one_in(3) ? "u8" : "i32", "near");
    case 8:
      if (random_.one_in(6)) return random_.pick(std::vector<std::string>{"1k", "3000000000", "1m", "65537"});
      if (!integer_lists_.empty() && random_.one_in(2)) {
        const Name& name = random_.pick(integer_lists_);
        return random_.one_in(3) ? form("{0}[len({0}) - 1]", {name.name})
                                 : form("{}[{}]", {name.name, random_.between(0, name.size - 1)});
      }
      return std::to_string(place.n_k / 2);
    default:
      return std::to_string(random_.between(0, 9));
  }
}

std::string ProgramWriter::integer(int nesting, const Place& place) {
  if (nesting <= 0 || random_.one_in(3)) return integer_leaf(place);
  const auto part = [&] {
    const std::string inner = integer(nesting - 1, place);
    return random_.one_in(3) ? inner : "(" + inner + ")";
  };
  switch (random_.between(0, 10)) {
    case 0:
    case 1:
      return form("{} + {}", {part(), part()});
    case 2:
    case 3:
      return form("{} - {}", {part(), part()});
    case 4:
      return form("{} * {}", {part(), random_.between(0, 5)});
    case 5:
      return form("({}) {} {}",
                  {integer(nesting - 1, place), random_.one_in(2) ? "/" : "%", size(random_.between(1, 9))});
    case 6:
      // A divisor that may be 0 or negative, of whichever meaning that has.
      return form("({}) {} ({})",
                  {integer(nesting - 1, place), random_.one_in(2) ? "/" : "%", integer(nesting - 1, place) + " + q"});
    case 7:
      return form("{}({}, {})",
                  {random_.one_in(2) ? "min" : "max", integer(nesting - 1, place), integer(nesting - 1, place)});
    case 8:
      return form("{}({})", {random_.one_in(2) ? "abs" : "-", integer(nesting - 1, place)});
    case 9:
      return over_list("sum", nesting - 1, place, false);
    default:
      return form("select({}, {}, {})",
                  {condition(nesting - 1, place), integer(nesting - 1, place), integer(nesting - 1, place)});
  }
}

/// What people write: bounds and remainders of positions.
std::string ProgramWriter::relation(const Place& place) {
  const std::int64_t w = length(place), r = random_.between(1, 6);
  switch (random_.between(0, 9)) {
    case 0:
      return form("0 <= q - k < {}", {size(w)});
    case 1:
      return form("(q - k) % {} == {}", {size(r), random_.between(0, r - 1)});
    case 2:
      return form("k % {} == {} or q == k", {size(r), random_.between(0, r - 1)});
    case 3:
      return form("abs(q - k) <= {}", {size(w)});
    case 4:
      return form("q / {0} == k / {0}", {size(w)});
    case 5:
      return form("(k + {}) / {} <= (q + {}) / {}", {random_.between(0, 5), r, random_.between(0, 5), r});
    case 6:
      return form("any(r in {}: abs(q - k) == r) or k < {}", {list(), random_.between(1, 4)});
    case 7:
      return form("q - k in {}", {list()});
    case 8:
      return form("k < {} and {}", {size(w), condition(1, place)});
    default:
      return form("q % {} == {} and k <= q or k == {}", {r, random_.between(0, r - 1), random_.between(0, 3)});
  }
}

std::string ProgramWriter::comparison(int nesting, const Place& place) {
  static const std::vector<std::string> kSigns = {"<", "<=", ">", ">=", "==", "!="};
  std::string out = integer(nesting, place);
  for (auto more = random_.one_in(4) ? 2 : 1; more > 0; --more) {
    out += form(" {} {}", {random_.pick(kSigns), integer(nesting, place)});
  }
  return out;
}

std::string ProgramWriter::condition(int nesting, const Place& place) {
  if (nesting <= 0) {
    switch (random_.between(0, 5)) {
      case 0:
        if (!booleans_.empty()) return random_.pick(booleans_).name;
        return "true";
      case 1:
        return form("{} < {}", {element(place, "f32", "bias"), reals_.empty() ? "0.75" : random_.pick(reals_).name});
      case 2:
        return form("{} == 1", {element(place, "u8", "flag")});
      default:
        return comparison(0, place);
    }
  }
  const auto part = [&] { return "(" + condition(nesting - 1, place) + ")"; };
  switch (random_.between(0, 8)) {
    case 0:
      return form("{} and {}", {part(), part()});
    case 1:
      return form("{} or {}", {part(), part()});
    case 2:
      return "not " + part();
    case 3:
      return form("{} {} {}", {part(), random_.one_in(2) ? "==" : "!=", part()});
    case 4:
      return over_list(random_.one_in(2) ? "any" : "all", nesting - 1, place, true);
    case 5:
      return form("({}) in {}", {integer(nesting - 1, place), list()});
    case 6:
      return relation(place);
    default:
      return comparison(nesting, place);
  }
}

// ---------------------------------------------------------------- scores

/// A summand of a few units at most, exact or nearly: what a score adds must not drown it.
std::string ProgramWriter::summand() {
  const Place place{.n_k = program_.shape.n_k};
  switch (random_.between(0, 7)) {
    case 0:
      return "alibi(h) * (k - q)";
    case 7:
      return form("{}((q - k) * 0.25) * 0.125", {random_.pick(std::vector<std::string>{"floor", "ceil", "round"})});
    case 1:
    case 2:
      return element(place, "f32", "bias");
    case 3:
      return form("min(max({}, -20), 20) * 0.125", {integer(1, place)});
    case 4:
      if (!real_lists_.empty()) return form("{}[0] * (h + 1)", {random_.pick(real_lists_).name});
      return "0.5";
    case 5:
      if (!reals_.empty()) return random_.pick(reals_).name;
      return "sqrt(abs(q - k) + 1)";
    default:
      return form("(q * 0.25) % {}", {random_.one_in(2) ? "1.5" : "2"});
  }
}

/// Every form keeps errors of `s` about as small as they are, or no kernel could be held to the bounds.
std::string ProgramWriter::score(int nesting) {
  if (nesting == 0) return "s";
  const std::string s = score(nesting - 1);
  const Place place{.n_k = program_.shape.n_k};
  switch (random_.between(0, 13)) {
    case 0:
      return form("softcap({}, {})", {s, random_.one_in(2) ? "30" : "2.5"});
    case 1:
      return form("tanh({}) * 1.5", {s});
    case 2:
      return form("sigmoid({}) * 3", {s});
    case 3:
      return form("log(1 + exp(min({}, 10)))", {s});
    case 4:
      return form("sqrt(abs({}) + 1)", {s});
    case 5:
      return form("exp(min({}, 0))", {s});
    case 6:
      return form("select({}, {}, {})", {relation(place), s, score(nesting - 1)});
    case 7:
      return form("{}({}, {})", {random_.one_in(2) ? "min" : "max", s, summand()});
    case 8:
      return form("{}({})", {random_.one_in(2) ? "abs" : "-", s});
    case 9:
      return form("({}) {} 1.25", {s, random_.one_in(2) ? "*" : "/"});
    case 10:
      return form("{} - {}", {s, summand()});
    default:
      return form("{} + {}", {s, summand()});
  }
}

std::string ProgramWriter::scale() {
  switch (random_.between(0, 6)) {
    case 0:
      return "0";
    case 1:
      return "-0.5";
    case 2:
      return "1 / sqrt(8.0)";
    case 3:
      return "1.0 / (1 + h)";
    case 4:
      return form("select({}, 0.5, 0.25)", {relation({.n_k = program_.shape.n_k})});
    case 5:
      if (!reals_.empty()) return random_.pick(reals_).name;
      return "0.125";
    default:
      return "0.3";
  }
}

}  // namespace weft::test
