#include "tests/support/program.h"
#include "compiler/ir/check.h"

#include "compiler/base/float16.h"
#include "dsl/parse.h"
#include "tests/support/random_numbers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <sstream>

namespace weft::test {
namespace {

constexpr const char* kMark = "# run: ";

double rounded_to(double value, ir::DType dtype) {
  const auto single = static_cast<float>(value);
  if (dtype == ir::DType::f32) return static_cast<double>(single);
  if (dtype == ir::DType::f16) return static_cast<double>(half_to_float(float_to_half(single)));
  return static_cast<double>(bf16_to_float(float_to_bf16(single)));
}

std::uint64_t digest(const std::string& name) {
  std::uint64_t hash = 14695981039346656037U;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return hash;
}

std::int64_t extent_of(const ir::Axis& axis, const ir::Input& input, const ir::Shape& shape) {
  switch (axis.kind) {
    case ir::Axis::Kind::batch:
      return shape.batch;
    case ir::Axis::Kind::heads:
      return shape.heads;
    case ir::Axis::Kind::queries:
      return shape.n_q;
    case ir::Axis::Kind::keys:
    case ir::Axis::Kind::tokens:
      return shape.n_k;
    case ir::Axis::Kind::blocks:
      return (shape.n_k + input.block - 1) / std::max<std::int64_t>(input.block, 1);
    case ir::Axis::Kind::extent:
      return axis.extent;
  }
  return 0;
}

double draw(const ir::Input& input, std::int64_t n, RandomNumbers& random, double before) {
  const auto is = [&](const char* word) { return input.name.starts_with(word); };
  if (is("doc")) return random.one_in(5) ? static_cast<double>(random.between(0, 3)) : before;
  if (is("len")) return static_cast<double>(random.one_in(4) ? random.between(0, n) : random.between(n / 2, n));
  if (is("mask")) return random.one_in(3) ? 0 : 1;
  if (is("flag")) return random.one_in(3) ? 1 : 0;
  if (input.type == ir::InputType::f32) return rounded_to(random.normal(), ir::DType::f32);
  return static_cast<double>(random.between(input.type == ir::InputType::u8 ? 0 : -2, 9));
}

/// Documents as in packed sequences: one behind the other, of twenty keys in the mean, and at the end of some sequences
/// keys of none.
void pack_documents(ir::Tensor& t, std::int64_t tokens, RandomNumbers& random) {
  std::int64_t number = 0, padding = 0, at = 0;
  for (auto& value : t.data) {
    if (at == 0) padding = random.one_in(2) ? random.between(0, tokens / 3) : 0;
    if (random.one_in(20)) ++number;
    value = at < tokens - padding ? static_cast<double>(number + 1) : 0;
    at = at + 1 < tokens ? at + 1 : 0;
  }
}

ir::Tensor normal(std::vector<std::int64_t> extents, ir::DType dtype, std::uint64_t seed) {
  ir::Tensor t(std::move(extents));
  RandomNumbers random(seed);
  for (auto& value : t.data) value = rounded_to(random.normal(), dtype);
  return t;
}

/// `batch 1 n_q 3 …`: names and numbers in turn; names that are not known are an error.
Status read_run(const std::string& words, Program& program) {
  std::istringstream in(words);
  ir::Shape& s = program.shape;
  for (std::string name, value; in >> name >> value;) {
    if (name == "pattern") {
      program.pattern = value;
    } else if (name == "define") {
      program.defines.push_back(value);
    } else if (name == "dtype") {
      program.dtype = value == "f16" ? ir::DType::f16 : value == "bf16" ? ir::DType::bf16 : ir::DType::f32;
    } else {
      const std::pair<const char*, std::int64_t*> numbers[] = {
          {"batch", &s.batch}, {"n_q", &s.n_q}, {"n_k", &s.n_k}, {"heads", &s.heads},
          {"kv", &s.kv_heads}, {"d", &s.d},     {"d_v", &s.d_v}};
      const auto* row = std::find_if(std::begin(numbers), std::end(numbers), [&](auto& n) { return name == n.first; });
      char* end = nullptr;
      const std::int64_t number = std::strtoll(value.c_str(), &end, 10);
      if (end == value.c_str() || *end != '\0') return user_error(fmt::format("'{}' is no number", value));
      if (row != std::end(numbers))
        *row->second = number;
      else if (name == "offset")
        s.offset.push_back(number);
      else if (name == "branch_lse")
        program.branch_lse = number != 0;
      else if (name == "seed")
        program.seed = s.dropout_seed = static_cast<std::uint64_t>(number);
      else
        return user_error(fmt::format("'{}' says nothing about a run", name));
    }
  }
  return done;
}

}  // namespace

std::string to_file(const Program& program) {
  const ir::Shape& s = program.shape;
  std::string out = program.text;
  out += fmt::format("{}pattern {} dtype {} seed {} branch_lse {}\n", kMark, program.pattern,
                     ir::to_string(program.dtype), program.seed, program.branch_lse ? 1 : 0);
  out += fmt::format("{}batch {} n_q {} n_k {} heads {} kv {} d {} d_v {}\n", kMark, s.batch, s.n_q, s.n_k, s.heads,
                     s.kv_heads, s.d, s.d_v);
  for (const std::int64_t offset : s.offset) out += fmt::format("{}offset {}\n", kMark, offset);
  for (const auto& define : program.defines) out += fmt::format("{}define {}\n", kMark, define);
  return out;
}

Result<Program> from_file(std::string_view text) {
  Program program;
  std::istringstream in{std::string(text)};
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(kMark)) {
      WEFT_CHECK(read_run(line.substr(std::string_view(kMark).size()), program));
    } else {
      program.text += line + "\n";
    }
  }
  if (program.pattern.empty()) return user_error(fmt::format("no line '{}pattern …'", kMark));
  return program;
}

Result<ir::Pattern> lowered(const Program& program) {
  const Source source{"program.weft", program.text};
  WEFT_TRY(const dsl::File file, dsl::parse(source));
  for (const Diagnostic& d : ir::check(file, source)) {
    if (d.severity != Severity::error) continue;
    Error error = user_error(d.message);
    error.diagnostics = {d};
    return error;
  }
  ir::Params params;
  for (const auto& define : program.defines) {
    WEFT_TRY(auto param, ir::parse_param(define));
    params.insert(std::move(param));
  }
  return ir::lower(file, program.pattern, params);
}

ir::InputValues draw_inputs(const ir::Pattern& pattern, const ir::Shape& shape, std::uint64_t seed) {
  ir::InputValues values;
  for (const auto& input : pattern.inputs) {
    std::vector<std::int64_t> extents;
    for (const auto& axis : input.axes) extents.push_back(extent_of(axis, input, shape));
    const std::int64_t last = extents.empty() ? 1 : extents.back();
    ir::Tensor t(std::move(extents));
    RandomNumbers random(seed ^ digest(input.name));
    double before = 0;
    for (auto& value : t.data) value = before = draw(input, shape.n_k, random, before);
    if (input.name.starts_with("doc") && random.one_in(2)) pack_documents(t, last, random);
    values.push_back(std::move(t));
  }
  return values;
}

Tensors draw_tensors(const ir::Shape& s, ir::DType dtype, std::uint64_t seed) {
  return {.q = normal({s.batch, s.n_q, s.heads, s.d}, dtype, seed + 1),
          .k = normal({s.batch, s.n_k, s.kv_heads, s.d}, dtype, seed + 2),
          .v = normal({s.batch, s.n_k, s.kv_heads, s.d_v}, dtype, seed + 3)};
}

}  // namespace weft::test
