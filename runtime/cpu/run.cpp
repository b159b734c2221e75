#include "runtime/cpu/run.h"

#include "runtime/cpu/walker.h"

namespace weft::cpu {

void run(const codegen::cpu::MicroKernels& kernels, const weft_args& args) {
  Walker walker(kernels, args);
  args.phase < 0 ? walker.summarize() : walker.tiles();
}

}  // namespace weft::cpu
