#include "tests/support/random_program.h"

#include "tests/support/program_writer.h"

#include <fmt/args.h>

#include <algorithm>

namespace weft::test {

std::string form(const char* layout, std::initializer_list<Piece> pieces) {
  fmt::dynamic_format_arg_store<fmt::format_context> store;
  for (const Piece& piece : pieces) store.push_back(piece.text);
  return fmt::vformat(layout, store);
}

ProgramWriter::ProgramWriter(std::uint64_t seed, const ProgramOptions& options) : random_(seed), options_(options) {
  program_.seed = program_.shape.dropout_seed = seed % 1000000;
  program_.pattern = "p";
}

void ProgramWriter::draw_shape() {
  ir::Shape& s = program_.shape;
  s.batch = random_.one_in(3) ? 2 : 1;
  s.n_k = random_.between(random_.one_in(8) ? 1 : 6, options_.most_tokens);
  if (random_.one_in(4)) {
    const bool volume = random_.one_in(3);
    for (int axis = volume ? 3 : 2; axis > 0; --axis) grid_.push_back(random_.between(1, volume ? 4 : 7));
    s.n_k = ir::Tensor::count(grid_);
  }
  s.n_q = s.n_k;
  s.kv_heads = random_.one_in(2) ? 1 : random_.between(1, options_.most_heads);
  s.heads = s.kv_heads * random_.between(1, options_.most_heads / s.kv_heads);
  const auto dim = [&] {
    if (random_.one_in(6)) return 8 * random_.between(1, 32);
    if (options_.any_dims && random_.one_in(2)) return random_.between(1, random_.one_in(6) ? 256 : 20);
    return 8 * random_.between(1, 4);
  };
  s.d = dim();
  s.d_v = dim();
  program_.dtype = static_cast<ir::DType>(random_.one_in(2) ? 0 : random_.between(0, 2));
  program_.branch_lse = random_.one_in(5);
}

/// Behind the text is written: what it uses decides where queries may begin.
void ProgramWriter::draw_ends() {
  ir::Shape& s = program_.shape;
  if (neighbors_) return;
  if (random_.one_in(3)) s.n_q = random_.between(1, options_.most_tokens);
  const std::int64_t most = indexed_by_q_ ? std::max<std::int64_t>(0, s.n_k - s.n_q) : options_.most_tokens;
  if (random_.one_in(4)) s.offset = {random_.between(0, most)};
  if (random_.one_in(5)) {
    s.offset.assign(static_cast<std::size_t>(s.batch), 0);
    for (auto& offset : s.offset) offset = random_.between(0, most);
  }
  if (indexed_by_q_ && s.n_q > s.n_k) s.n_q = s.n_k;
}

// ---------------------------------------------------------------- names

std::string ProgramWriter::constants() {
  std::string out;
  if (random_.one_in(3)) {
    out += form("const c0 = {};\n", {random_.between(1, 6)});
    integers_.push_back({"c0"});
    if (random_.one_in(2)) {
      out += "const c1 = 2 * c0 + 1;\n";
      integers_.push_back({"c1"});
    }
  }
  if (random_.one_in(5)) {
    out += form("const c2 = 0.{};\n", {random_.between(1, 9)});
    reals_.push_back({"c2"});
  }
  if (random_.one_in(5)) {
    out += form("const c3 = [{}, {}];\n", {random_.between(1, 5), random_.between(1, 9)});
    integer_lists_.push_back({"c3", 2});
  }
  return out;
}

/// With a default, a value from outside, or both.
void ProgramWriter::add_parameter(std::string& out, const std::string& type, const std::vector<std::string>& values) {
  const std::string name = form("p{}", {std::count(out.begin(), out.end(), ':')});
  const bool given = random_.one_in(3);
  out += form("{}{}: {}", {out.empty() ? "" : ", ", name, type});
  if (!given || random_.one_in(2)) out += " = " + values[0];
  if (given) program_.defines.push_back(name + "=" + values.back());
  const Name entry{name, static_cast<std::int64_t>(std::count(values[0].begin(), values[0].end(), ',')) + 1};
  auto& names = type == "int"     ? integers_
                : type == "real"  ? reals_
                : type == "bool"  ? booleans_
                : type == "[int]" ? integer_lists_
                                  : real_lists_;
  names.push_back(entry);
}

std::string ProgramWriter::parameters() {
  std::string out;
  const auto number = [&] { return std::to_string(random_.between(1, 8)); };
  const auto real = [&] { return form("{}.{}", {random_.between(0, 1), random_.between(1, 9)}); };
  while (random_.one_in(2)) {
    switch (random_.between(0, 4)) {
      case 0:
      case 1:
        add_parameter(out, "int", {number(), number()});
        break;
      case 2:
        add_parameter(out, "real", {real(), real()});
        break;
      case 3:
        add_parameter(out, "bool", {random_.one_in(2) ? "true" : "false", random_.one_in(2) ? "true" : "false"});
        break;
      default:
        if (random_.one_in(3))
          add_parameter(out, "[real]", {form("[{}, 0.5]", {real()}), form("[{},{}]", {real(), real()})});
        else
          add_parameter(out, "[int]", {form("[{}, {}]", {number(), number()}), form("[{},{}]", {number(), number()})});
    }
  }
  return out.empty() ? "" : "(" + out + ")";
}

// ---------------------------------------------------------------- statements

std::string ProgramWriter::helper() {
  const Place place{.n_k = program_.shape.n_k};
  const std::string statement =
      random_.one_in(2) ? "keep window(w, w) | causal;" : "branch segment(w) | " + leaf(place) + ";";
  return "pattern part(w: int = 4) {\n  " + statement + "\n}\n\n";
}

std::string ProgramWriter::sizes() {
  const ir::Shape& s = program_.shape;
  std::string out;
  if (random_.one_in(3)) out += form("  heads {} kv {};\n", {s.heads, s.kv_heads});
  if (random_.one_in(4)) out += form("  dim {} value {};\n", {s.d, s.d_v});
  if (random_.one_in(4)) out += form("  dtype {};\n", {ir::to_string(program_.dtype)});
  if (random_.one_in(6)) out += form("  tokens {};\n", {random_.one_in(2) ? std::to_string(s.n_k) : "multiple_of 1"});
  if (!grid_.empty()) {
    out += form("  grid {}, {}", {grid_[0], grid_[1]});
    out += grid_.size() == 3 ? form(", {};\n", {grid_[2]}) : ";\n";
  }
  return out;
}

std::string ProgramWriter::lets() {
  std::string out;
  const Place place{.n_k = program_.shape.n_k};
  if (random_.one_in(4)) {
    out += form("  let l0 = {};\n", {set(1, place)});
    sets_.push_back("l0");
  }
  if (random_.one_in(5)) {
    out += form("  let l1 = {};\n", {size(3)});
    integers_.push_back({"l1"});
  }
  return out;
}

/// Groups of dilated branches as explicit ranges: they may not overlap, and gaps want `partial`.
std::string ProgramWriter::head_policy(std::int64_t count) {
  const std::int64_t heads = program_.shape.heads;
  if (random_.one_in(3) && heads >= count) {
    std::string ranges;
    for (std::int64_t i = 0; i < count; ++i) {
      ranges += form("{}{}..{}", {i > 0 ? ", " : "", heads * i / count, heads * (i + 1) / count});
    }
    return "[" + ranges + "]";
  }
  if (random_.one_in(4) && heads > count) {
    std::string ranges;
    for (std::int64_t i = 0; i < count; ++i) ranges += form("{}{}..{}", {i > 0 ? ", " : "", i, i + 1});
    return "partial([" + ranges + "])";
  }
  return random_.pick(std::vector<std::string>{"all", "groups", "groups_last"});
}

std::string ProgramWriter::dilated_branches() {
  const std::int64_t count = random_.between(1, 3);
  std::string segments, rates;
  for (std::int64_t i = 0; i < count; ++i) {
    const char* comma = i > 0 ? ", " : "";
    segments += comma + size(length({.n_k = program_.shape.n_k}));
    rates += comma + size(random_.between(1, 5));
  }
  std::string out = form("  branches dilated(segments: [{}], rates: [{}]", {segments, rates});
  if (random_.one_in(2)) {
    out += ", phase: " + random_.pick(std::vector<std::string>{"h % rate", "i % rate", "h / ((H + rate - 1) / rate)",
                                                               "h + i", "3", "segment % 2"});
  }
  if (random_.one_in(2)) out += ", heads: " + head_policy(count);
  if (random_.one_in(4)) out += ", queries: all";
  return out + ");\n";
}

std::string ProgramWriter::branches() {
  const Place place{.n_k = program_.shape.n_k};
  std::string out;
  for (auto count = random_.between(0, 3); count > 0; --count) {
    if (random_.one_in(4)) {
      out += dilated_branches();
      continue;
    }
    out += "  branch " + set(options_.nesting, place);
    if (random_.one_in(4)) {
      const std::int64_t lo = random_.between(0, program_.shape.heads - 1);
      out += form(" on heads {}..{}", {lo, random_.between(lo + 1, program_.shape.heads)});
    }
    out += ";\n";
  }
  while (random_.one_in(3)) out += "  keep " + set(1, place) + ";\n";
  return out;
}

std::string ProgramWriter::combine() {
  if (random_.one_in(3)) return "";
  return random_.pick(std::vector<std::string>{"joint", "joint detached", "union", "sum", "mean"});
}

/// A sink, or sigmoids: where the way to combine branches allows it.
std::string ProgramWriter::weights(const std::string& combine) {
  if (combine == "sum" || combine == "mean" || !random_.one_in(4)) return "";
  program_.branch_lse = false;
  if (combine != "joint detached" && random_.one_in(2)) {
    switch (random_.between(0, 3)) {
      case 0:
        return "  weights sigmoid;\n";
      case 1:
        return "  weights sigmoid(s - 2 + 0.25 * h);\n";
      case 2:
        return form("  weights sigmoid({});\n", {score(1)});
      default:
        return form("  weights sigmoid(s + {});\n", {summand()});
    }
  }
  switch (random_.between(0, 3)) {
    case 0:
      return "  sink_logit 0;\n";
    case 1:
      return "  sink_logit 0.5 * h - 1;\n";
    case 2:
      return "  sink_logit select(h == 0, -inf, 2);\n";
    default: {
      const std::string sinks = input("sinks", "f32", "heads", {.n_k = program_.shape.n_k});
      return form(random_.one_in(2) ? "  sink_logit {}[h];\n" : "  sink_logit tanh({}[h]) * 4;\n", {sinks});
    }
  }
}

std::string ProgramWriter::endings() {
  std::string out;
  const std::string way = combine();
  if (!way.empty()) out += "  combine " + way + ";\n";
  if (random_.one_in(3)) out += "  scale " + scale() + ";\n";
  if (random_.one_in(3)) {
    const std::string score_of_p = score(static_cast<int>(random_.between(1, 3)));
    // Infinite only here: turned around inside, it would make rows NaN.
    const bool masked = random_.one_in(8);
    out += masked ? form("  score select({}, {}, log(0.0));\n", {relation({.n_k = program_.shape.n_k}), score_of_p})
                  : form("  score {};\n", {score_of_p});
  }
  out += weights(way);
  if (random_.one_in(6)) out += random_.one_in(2) ? "  dropout 0.25;\n" : "  dropout 0.5;\n";
  if (random_.one_in(12)) out += "  ring any zigzag;\n";
  if (random_.one_in(15)) out += "  schedule {\n    tile_q: 64;\n  }\n";
  return out;
}

std::string ProgramWriter::body() {
  // One draw a statement: the order in which operands are evaluated is the compiler's choice.
  const std::string start = sizes();
  const std::string names = lets();
  const std::string middle = branches();
  const std::string end = endings();
  return start + inputs_ + names + middle + end;
}

Program ProgramWriter::write() {
  draw_shape();
  const std::string before = constants();
  std::string part = random_.one_in(5) ? helper() : "";
  if (!inputs_.empty()) part.clear();  // a helper would have to declare them
  inputs_.clear();
  declared_.clear();
  const std::string parameters_of_p = parameters();
  std::string statements = body();
  if (!part.empty()) statements += form("  use part({});\n", {random_.one_in(2) ? size(3) : "w: " + size(2)});
  program_.text =
      form("{}{}{}pattern p{} {{\n{}}}\n", {before, before.empty() ? "" : "\n", part, parameters_of_p, statements});
  draw_ends();
  return std::move(program_);
}

namespace {

bool keeps_something(const Program& program) {
  const auto pattern = lowered(program);
  if (!pattern.ok()) return true;  // what is wrong with it is for others to find
  const auto inputs = draw_inputs(*pattern, program.shape, program.seed);
  if (!ir::check_shapes(*pattern, program.shape, inputs).ok()) return true;
  const auto tensors = draw_tensors(program.shape, program.dtype, program.seed);
  const ir::PairEvaluator meaning(*pattern, program.shape, inputs, &tensors.q, &tensors.k);
  std::int64_t rows = 0;
  for (std::int64_t row = 0; row < program.shape.n_q; ++row) {
    bool kept = false;
    for (std::int64_t k = 0; k < program.shape.n_k && !kept; ++k) {
      kept = meaning.multiplicity(0, 0, row + program.shape.offset_of(0), k) > 0;
    }
    rows += kept;
  }
  return 3 * rows > program.shape.n_q;
}

}  // namespace

Program random_program(std::uint64_t seed, const ProgramOptions& options) {
  constexpr std::uint64_t kTries = 8;
  Program program;
  for (std::uint64_t i = 0; i < kTries; ++i) {
    program = ProgramWriter(seed * kTries + i, options).write();
    if (keeps_something(program)) break;
  }
  return program;
}

}  // namespace weft::test
