#pragma once

#include "compiler/ir/pattern.h"
#include "compiler/ir/pattern_interpreter.h"

#include <cstdint>
#include <vector>

/// What a picture looks at where the user says nothing: it shows who attends to whom, and nothing of the scores.
namespace weft::draw {

/// So many that the pattern shows: what it demands, else 512, or as many as its neighborhoods need.
std::int64_t tokens_to_draw(const ir::Pattern& pattern);

/// Extents of an input at these sizes.
std::vector<std::int64_t> input_shape(const ir::Input& input, const ir::Shape& shape);

/// Does a set read the values of this input? Scores of blocks are not read: any choice shows the pattern.
bool is_read(const ir::Pattern& pattern, std::size_t input);

/// Has it so many elements that they are made up where they are looked at?
bool is_large(const std::vector<std::int64_t>& shape);

/// i32[batch]
bool is_lengths(const ir::Input& input);

/// Values of an input that was not given; of large ones each is made up where it is looked at, so that memory and time
/// do not depend on the lengths. Lengths are whole: the picture shows the pattern and not the padding. None where none
/// is read.
ir::Tensor made_up(const ir::Pattern& pattern, const ir::Shape& shape, std::size_t input);

}  // namespace weft::draw
