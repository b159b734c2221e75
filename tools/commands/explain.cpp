#include "compiler/ir/tensor.h"
#include "laboratory/explain/explanation.h"
#include "runtime/engine/reference.h"
#include "tools/commands/commands.h"
#include "tools/json.h"
#include "tools/operands.h"
#include "tools/pattern_file.h"
#include "tools/progress.h"
#include "tools/ring_option.h"

namespace weft::tools {

namespace {

ir::Shape shape_to_explain(const Options& options, const ir::Pattern& pattern, const Sizes& sizes,
                           const Console& console) {
  const auto tokens = options.tokens.empty() ? std::nullopt : std::optional(options.tokens[0]);
  auto shape = explain::shape_of(pattern, sizes.batch, tokens, options.keys);
  if (!tokens && !explain::tokens_of(pattern)) console.remark("--tokens not given, taken as {}", shape.n_q);
  return shape;
}

/// Inputs that bounds read, where any was given.
Result<std::vector<ir::Tensor>> inputs_to_count(const Options& options, const ir::Pattern& pattern,
                                                const ir::Shape& shape) {
  std::vector<ir::Tensor> tensors;
  if (options.inputs.empty()) return tensors;
  Operands operands;  // of which the extents are asked for, and no values
  operands.q.shape = {shape.batch, shape.n_q, shape.heads, shape.d};
  operands.k.shape = {shape.batch, shape.n_k, shape.kv_heads, shape.d};
  operands.v.shape = {shape.batch, shape.n_k, shape.kv_heads, shape.d_v};
  WEFT_CHECK(add_inputs(operands, options, pattern));
  for (const auto& array : operands.inputs) tensors.push_back(to_f64(array.view()));
  return tensors;
}

explain::Listener listener_at(const Console& console) {
  return {[&console](const std::string& text) { console.warn("{}", text); },
          [&console](const std::string& text) { console.remark("{}", text); },
          [&console](const std::string& what) { return std::make_shared<Progress>(console, what); }};
}

}  // namespace

int command_explain(const Options& options, const Console& console) {
  const auto [file, status] = open_pattern(options, console);
  if (!file) return status;
  const auto sizes = default_sizes(options, file->pattern, console);
  const auto shape = shape_to_explain(options, file->pattern, sizes, console);
  if (auto sizes_fit = check_sizes(file->pattern, shape); !sizes_fit) return console.fail(sizes_fit.error());
  const auto inputs = inputs_to_count(options, file->pattern, shape);
  if (!inputs) return console.fail(inputs.error());
  const auto ring = ring_of(options, file->pattern);
  if (!ring) return console.fail(ring.error());
  const auto explained =
      explain::explain({.source = file->source,
                        .compile = with_sizes(file->options, sizes),
                        .shape = shape,
                        .inputs = *inputs,
                        .ring = *ring,
                        .heads_first = options.layout == "bhnd",
                        .stores = {open_store(options, StoreUse::look)},
                        .llvm = options.llvm,
                        .binaries = [&] { return std::make_shared<const Binaries>(engine_options(options, console)); }},
                       listener_at(console));
  if (!explained) return console.fail(explained.error(), &file->source);
  console.write(console.json() ? json_text(explain::to_json(*explained)) + "\n" : explain::to_text(*explained));
  return kDone;
}

}  // namespace weft::tools
