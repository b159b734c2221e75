#pragma once

#include <stddef.h>
#include <stdint.h>

/// What XLA's caller, compiled against XLA's headers, says to the module that holds the kernels: two programs that know
/// nothing else of each other.
namespace weft::jax {

struct Buffer {
  void* data;
  int32_t dtype;  ///< weft_dtype; 0: none that Weft has
  int32_t rank;
  const int64_t* extents;  ///< row-major, dense
};

/// A launch. Axes in front of those that Weft knows are of `vmap`, and count as batch.
///
/// Forward: q, k, v, inputs in the order of the pattern, and where weights are dropped the seed, 64 bits; out, LSE.
/// Backward: q, k, v, out, LSE, d_out, d_LSE, inputs, seed; gradients of q, k, v and of the f32 inputs in their order.
struct Call {
  const char* kernel;  ///< a name that the module knows
  size_t kernel_size;
  bool backward, heads_first, has_offset;
  int64_t offset;
  int32_t threads;
  void* stream;
  const Buffer* arguments;
  size_t argument_count;
  const Buffer* results;
  size_t result_count;
};

/// Returns whether it went well; else `message`, of `size` bytes with the zero, says why.
using Function = bool (*)(const Call* call, char* message, size_t size);

}  // namespace weft::jax
