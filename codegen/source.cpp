#include "codegen/source.h"

namespace weft::codegen {

const std::string& name_of(const Names& names, ir::Step::Kernel kernel) {
  switch (kernel) {
    case ir::Step::Kernel::prepass:
      return names.prepass;
    case ir::Step::Kernel::merge:
      return names.merge;
    case ir::Step::Kernel::terms:
      return names.terms;
    case ir::Step::Kernel::input_tables:
      return names.input_tables;
    case ir::Step::Kernel::sizes:
      return names.sizes;
    case ir::Step::Kernel::attend:
    case ir::Step::Kernel::transposed:
    case ir::Step::Kernel::inputs:
      break;
  }
  return names.symbol;
}

}  // namespace weft::codegen
