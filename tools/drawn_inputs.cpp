#include "tools/drawn_inputs.h"

#include "runtime/draw/made_up.h"
#include "runtime/engine/reference.h"
#include "tools/operands.h"

namespace weft::tools {

namespace {

/// As `run` makes them, where that is not much.
ir::Tensor made_up(const ir::Pattern& pattern, const ir::Shape& shape, std::size_t i) {
  const auto& input = pattern.inputs[i];
  if (draw::is_large(draw::input_shape(input, shape)) || draw::is_lengths(input) || !draw::is_read(pattern, i))
    return draw::made_up(pattern, shape, i);
  return to_f64(random_input(input, shape, 0, i).view());
}

}  // namespace

Result<ir::InputValues> inputs_to_draw(const Options& options, const ir::Pattern& pattern, const ir::Shape& shape) {
  WEFT_TRY(auto given, given_inputs(options, pattern, shape));
  ir::InputValues values;
  for (std::size_t i = 0; i < pattern.inputs.size(); ++i) {
    values.push_back(given[i] ? to_f64(given[i]->view()) : made_up(pattern, shape, i));
  }
  return values;
}

}  // namespace weft::tools
