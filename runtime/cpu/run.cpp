#include "runtime/cpu/run.h"

#include "runtime/cpu/walker.h"

namespace weft::cpu {

void run(const codegen::cpu::MicroKernels& kernels, const weft_args& args) {
  Walker walker(kernels, args, nullptr);
  args.phase < 0 ? walker.summarize() : walker.tiles();
}

void run_backward(const codegen::cpu::MicroKernels& kernels, const weft_args& args, Sums& sums) {
  Walker(kernels, args, &sums).tiles();
}

}  // namespace weft::cpu
