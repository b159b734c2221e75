#pragma once

#include "codegen/args.h"
#include "codegen/table_words.h"
#include "compiler/ir/tables.h"

#include <cstdint>
#include <vector>

/// Makes the array that codegen/table_words.h describes.
namespace weft::codegen {

struct TablesImage {
  std::vector<std::int64_t> words;
  std::int64_t most_terms = 0;  ///< of any pass of any head: scratch grows with it
};

TablesImage make_image(const ir::Plan& plan, const ir::Tables& tables);

}  // namespace weft::codegen
