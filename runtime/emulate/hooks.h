#pragma once

/// What an emulated kernel and the scheduler know of each other. Included by both sides: by the library and, in
/// front of the emitted text, by the shared object made of it. Plain types and function pointers only, because the
/// object must find no symbol of the executable it is loaded into.
namespace weft_emulated {

/// A block and all its stacks lie within one range of addresses aligned to this, so that any frame of a CUDA
/// thread finds its block by masking its own address: no thread-local storage, which fibers and shared objects
/// both make slow.
inline constexpr unsigned long long kArenaBytes = 128ULL << 20;

/// `read_only`: global memory by way of a cache that does not see what the kernel writes.
enum class Space : int { global, read_only, shared };
/// Each warp may reach the last two at a place of its own.
enum class Barrier : int { plain, any, all, count, of_warps, any_of_warps };
enum class WarpOperation : int { sync, shuffle, ballot, any, all, exchange };

/// What a lane shows to its warp in one exchange.
inline constexpr unsigned kMailBytes = 32;

struct Thread {
  unsigned index;            ///< threadIdx.x
  unsigned long long flops;  ///< of fused multiply-adds, where they are counted
};

struct Block;

/// Where in the text a hook is called from: the line, for people, and the call's address, which tells the accesses
/// apart that a warp makes together.
struct Site {
  const void* address;
  int line;
};

struct Hooks {
  void (*load)(Block*, Space, const void* from, void* to, unsigned size, Site);
  void (*store)(Block*, Space, void* to, const void* from, unsigned size, Site);
  /// A plain C++ access that the compiler has instrumented.
  void (*touch)(Block*, const void* at, unsigned size, bool write, Site);
  /// `function` is where the line stands: of instances of a template, each has its own.
  int (*barrier)(Block*, Barrier, int predicate, int line, const char* function);
  /// `value` is this lane's; `source` the lane a shuffle reads. The result is this lane's.
  unsigned long long (*warp)(Block*, WarpOperation, unsigned mask, unsigned long long value, int source, int line);
  /// Matrix instructions: what every lane of the warp shows, kMailBytes apart; it stands until the lane's next one.
  const unsigned char* (*exchange)(Block*, const void* mine, unsigned bytes, int line);
  /// An asynchronous copy of `bytes` bytes, and zeros up to `size`, to shared memory: nothing is there before wait().
  void (*copy)(Block*, void* to, const void* from, unsigned bytes, unsigned size, Site);
  void (*wait)(Block*);
};

/// At the begin of the arena.
struct Block {
  const Hooks* hooks;
  void* scheduler;
  Thread* current;        ///< the CUDA thread that runs now
  unsigned char* shared;  ///< dynamic shared memory
  unsigned index, count;  ///< blockIdx.x, gridDim.x
  unsigned threads;       ///< blockDim.x
};

}  // namespace weft_emulated
