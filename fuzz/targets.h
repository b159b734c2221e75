#pragma once

#include <string_view>

/// What is fuzzed: functions that take any bytes. They come back, or end the process with a sentence about what does
/// not hold; sanitizers and limits see the rest.
namespace weft::fuzz {

/// Text as a .weft file through parser, checker, formatter, and the lowering and printing of each of its patterns.
void front_end(std::string_view text);

/// Text as a plan through parser, verifier, printer, and tables for several numbers of heads.
void plan_text(std::string_view text);

/// Bytes as an entry of the kernel store, and as the inside of one whose digest is right.
void entry(std::string_view bytes);

/// Bytes as a bundle of kernels, and as the inside of one whose digests are right.
void bundle(std::string_view bytes);

}  // namespace weft::fuzz
