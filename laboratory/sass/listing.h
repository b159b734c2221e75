#pragma once

#include "compiler/base/result.h"
#include "laboratory/sass/instruction.h"

#include <string_view>
#include <vector>

namespace weft::sass {

/// Reads what `nvdisasm --print-code --print-instruction-encoding` prints, for any architecture from Maxwell on, one
/// entry for each `.text` section.
///
/// User error for a text that is not such a listing, and where encodings are missing: without them there are no
/// control words.
Result<std::vector<Code>> parse_listing(std::string_view text);

/// The 21 bits that belong to one instruction.
Control decode_control(std::uint64_t bits);

}  // namespace weft::sass
