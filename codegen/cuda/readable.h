#pragma once

#include "codegen/source.h"
#include "compiler/ir/plan.h"

#include <string>
#include <string_view>
#include <vector>

/// Emitted CUDA texts as people like to read them.
namespace weft::codegen::cuda {

/// The text with a line `#include "NAME"` in the place of each device header, which are the same in every kernel. With
/// the headers put back it is the whole text.
std::string thin(std::string_view text);

/// The thin text behind comments: the pattern as its author wrote it, and for each of its branches (their sets in the
/// language, one each, or none) what the key ranges of the plan keep. What is compiled, and what keys are made of, is
/// the whole text, which holds no word of the user's.
std::string readable(const Source& source, const ir::Plan& plan, std::string_view pattern_text,
                     const std::vector<std::string>& branches);

}  // namespace weft::codegen::cuda
