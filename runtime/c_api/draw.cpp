#include "compiler/ir/pattern_interpreter.h"
#include "runtime/c_api/handles.h"
#include "runtime/c_api/tensors.h"
#include "runtime/c_api/versioned.h"
#include "runtime/draw/made_up.h"
#include "runtime/draw/picture.h"
#include "runtime/engine/front.h"
#include "runtime/engine/launch_checks.h"
#include "runtime/engine/reference.h"

/// Pictures of patterns.

namespace weft::c_api {
namespace {

constexpr std::int64_t kHeads = 8, kDim = 64;  // where nobody says; dims do not matter to a picture
constexpr std::int64_t kCells = 64;

/// `from` of weft_draw_options, or what shows the pattern.
Result<ir::Shape> shape_of(const ir::Pattern& pattern, const weft_draw_options& from) {
  for (const auto& [name, value] : {std::pair{"n_q", from.n_q}, {"n_k", from.n_k}, {"cells", from.cells}}) {
    if (value < 0) return user_error(fmt::format("weft_draw_options::{} is {}; expected 0 or more", name, value));
  }
  ir::Shape shape{.batch = 1};
  shape.n_q = from.n_q > 0 ? from.n_q : draw::tokens_to_draw(pattern);
  shape.n_k = from.n_k > 0 ? from.n_k : shape.n_q;
  shape.heads = pattern.heads.value_or(kHeads);
  shape.kv_heads = pattern.kv_heads.value_or(shape.heads);
  shape.d = pattern.dim.value_or(kDim);
  shape.d_v = pattern.dim_v.value_or(shape.d);
  if (from.head < 0 || from.head >= shape.heads) {
    return user_error(fmt::format("head {} of {} heads: they count from 0", from.head, shape.heads));
  }
  WEFT_CHECK(check_sizes(pattern, shape));
  return shape;
}

Result<ir::InputValues> inputs_of(const ir::Pattern& pattern, const ir::Shape& shape, const weft_draw_options& from) {
  WEFT_TRY(const auto given, named_tensors<NamedInput>(from.inputs, from.input_count, "weft_draw_options::inputs"));
  ir::InputValues out;
  for (std::size_t i = 0; i < pattern.inputs.size(); ++i) out.push_back(draw::made_up(pattern, shape, i));
  for (const auto& one : given) {
    const auto named = [&](const ir::Input& input) { return input.name == one.name; };
    const auto found = std::find_if(pattern.inputs.begin(), pattern.inputs.end(), named);
    if (found == pattern.inputs.end()) {
      return user_error(fmt::format("{} has no input '{}'", pattern.name, one.name));
    }
    out[static_cast<std::size_t>(found - pattern.inputs.begin())] = to_f64(one.view);
  }
  WEFT_CHECK(ir::check_shapes(pattern, shape, out));
  return out;
}

std::unique_ptr<weft_picture> picture_of(const ir::Pattern& pattern, const ir::Shape& shape,
                                         const ir::InputValues& inputs, const weft_draw_options& from) {
  auto out = std::make_unique<weft_picture>();
  const ir::PairEvaluator pairs(pattern, shape, inputs);
  out->cells = draw::make_picture(pairs, shape, from.head, from.cells > 0 ? from.cells : kCells);
  out->text = draw::to_terminal(out->cells, false);
  out->svg = draw::to_svg(out->cells, pattern.name);
  for (std::int64_t y = 0; y < out->cells.height; ++y) {
    for (std::int64_t x = 0; x < out->cells.width; ++x) {
      const auto color = draw::color_of(out->cells, y, x);
      for (const int part : {color.r, color.g, color.b}) out->colors.push_back(static_cast<std::uint8_t>(part));
    }
  }
  return out;
}

}  // namespace
}  // namespace weft::c_api

using namespace weft;         // NOLINT(google-build-using-namespace): the functions below have no namespace
using namespace weft::c_api;  // NOLINT(google-build-using-namespace)

extern "C" {

weft_error* weft_draw(const char* text, size_t text_length, const weft_compile_options* options,
                      const weft_draw_options* draw, weft_picture** out) {
  Source source;
  return guarded(&source, [&]() -> Status {
    if (out == nullptr) return missing("the place for the picture");
    *out = nullptr;
    if (text == nullptr) return missing("the text");
    WEFT_TRY(const auto made, options_of(options));
    WEFT_TRY(const auto from, read_versioned(draw, "weft_draw_options", weft_draw_options_init()));
    source = {.name = made.source_name, .text = std::string(text, text_length)};
    WEFT_TRY(const auto front, read_pattern(source, made));
    WEFT_TRY(const auto shape, shape_of(front.pattern, from));
    WEFT_TRY(const auto inputs, inputs_of(front.pattern, shape, from));
    *out = picture_of(front.pattern, shape, inputs, from).release();
    return done;
  });
}

void weft_picture_free(weft_picture* picture) { delete picture; }

const char* weft_picture_text(const weft_picture* picture) { return picture == nullptr ? "" : picture->text.c_str(); }
const char* weft_picture_svg(const weft_picture* picture) { return picture == nullptr ? "" : picture->svg.c_str(); }

weft_picture_cells weft_picture_cells_of(const weft_picture* picture) {
  if (picture == nullptr) return {};
  const auto& cells = picture->cells;
  return {.n_q = cells.n_q,
          .n_k = cells.n_k,
          .head = cells.head,
          .rows = cells.height,
          .columns = cells.width,
          .sampled = cells.sampled ? 1 : 0,
          .density = cells.density.data(),
          .multiplicity = cells.strength.data(),
          .colors = picture->colors.data()};
}

}  // extern "C"
