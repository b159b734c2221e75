#include "compiler/ir/pattern_interpreter.h"
#include "laboratory/explain/doctor.h"
#include "laboratory/explain/explanation.h"
#include "runtime/c_api/handles.h"
#include "runtime/c_api/tensors.h"
#include "runtime/c_api/versioned.h"
#include "runtime/engine/engine_state.h"
#include "runtime/engine/reference.h"

/// Explanations of kernels.

namespace weft::c_api {
namespace {

std::optional<std::int64_t> said(std::int64_t value) { return value == 0 ? std::nullopt : std::optional(value); }

Result<ir::Shape> shape_of(const ir::Pattern& pattern, const weft_explain_options& from) {
  for (const auto& [name, value] :
       {std::pair{"batch", from.batch}, {"n_q", from.n_q}, {"n_k", from.n_k}, {"ranks", from.ranks}}) {
    if (value < 0) return user_error(fmt::format("weft_explain_options::{} is {}; expected 0 or more", name, value));
  }
  return explain::shape_of(pattern, said(from.batch).value_or(1), said(from.n_q), said(from.n_k));
}

/// In the order of the pattern; none where none is given.
Result<std::vector<ir::Tensor>> inputs_of(const ir::Pattern& pattern, const ir::Shape& shape,
                                          const weft_explain_options& from) {
  WEFT_TRY(const auto given, named_tensors<NamedInput>(from.inputs, from.input_count, "weft_explain_options::inputs"));
  std::vector<ir::Tensor> out;
  if (given.empty()) return out;
  for (const auto& one : given) {
    const auto named = [&](const ir::Input& input) { return input.name == one.name; };
    if (std::none_of(pattern.inputs.begin(), pattern.inputs.end(), named))
      return user_error(fmt::format("{} has no input '{}'", pattern.name, one.name));
  }
  for (const auto& input : pattern.inputs) {
    const auto found =
        std::find_if(given.begin(), given.end(), [&](const auto& one) { return one.name == input.name; });
    if (found == given.end()) return user_error(fmt::format("the input '{}' is missing", input.name));
    out.push_back(to_f64(found->view));
  }
  WEFT_CHECK(ir::check_shapes(pattern, shape, out));
  return out;
}

/// Explains, and leaves with the engine what a command would print to standard error. It is collected first: the
/// explanation takes what its engine warned of meanwhile, and must not take its own words for that.
Result<explain::Explanation> explained(const explain::Request& request, const Binaries& binaries) {
  std::vector<std::string> warnings;
  auto said = explain::explain(request, {[&](const std::string& text) { warnings.push_back(text); }, {}, {}});
  for (auto& text : warnings) binaries.warn(std::move(text));
  return said;
}

}  // namespace
}  // namespace weft::c_api

using namespace weft;         // NOLINT(google-build-using-namespace): the functions below have no namespace
using namespace weft::c_api;  // NOLINT(google-build-using-namespace)

extern "C" {

weft_error* weft_explain(weft_engine* engine, const char* text, size_t text_length, const weft_compile_options* options,
                         const weft_explain_options* explain, weft_explanation** out) {
  Source source;
  return guarded(&source, [&]() -> Status {
    if (out == nullptr) return missing("the place for the explanation");
    *out = nullptr;
    if (engine == nullptr) return missing("the engine");
    if (text == nullptr) return missing("the text");
    WEFT_TRY(auto made, options_of(options));
    WEFT_TRY(const auto from, read_versioned(explain, "weft_explain_options", weft_explain_options_init()));
    source = {.name = made.source_name, .text = std::string(text, text_length)};
    WEFT_TRY(const auto front, read_pattern(source, made));
    WEFT_TRY(const auto shape, shape_of(front.pattern, from));
    WEFT_TRY(const auto inputs, inputs_of(front.pattern, shape, from));
    std::optional<explain::RingOf> ring;
    if (from.ranks > 0) {
      const std::string layout = from.layout == nullptr ? "" : from.layout;
      const std::string carrier = from.carrier == nullptr ? "" : from.carrier;
      WEFT_TRY(ring, explain::ring_of(from.ranks, layout, carrier, front.pattern, "ring"));
      ring->memory = from.ring_memory;
    }
    made.heads = shape.heads;
    made.kv_heads = shape.kv_heads;
    made.dim = shape.d;
    made.dim_v = shape.d_v;
    if (!made.dtype) made.dtype = front.pattern.dtype ? from_ir(*front.pattern.dtype) : DType::f32;
    WEFT_CHECK(engine->engine.ready());
    const auto binaries = engine->engine.state().binaries;
    const explain::Request request{.source = source,
                                   .compile = made,
                                   .shape = shape,
                                   .inputs = inputs,
                                   .ring = ring,
                                   .heads_first = from.heads_first != 0,
                                   .stores = binaries->stores(),
                                   .llvm = binaries->compilers().llvm(),
                                   .binaries = [&] { return binaries; }};
    WEFT_TRY(const auto said, explained(request, *binaries));
    *out = new weft_explanation{explain::to_text(said), explain::json_text(explain::to_json(said))};
    return done;
  });
}

weft_error* weft_doctor(const weft_engine_options* options, weft_explanation** out) {
  return guarded(nullptr, [&]() -> Status {
    if (out == nullptr) return missing("the place for the explanation");
    *out = nullptr;
    WEFT_TRY(const auto from, options_of(options));
    const auto items = explain::examine_all(from);
    *out = new weft_explanation{explain::to_text(items), explain::json_text(explain::to_json(items))};
    return done;
  });
}

void weft_explanation_free(weft_explanation* explanation) { delete explanation; }

const char* weft_explanation_text(const weft_explanation* explanation) {
  return explanation == nullptr ? "" : explanation->text.c_str();
}
const char* weft_explanation_json(const weft_explanation* explanation) {
  return explanation == nullptr ? "" : explanation->json.c_str();
}

}  // extern "C"
