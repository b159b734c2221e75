#include "tools/gradient_operands.h"

#include "runtime/engine/reference.h"
#include "tools/tensor_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>

namespace weft::tools {

namespace {

constexpr std::uint64_t kStream = 3;  // of random numbers, behind those of q, k and v

/// O of all rows, of which the operands may have some.
std::vector<std::int64_t> shape_of_all_rows(const Operands& operands) {
  auto shape = operands.out.shape;
  if (operands.slice.of != 0) shape[operands.row_axis()] = operands.slice.of;
  return shape;
}

Result<Array> read_d_out(const Operands& operands, const Options& options) {
  const auto& path = options.grad;
  const auto dtype = operands.q.dtype;
  const auto asked = dtype == DType::bf16 ? std::optional(dtype) : std::nullopt;
  const auto when = options.ring.empty() ? npy::Values::at_once : npy::Values::when_asked;
  WEFT_TRY(auto d_out, read_activations(path, "dO", asked, when));
  if (const auto wanted = shape_of_all_rows(operands); d_out.shape != wanted) {
    return user_error(
        fmt::format("{}: dO has shape {}; expected {}, that of O", path, shape_text(d_out.shape), shape_text(wanted)));
  }
  if (d_out.dtype == dtype) return d_out;
  auto error = user_error(
      fmt::format("{}: dO is {}; expected {}, the type of q", path, to_string(d_out.dtype), to_string(dtype)));
  if (dtype != DType::bf16) error.notes.push_back(cure(path, dtype));
  return error;
}

/// Of all rows.
Result<Array> make_d_out(const Operands& operands, const Options& options) {
  const auto dtype = operands.q.dtype;
  if (options.grad == "random") {
    return random_normal(dtype, shape_of_all_rows(operands), options.seed.value_or(0), kStream);
  }
  if (options.grad != "ones") return read_d_out(operands, options);
  Array ones(dtype, shape_of_all_rows(operands));
  ir::Tensor values(ones.shape);
  std::fill(values.data.begin(), values.data.end(), 1.0);
  from_f64(values, ones.output());
  return ones;
}

bool names_any(const Options& options) {
  return !options.dq.empty() || !options.dk.empty() || !options.dv.empty() || !options.dinput.empty();
}

Status check_names(const std::map<std::string, std::string>& files, const ir::Pattern& pattern) {
  for (const auto& [name, path] : files) {
    const auto is_named = [&name = name](const ir::Input& input) { return input.name == name; };
    const auto input = std::find_if(pattern.inputs.begin(), pattern.inputs.end(), is_named);
    if (input == pattern.inputs.end()) return no_such_input(name, pattern);
    if (input->type == ir::InputType::f32) continue;
    return user_error(fmt::format("--dinput {}: only f32 inputs have a gradient; '{}' is {}", name, name,
                                  ir::to_string(input->type)));
  }
  return done;
}

void poison_array(Array& array) {
  if (!array.bytes.empty()) std::memset(array.bytes.data(), 0xff, array.bytes.size());  // NaN in every float type
}

}  // namespace

RunArgs GradientOperands::args(RunArgs forward, const Operands& operands) {
  views_.clear();
  for (std::size_t i = 0; i < d_inputs.size(); ++i) {
    if (!d_inputs[i].bytes.empty()) views_.push_back({operands.input_names[i], d_inputs[i].output()});
  }
  forward.d_out = operands.rows_first(d_out.view());
  for (auto [to, array] : {std::pair{&forward.dq, &dq}, std::pair{&forward.dk, &dk}, std::pair{&forward.dv, &dv}}) {
    if (!array->bytes.empty()) *to = operands.rows_first(array->output());
  }
  forward.d_inputs = views_;
  return forward;
}

void GradientOperands::poison() {
  for (auto* array : {&dq, &dk, &dv}) poison_array(*array);
  for (auto& array : d_inputs) poison_array(array);
}

std::int64_t GradientOperands::bytes() const {
  auto sum = d_out.bytes.size() + dq.bytes.size() + dk.bytes.size() + dv.bytes.size();
  for (const auto& array : d_inputs) sum += array.bytes.size();
  return static_cast<std::int64_t>(sum);
}

void GradientOperands::keep_rows(const std::vector<std::int64_t>& rows, const Operands& operands) {
  auto values = to_f64(d_out.view());
  const auto axis = operands.row_axis();
  const auto inner =
      ir::Tensor::count({d_out.shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1, d_out.shape.end()});
  for (std::int64_t at = 0; at < std::ssize(values.data); ++at) {
    const auto row = operands.slice.first + at / inner % d_out.shape[axis];
    if (!std::binary_search(rows.begin(), rows.end(), row)) values.data[static_cast<std::size_t>(at)] = 0;
  }
  from_f64(values, d_out.output());
}

std::string wrong_gradients(const Options& options) {
  if (options.grad.empty() && names_any(options)) {
    return "--dq, --dk, --dv and --dinput are gradients: add --grad dO.npy, --grad random or --grad ones";
  }
  return {};
}

Result<GradientOperands> gradient_operands(const Operands& operands, const Options& options,
                                           const ir::Pattern& pattern) {
  WEFT_TRY(const auto files, named_files(options.dinput, "--dinput"));
  WEFT_CHECK(check_names(files, pattern));
  GradientOperands out;
  WEFT_TRY(out.d_out, make_d_out(operands, options));
  out.d_out = operands.rows_of_slice(std::move(out.d_out));
  const bool all = options.check || !names_any(options);
  const auto make_room = [&](Array& to, bool named, const Array& like) {
    if (all || named) to = Array(like.dtype, like.shape);
  };
  make_room(out.dq, !options.dq.empty(), operands.q);
  make_room(out.dk, !options.dk.empty(), operands.k);
  make_room(out.dv, !options.dv.empty(), operands.v);
  out.d_inputs.resize(operands.inputs.size());
  for (std::size_t i = 0; i < out.d_inputs.size(); ++i) {
    const auto& input = pattern.inputs[i];
    if (input.type == ir::InputType::f32) make_room(out.d_inputs[i], files.contains(input.name), operands.inputs[i]);
  }
  return out;
}

Result<GradientOperands> gradients_after_forward(const Engine& engine, const PatternFile& file, CompileOptions compile,
                                                 Operands& operands, const Options& options) {
  const auto s = operands.shape();
  compile.gradient = false;
  compile.branch_lse = ir::per_branch(file.pattern.combine);
  if (compile.branch_lse) {
    const auto branches = static_cast<std::int64_t>(file.pattern.branches.size());
    operands.branch_lse = Array(DType::f32, {branches, s.batch, s.heads, s.n_q});
  } else if (ir::has_lse(file.pattern)) {
    operands.lse = Array(DType::f32, {s.batch, s.heads, s.n_q});
  }
  WEFT_TRY(const auto kernel, engine.compile(file.source.text, compile));
  Views views;
  WEFT_CHECK(kernel.run(operands.args(options, views)));
  auto asked = options;
  asked.grad = "random";
  return gradient_operands(operands, asked, file.pattern);
}

Status write_gradients(const GradientOperands& gradients, const Operands& operands, const Options& options) {
  if (!options.dq.empty()) WEFT_CHECK(write_array(options.dq, gradients.dq));
  if (!options.dk.empty()) WEFT_CHECK(write_array(options.dk, gradients.dk));
  if (!options.dv.empty()) WEFT_CHECK(write_array(options.dv, gradients.dv));
  WEFT_TRY(const auto files, named_files(options.dinput, "--dinput"));
  for (std::size_t i = 0; i < gradients.d_inputs.size(); ++i) {
    const auto file = files.find(operands.input_names[i]);
    if (file != files.end()) WEFT_CHECK(write_array(file->second, gradients.d_inputs[i]));
  }
  return done;
}

}  // namespace weft::tools
