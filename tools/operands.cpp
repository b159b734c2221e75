#include "tools/operands.h"

#include "compiler/base/diagnostic.h"
#include "runtime/draw/made_up.h"
#include "runtime/engine/reference.h"
#include "tools/tensor_files.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace weft::tools {

namespace {

std::optional<DType> asked_dtype(const Options& options) { return dtype_named(options.dtype); }

}  // namespace

Result<std::map<std::string, std::string>> named_files(const std::vector<std::string>& texts, const char* option) {
  std::map<std::string, std::string> files;
  for (const auto& text : texts) {
    const auto sign = text.find('=');
    if (sign == std::string::npos || sign == 0) {
      return user_error(fmt::format("{} {}: expected name=file.npy", option, text));
    }
    if (!files.emplace(text.substr(0, sign), text.substr(sign + 1)).second) {
      return user_error(fmt::format("{} {} is given twice", option, text.substr(0, sign)));
    }
  }
  return files;
}

namespace {

Array like_rows(const Array& q, const Array& v) {
  auto shape = q.shape;
  shape.back() = v.shape.back();
  return Array(q.dtype, shape);
}

}  // namespace

ir::Shape Operands::shape() const {
  const auto rows = rows_first(q.view()), keys = rows_first(k.view());
  const bool whole = slice.of == 0;
  return {.batch = rows.extent[0],
          .n_q = whole ? rows.extent[1] : slice.of,
          .n_k = keys.extent[1],
          .heads = rows.extent[2],
          .kv_heads = keys.extent[2],
          .d = rows.extent[3],
          .d_v = rows_first(v.view()).extent[3],
          .offset = offset,
          .row_begin = slice.first,
          .rows = whole ? 0 : rows.extent[1]};
}

RunArgs Operands::args(const Options& options, Views& views) {
  views = {};
  for (std::size_t i = 0; i < inputs.size(); ++i) views.inputs.push_back({input_names[i], inputs[i].view()});
  for (auto& list : lists) views.lists.push_back(list.output());
  RunArgs args{
      .q = rows_first(q.view()), .k = rows_first(k.view()), .v = rows_first(v.view()), .out = rows_first(out.output())};
  if (!lse.bytes.empty()) args.lse = lse.output();
  if (!branch_lse.bytes.empty()) args.branch_lse = branch_lse.output();
  args.inputs = views.inputs;
  args.lists = views.lists;
  args.offset = offset;
  args.slice = slice;
  args.dropout_seed = options.dropout_seed.value_or(0);
  args.threads = static_cast<int>(options.threads.value_or(0));
  return args;
}

void Operands::poison() {
  for (auto* array : {&out, &lse, &branch_lse}) {
    if (!array->bytes.empty()) std::memset(array->bytes.data(), 0xff, array->bytes.size());  // NaN in every float type
  }
  for (auto& list : lists) std::memset(list.bytes.data(), 0xff, list.bytes.size());  // -1, which no list holds
}

std::int64_t Operands::bytes() const {
  std::size_t total = 0;
  for (const auto* array : {&q, &k, &v, &out, &lse, &branch_lse}) total += array->bytes.size();
  for (const auto* arrays : {&inputs, &lists}) {
    for (const auto& array : *arrays) total += array.bytes.size();
  }
  return static_cast<std::int64_t>(total);
}

Error Operands::with_files(Error error) const {
  if (error.kind != ErrorKind::user) return error;
  const auto describe = [&](const std::string& name, const Array& array) {
    const auto file = files.find(name);
    if (file == files.end()) return;
    error.notes.push_back(
        fmt::format("{} is {}: {} {}", name, file->second, to_string(array.dtype), shape_text(array.shape)));
  };
  describe("q", q);
  describe("k", k);
  describe("v", v);
  for (std::size_t i = 0; i < inputs.size(); ++i) describe(input_names[i], inputs[i]);
  return error;
}

bool has_tensors(const Options& options) { return !options.q.empty() || !options.k.empty() || !options.v.empty(); }

Result<Operands> read_operands(const Options& options) {
  Operands operands;
  operands.heads_first = options.layout == "bhnd";
  operands.files = {{"q", options.q}, {"k", options.k}, {"v", options.v}};
  const auto asked = asked_dtype(options);
  // A rank looks at its own rows.
  const auto when = options.ring.empty() ? npy::Values::at_once : npy::Values::when_asked;
  for (auto [to, name] : {std::pair{&operands.q, "q"}, std::pair{&operands.k, "k"}, std::pair{&operands.v, "v"}}) {
    const auto& path = operands.files[name];
    WEFT_TRY(*to, read_activations(path, name, asked, when));
    if (to->shape.size() != 4) {
      return user_error(fmt::format("{}: {} has shape {}; expected four dimensions, {}", path, name,
                                    shape_text(to->shape), operands.heads_first ? "[B, H, n, d]" : "[B, n, H, d]"));
    }
    if (std::find(to->shape.begin(), to->shape.end(), 0) != to->shape.end()) {
      return user_error(
          fmt::format("{}: {} has shape {}; every extent must be at least 1", path, name, shape_text(to->shape)));
    }
  }
  operands.out = like_rows(operands.q, operands.v);
  return operands;
}

namespace {

/// `bytes` in floating point, because the sizes of a mistyped option overflow every integer.
Status fits_in_memory(const std::string& what, double bytes) {
  const double memory = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  if (bytes <= memory) return done;
  return environment_error(
      fmt::format("{} want {:.3g} GB; this machine has {:.3g} GB", what, bytes / 1e9, memory / 1e9));
}

Status fits_in_memory(const Sizes& sizes, std::int64_t n_q, std::int64_t n_k) {
  const auto elements = [&](std::int64_t tokens, std::int64_t heads, std::int64_t dim) {
    return static_cast<double>(sizes.batch) * static_cast<double>(tokens) * static_cast<double>(heads) *
           static_cast<double>(dim);
  };
  const double wanted = static_cast<double>(size_of(sizes.dtype)) *
                        (elements(n_q, sizes.heads, sizes.dim) + elements(n_q, sizes.heads, sizes.dim_v) +
                         elements(n_k, sizes.kv_heads, sizes.dim) + elements(n_k, sizes.kv_heads, sizes.dim_v));
  return fits_in_memory(fmt::format("tensors of batch {}, {} queries, {} keys, {} heads, dim {}", sizes.batch, n_q, n_k,
                                    sizes.heads, sizes.dim),
                        wanted);
}

/// An input that was not given.
Result<Array> made_up(const ir::Input& input, const ir::Shape& shape, const Options& options, std::size_t number) {
  const auto extents = draw::input_shape(input, shape);
  double bytes = static_cast<double>(size_of(from_ir(input.type)));
  for (const auto extent : extents) bytes *= static_cast<double>(extent);
  WEFT_CHECK(fits_in_memory(fmt::format("elements of the input '{}', {},", input.name, shape_text(extents)), bytes));
  return random_input(input, shape, options.seed.value_or(0), 16 + number);
}

}  // namespace

Result<Operands> random_operands(const Options& options, const Sizes& sizes, std::int64_t n_q, std::int64_t n_k) {
  WEFT_CHECK(fits_in_memory(sizes, n_q, n_k));
  Operands operands;
  operands.heads_first = options.layout == "bhnd";
  const auto seed = options.seed.value_or(0);
  const auto make = [&](std::int64_t tokens, std::int64_t heads, std::int64_t dim, std::uint64_t stream) {
    auto shape = std::vector{sizes.batch, tokens, heads, dim};
    if (operands.heads_first) std::swap(shape[1], shape[2]);
    return random_normal(sizes.dtype, std::move(shape), seed, stream);
  };
  operands.q = make(n_q, sizes.heads, sizes.dim, 0);
  operands.k = make(n_k, sizes.kv_heads, sizes.dim, 1);
  operands.v = make(n_k, sizes.kv_heads, sizes.dim_v, 2);
  operands.out = like_rows(operands.q, operands.v);
  return operands;
}

Error no_such_input(const std::string& name, const ir::Pattern& pattern) {
  std::vector<std::string> names;
  for (const auto& input : pattern.inputs) names.push_back(input.name);
  const auto near = nearest_word(name, names);
  auto error = user_error(fmt::format("the pattern has no input '{}'{}", name,
                                      near.empty() ? "" : fmt::format("; did you mean '{}'?", near)));
  if (near.empty()) {
    error.notes.push_back(names.empty() ? "it has no inputs" : fmt::format("it has {}", fmt::join(names, ", ")));
  }
  return error;
}

Result<std::vector<std::optional<Array>>> given_inputs(const Options& options, const ir::Pattern& pattern,
                                                       const ir::Shape& shape) {
  WEFT_TRY(auto files, named_files(options.inputs, "--input"));
  std::vector<std::optional<Array>> given(pattern.inputs.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    const auto& input = pattern.inputs[i];
    const auto file = files.find(input.name);
    if (file == files.end()) continue;
    WEFT_TRY(auto array, read_input(file->second, "input '" + input.name + "'", from_ir(input.type)));
    if (const auto wanted = draw::input_shape(input, shape); array.shape != wanted) {
      return user_error(fmt::format("{}: input '{}' has shape {}; expected {}", file->second, input.name,
                                    shape_text(array.shape), shape_text(wanted)));
    }
    given[i] = std::move(array);
    files.erase(file);
  }
  if (!files.empty()) return no_such_input(files.begin()->first, pattern);
  return given;
}

Status add_inputs(Operands& operands, const Options& options, const ir::Pattern& pattern) {
  const auto shape = operands.shape();
  WEFT_TRY(auto given, given_inputs(options, pattern, shape));
  WEFT_TRY(const auto files, named_files(options.inputs, "--input"));
  for (std::size_t i = 0; i < pattern.inputs.size(); ++i) {
    const auto& name = pattern.inputs[i].name;
    if (!given[i]) {
      if (has_tensors(options)) {
        return user_error(fmt::format("input '{}' is missing: add --input {}=FILE.npy", name, name));
      }
      WEFT_TRY(given[i], made_up(pattern.inputs[i], shape, options, i));
    } else {
      operands.files[name] = files.at(name);
    }
    operands.inputs.push_back(std::move(*given[i]));
    operands.input_names.push_back(name);
  }
  return done;
}

Status add_offset(Operands& operands, const Options& options) {
  if (options.offset.empty()) return done;
  char* end = nullptr;
  const auto number = std::strtoll(options.offset.c_str(), &end, 10);
  if (end != options.offset.c_str() && *end == '\0') {
    operands.offset = {number};
    return done;
  }
  WEFT_TRY(const auto array, read_input(options.offset, "the offsets", DType::i32));
  if (array.shape != std::vector{operands.q.shape[0]}) {
    return user_error(fmt::format("{}: offsets have shape {}; expected [{}], one per batch entry", options.offset,
                                  shape_text(array.shape), operands.q.shape[0]));
  }
  for (double value : to_f64(array.view()).data) operands.offset.push_back(static_cast<std::int64_t>(value));
  return done;
}

namespace {

Array rows_of(const Array& whole, std::size_t axis, std::int64_t first, std::int64_t count) {
  auto extents = whole.shape;
  extents[axis] = count;
  Array out(whole.dtype, extents);
  const auto row = static_cast<std::size_t>(
                       ir::Tensor::count({extents.begin() + static_cast<std::ptrdiff_t>(axis) + 1, extents.end()})) *
                   size_of(whole.dtype);
  const auto bytes = static_cast<std::size_t>(count) * row, stride = static_cast<std::size_t>(whole.shape[axis]) * row;
  for (std::size_t i = 0; i * bytes < out.bytes.size(); ++i) {
    std::memcpy(out.bytes.data() + i * bytes, whole.bytes.data() + i * stride + static_cast<std::size_t>(first) * row,
                bytes);
  }
  return out;
}

}  // namespace

Array Operands::rows_of_slice(Array whole) const {
  return slice.of == 0 ? std::move(whole) : rows_of(whole, row_axis(), slice.first, q.shape[row_axis()]);
}

Status cut_rows(Operands& operands, const Options& options) {
  if (options.rows.empty()) return done;
  const auto all = operands.shape().n_q;
  const auto colon = std::min(options.rows.find(':'), options.rows.size());
  const auto begin = parse_count(options.rows.substr(0, colon)).value_or(-1);
  const auto end = parse_count(options.rows.substr(std::min(colon + 1, options.rows.size()))).value_or(-1);
  if (begin < 0 || begin >= end || end > all) {
    return user_error(fmt::format("--rows {}: expected FIRST:END, rows of 0:{}", options.rows, all));
  }
  operands.q = rows_of(operands.q, operands.row_axis(), begin, end - begin);
  operands.out = like_rows(operands.q, operands.v);
  operands.slice = {.first = begin, .of = all};
  return done;
}

Sizes sizes_of(const Operands& operands) {
  const auto shape = operands.shape();
  return {.batch = shape.batch,
          .heads = shape.heads,
          .kv_heads = shape.kv_heads,
          .dim = shape.d,
          .dim_v = shape.d_v,
          .dtype = operands.q.dtype};
}

}  // namespace weft::tools
