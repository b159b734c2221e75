#pragma once

#include "compiler/base/text_writer.h"

/// The device headers (codegen/cuda/device/) as texts, in the order in which they build on each other.
namespace weft::codegen::cuda {

struct Header {
  const char* name;
  const char* text;
};
extern const Header kHeaders[];
extern const int kHeaderCount;

/// One of them as a part of a text, under its name.
void write_header(TextWriter& w, const Header& h);

}  // namespace weft::codegen::cuda
