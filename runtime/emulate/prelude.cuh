// CUDA for the host: put in front of an emitted text, which is then compiled as C++ and run on fibers. Holds the
// twin of codegen/cuda/device/ptx.cuh, the built-ins that emitted texts use, and what makes accesses visible to
// the scheduler. Nothing heavy is included: a kernel is to compile in a fraction of a second.
#define WEFT_EMULATED 1

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __forceinline__ inline
#define __align__(n) alignas(n)
#define __launch_bounds__(...)
#define __restrict__ __restrict

#define threadIdx (weft_emulated::thread_index())
#define blockIdx (weft_emulated::block_index())
#define blockDim (weft_emulated::block_extent())
#define gridDim (weft_emulated::grid_extent())
#define warpSize 32
#define WEFT_SHARED_MEMORY(name) unsigned char* const name = weft_emulated::shared()

// ---------------------------------------------------------------- vectors

struct uint3 { unsigned x, y, z; };
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(8) int2 { int x, y; };
struct alignas(16) int4 { int x, y, z, w; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(4) ushort2 { unsigned short x, y; };
struct alignas(8) ushort4 { unsigned short x, y, z, w; };
struct alignas(16) double2 { double x, y; };
struct alignas(16) longlong2 { long long x, y; };
struct alignas(16) ulonglong2 { unsigned long long x, y; };

inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline int2 make_int2(int x, int y) { return {x, y}; }
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline ushort2 make_ushort2(unsigned short x, unsigned short y) { return {x, y}; }
inline ushort4 make_ushort4(unsigned short x, unsigned short y, unsigned short z, unsigned short w) { return {x, y, z, w}; }
inline double2 make_double2(double x, double y) { return {x, y}; }
inline longlong2 make_longlong2(long long x, long long y) { return {x, y}; }
inline ulonglong2 make_ulonglong2(unsigned long long x, unsigned long long y) { return {x, y}; }

// ---------------------------------------------------------------- the scheduler

#define WEFT_ALWAYS inline __attribute__((always_inline))
// Out of line and not instrumented: what they touch is the scheduler's.
#define WEFT_BARE static __attribute__((noinline, no_sanitize_address))

namespace weft_emulated {

WEFT_ALWAYS Block* self() {
  const auto frame = reinterpret_cast<unsigned long long>(__builtin_frame_address(0));
  return reinterpret_cast<Block*>(frame & ~(kArenaBytes - 1));
}

WEFT_BARE __attribute__((const)) unsigned thread() { return self()->current->index; }
WEFT_BARE __attribute__((const)) unsigned block() { return self()->index; }
WEFT_BARE __attribute__((const)) unsigned threads() { return self()->threads; }
WEFT_BARE __attribute__((const)) unsigned blocks() { return self()->count; }
WEFT_BARE __attribute__((const)) unsigned char* shared() { return self()->shared; }

WEFT_ALWAYS uint3 thread_index() { return {thread(), 0, 0}; }
WEFT_ALWAYS uint3 block_index() { return {block(), 0, 0}; }
WEFT_ALWAYS uint3 block_extent() { return {threads(), 1, 1}; }
WEFT_ALWAYS uint3 grid_extent() { return {blocks(), 1, 1}; }
WEFT_ALWAYS int lane() { return static_cast<int>(thread() % 32); }

WEFT_BARE void add_flops(unsigned flops) { self()->current->flops += flops; }

WEFT_BARE void load(Space space, const void* from, void* to, unsigned size, int line) {
  self()->hooks->load(self(), space, from, to, size, {__builtin_return_address(0), line});
}
WEFT_BARE void store(Space space, void* to, const void* from, unsigned size, int line) {
  self()->hooks->store(self(), space, to, from, size, {__builtin_return_address(0), line});
}
WEFT_BARE int barrier(Barrier kind, int predicate, int line, const char* function) {
  return self()->hooks->barrier(self(), kind, predicate, line, function);
}
WEFT_BARE unsigned long long warp(WarpOperation kind, unsigned mask, unsigned long long value, int source, int line) {
  return self()->hooks->warp(self(), kind, mask, value, source, line);
}

template <typename T>
WEFT_ALWAYS T load(Space space, const void* from, int line) {
  static_assert((sizeof(T) & (sizeof(T) - 1)) == 0 && sizeof(T) <= 16, "one access has 1, 2, 4, 8 or 16 bytes");
  T value;
  load(space, from, &value, sizeof(T), line);
  return value;
}

template <typename T>
WEFT_ALWAYS void store(Space space, void* to, T value, int line) {
  static_assert((sizeof(T) & (sizeof(T) - 1)) == 0 && sizeof(T) <= 16, "one access has 1, 2, 4, 8 or 16 bytes");
  store(space, to, &value, sizeof(T), line);
}

template <typename T>
WEFT_ALWAYS T shuffle(unsigned mask, T value, int source, int line) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "a shuffle moves 4 or 8 bytes");
  unsigned long long bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(T));
  bits = warp(WarpOperation::shuffle, mask, bits, source, line);
  __builtin_memcpy(&value, &bits, sizeof(T));
  return value;
}

template <typename To, typename From>
WEFT_ALWAYS To as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  __builtin_memcpy(&to, &from, sizeof(To));
  return to;
}

/// The thunk calls the kernel through this, so that it need not know the type of its argument.
template <typename Args>
__attribute__((no_sanitize_address)) void call(void (*kernel)(Args), const void* args) {
  kernel(*static_cast<const Args*>(args));
}
template <typename Args>
constexpr unsigned long long args_size(void (*)(Args)) {
  return sizeof(Args);
}

}  // namespace weft_emulated

#define WEFT_LINE int line = __builtin_LINE()

// Instances of a template share their lines; the function's name, with its template arguments, tells them apart.
#if __has_builtin(__builtin_source_location)
namespace std {
struct source_location {
  struct __impl {
    const char *_M_file_name, *_M_function_name;
    unsigned _M_line, _M_column;
  };
};
}  // namespace std
#define WEFT_FUNCTION static_cast<const std::source_location::__impl*>(__builtin_source_location())->_M_function_name
#else
#define WEFT_FUNCTION __builtin_FUNCTION()
#endif
#define WEFT_PLACE WEFT_LINE, const char* function = WEFT_FUNCTION

#define WEFT_BARRIER(kind, predicate) \
  weft_emulated::barrier(weft_emulated::Barrier::kind, predicate, line, function)
WEFT_ALWAYS void __syncthreads(WEFT_PLACE) { WEFT_BARRIER(plain, 0); }
WEFT_ALWAYS int __syncthreads_or(int p, WEFT_PLACE) { return WEFT_BARRIER(any, p); }
WEFT_ALWAYS int __syncthreads_and(int p, WEFT_PLACE) { return WEFT_BARRIER(all, p); }
WEFT_ALWAYS int __syncthreads_count(int p, WEFT_PLACE) { return WEFT_BARRIER(count, p); }
WEFT_ALWAYS void meet_warps(WEFT_PLACE) { WEFT_BARRIER(of_warps, 0); }
WEFT_ALWAYS bool meet_warps_or(bool x, WEFT_PLACE) { return WEFT_BARRIER(any_of_warps, x) != 0; }
#undef WEFT_BARRIER
WEFT_ALWAYS void __threadfence() {}
WEFT_ALWAYS void __threadfence_block() {}

WEFT_ALWAYS void __syncwarp(unsigned mask = 0xFFFFFFFFU, WEFT_LINE) {
  weft_emulated::warp(weft_emulated::WarpOperation::sync, mask, 0, 0, line);
}
WEFT_ALWAYS unsigned __ballot_sync(unsigned mask, int p, WEFT_LINE) {
  return static_cast<unsigned>(weft_emulated::warp(weft_emulated::WarpOperation::ballot, mask, p != 0, 0, line));
}
WEFT_ALWAYS int __any_sync(unsigned mask, int p, WEFT_LINE) {
  return static_cast<int>(weft_emulated::warp(weft_emulated::WarpOperation::any, mask, p != 0, 0, line));
}
WEFT_ALWAYS int __all_sync(unsigned mask, int p, WEFT_LINE) {
  return static_cast<int>(weft_emulated::warp(weft_emulated::WarpOperation::all, mask, p != 0, 0, line));
}
template <typename T>
WEFT_ALWAYS T __shfl_sync(unsigned mask, T value, int source, int width = 32, WEFT_LINE) {
  const int first = weft_emulated::lane() & ~(width - 1);
  return weft_emulated::shuffle(mask, value, first + (source & (width - 1)), line);
}
template <typename T>
WEFT_ALWAYS T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, WEFT_LINE) {
  const int lane = weft_emulated::lane(), source = lane ^ bits;
  return weft_emulated::shuffle(mask, value, source < (lane & ~(width - 1)) + width ? source : lane, line);
}
template <typename T>
WEFT_ALWAYS T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, WEFT_LINE) {
  const int lane = weft_emulated::lane(), source = lane - static_cast<int>(delta);
  return weft_emulated::shuffle(mask, value, source >= (lane & ~(width - 1)) ? source : lane, line);
}
template <typename T>
WEFT_ALWAYS T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, WEFT_LINE) {
  const int lane = weft_emulated::lane(), source = lane + static_cast<int>(delta);
  return weft_emulated::shuffle(mask, value, source < (lane & ~(width - 1)) + width ? source : lane, line);
}

// ---------------------------------------------------------------- arithmetic

#define WEFT_PURE static inline __attribute__((always_inline))

WEFT_PURE unsigned __float_as_uint(float x) { return weft_emulated::as<unsigned>(x); }
WEFT_PURE int __float_as_int(float x) { return weft_emulated::as<int>(x); }
WEFT_PURE float __uint_as_float(unsigned x) { return weft_emulated::as<float>(x); }
WEFT_PURE float __int_as_float(int x) { return weft_emulated::as<float>(x); }
WEFT_PURE long long __double_as_longlong(double x) { return weft_emulated::as<long long>(x); }
WEFT_PURE double __longlong_as_double(long long x) { return weft_emulated::as<double>(x); }

WEFT_PURE int __popc(unsigned x) { return __builtin_popcount(x); }
WEFT_PURE int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
WEFT_PURE unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned by) {
  const unsigned long long both = (unsigned long long)high << 32 | low;
  return by >= 32 ? low : (unsigned)(both << by >> 32);
}
WEFT_PURE unsigned __byte_perm(unsigned low, unsigned high, unsigned places) {
  const unsigned long long both = (unsigned long long)high << 32 | low;
  unsigned out = 0;
  for (int i = 0; i < 4; ++i) out |= (unsigned)(both >> 8 * (places >> 4 * i & 7) & 255) << 8 * i;
  return out;
}
WEFT_PURE int __ffs(int x) { return __builtin_ffs(x); }
WEFT_PURE int __ffsll(long long x) { return __builtin_ffsll(x); }
WEFT_PURE int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
WEFT_PURE int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(x)); }
WEFT_PURE unsigned __brev(unsigned x) {
  unsigned out = 0;
  for (int i = 0; i < 32; ++i) out |= ((x >> i) & 1U) << (31 - i);
  return out;
}
WEFT_PURE int __mulhi(int a, int b) { return static_cast<int>((static_cast<long long>(a) * b) >> 32); }
WEFT_PURE unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>((static_cast<unsigned long long>(a) * b) >> 32); }
WEFT_PURE unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>((static_cast<unsigned __int128>(a) * b) >> 64);
}

WEFT_PURE float __fmaf_rn(float a, float b, float c) {
#ifdef WEFT_COUNT
  weft_emulated::add_flops(2);
#endif
  return __builtin_fmaf(a, b, c);
}
WEFT_PURE float fmaf(float a, float b, float c) { return __fmaf_rn(a, b, c); }
WEFT_PURE float __fadd_rn(float a, float b) { return a + b; }
WEFT_PURE float __fsub_rn(float a, float b) { return a - b; }
WEFT_PURE float __fmul_rn(float a, float b) { return a * b; }
WEFT_PURE float __fdiv_rn(float a, float b) { return a / b; }
WEFT_PURE float __frcp_rn(float a) { return 1.0F / a; }
WEFT_PURE float __fdividef(float a, float b) { return a / b; }
WEFT_PURE float __saturatef(float a) { return a >= 1 ? 1.0F : a > 0 ? a : 0.0F; }

// As CUDA, and unlike `a < b ? b : a`: the other one where one is NaN.
WEFT_PURE float fmaxf(float a, float b) { return a != a || a < b ? b : a; }
WEFT_PURE float fminf(float a, float b) { return a != a || b < a ? b : a; }
WEFT_PURE double fmax(double a, double b) { return a != a || a < b ? b : a; }
WEFT_PURE double fmin(double a, double b) { return a != a || b < a ? b : a; }
WEFT_PURE float fabsf(float a) { return __builtin_fabsf(a); }
WEFT_PURE float sqrtf(float a) { return __builtin_sqrtf(a); }
WEFT_PURE float rsqrtf(float a) { return 1.0F / __builtin_sqrtf(a); }
WEFT_PURE float floorf(float a) { return __builtin_floorf(a); }
WEFT_PURE float ceilf(float a) { return __builtin_ceilf(a); }
WEFT_PURE float truncf(float a) { return __builtin_truncf(a); }
WEFT_PURE float rintf(float a) { return __builtin_rintf(a); }
WEFT_PURE float tanhf(float a) { return __builtin_tanhf(a); }
WEFT_PURE float expf(float a) { return __builtin_expf(a); }
WEFT_PURE float exp2f(float a) { return __builtin_exp2f(a); }
WEFT_PURE float logf(float a) { return __builtin_logf(a); }
WEFT_PURE float log2f(float a) { return __builtin_log2f(a); }
WEFT_PURE float sinf(float a) { return __builtin_sinf(a); }
WEFT_PURE float cosf(float a) { return __builtin_cosf(a); }
WEFT_PURE float powf(float a, float b) { return __builtin_powf(a, b); }
WEFT_PURE bool isnan(float a) { return a != a; }
WEFT_PURE bool isinf(float a) { return __builtin_isinf(a) != 0; }
WEFT_PURE bool isfinite(float a) { return __builtin_isfinite(a) != 0; }
WEFT_PURE float __int2float_rn(int a) { return static_cast<float>(a); }
WEFT_PURE float __uint2float_rn(unsigned a) { return static_cast<float>(a); }
WEFT_PURE long long __float2ll_rn(float a) { return static_cast<long long>(__builtin_rintf(a)); }
WEFT_PURE int __float2int_rn(float a) { return static_cast<int>(__builtin_rintf(a)); }
WEFT_PURE int __float2int_rz(float a) { return static_cast<int>(a); }
WEFT_PURE int __float2int_rd(float a) { return static_cast<int>(__builtin_floorf(a)); }
WEFT_PURE int abs(int a) { return a < 0 ? -a : a; }

// glibc has functions of these names.
#define __expf(x) expf(x)
#define __exp2f(x) exp2f(x)
#define __logf(x) logf(x)
#define __log2f(x) log2f(x)
#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)
#define __powf(x, y) powf(x, y)

#define WEFT_MIN_MAX(type)                                       \
  WEFT_PURE type min(type a, type b) { return b < a ? b : a; }   \
  WEFT_PURE type max(type a, type b) { return a < b ? b : a; }
WEFT_MIN_MAX(int)
WEFT_MIN_MAX(unsigned)
WEFT_MIN_MAX(long)
WEFT_MIN_MAX(unsigned long)
WEFT_MIN_MAX(long long)
WEFT_MIN_MAX(unsigned long long)
#undef WEFT_MIN_MAX
WEFT_PURE float min(float a, float b) { return fminf(a, b); }
WEFT_PURE float max(float a, float b) { return fmaxf(a, b); }
WEFT_PURE double min(double a, double b) { return fmin(a, b); }
WEFT_PURE double max(double a, double b) { return fmax(a, b); }
WEFT_PURE long long min(long a, long long b) { return b < a ? b : a; }
WEFT_PURE long long min(long long a, long b) { return b < a ? b : a; }
WEFT_PURE long long max(long a, long long b) { return a < b ? b : a; }
WEFT_PURE long long max(long long a, long b) { return a < b ? b : a; }

// ---------------------------------------------------------------- the twin of ptx.cuh

WEFT_PURE float exp2_approx(float x) { return __builtin_exp2f(x); }
WEFT_PURE float reciprocal_approx(float x) { return 1 / x; }
__device__ __forceinline__ unsigned thread_anew() { return threadIdx.x; }
WEFT_PURE int kept(int x) { return x; }
WEFT_PURE float anything() { return __builtin_nanf(""); }
WEFT_PURE float log2_approx(float x) { return __builtin_log2f(x); }

WEFT_PURE float from_half(unsigned short bits) {
  const unsigned sign = (bits & 0x8000U) << 16, rest = bits & 0x7FFFU;
  // Subnormal halves become normal floats by the multiplication, which is exact.
  const float wide = __uint_as_float(rest << 13) * 0x1p112F;
  return __uint_as_float(sign | (rest >= 0x7C00 ? 0x7F800000U | (rest << 13) : __float_as_uint(wide)));
}

/// Rounds to nearest, ties to even.
WEFT_PURE unsigned short to_half(float value) {
  const unsigned bits = __float_as_uint(value), rest = bits & 0x7FFFFFFFU;
  unsigned out;
  if (rest > 0x7F800000U) {
    out = 0x7FFF;
  } else if (rest >= 0x47800000U) {
    out = 0x7C00;
  } else if (rest < 0x38800000U) {
    // Subnormal or zero: the addition rounds at the right bit, because the sum's last place is that of the half.
    out = __float_as_uint(__uint_as_float(rest) + 0.5F) - __float_as_uint(0.5F);
  } else {
    out = (rest - 0x38000000U + 0xFFFU + ((rest >> 13) & 1U)) >> 13;
  }
  return static_cast<unsigned short>(out | ((bits >> 16) & 0x8000U));
}

WEFT_PURE float from_bfloat(unsigned short bits) { return __uint_as_float(static_cast<unsigned>(bits) << 16); }

/// Rounds to nearest, ties to even.
WEFT_PURE unsigned short to_bfloat(float value) {
  const unsigned bits = __float_as_uint(value);
  if (value != value) return 0x7FC0;
  return static_cast<unsigned short>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

template <typename T>
WEFT_ALWAYS T load_global(const void* from, WEFT_LINE) {
  return weft_emulated::load<T>(weft_emulated::Space::read_only, from, line);
}
template <typename T>
WEFT_ALWAYS T load_written(const void* from, WEFT_LINE) {
  return weft_emulated::load<T>(weft_emulated::Space::global, from, line);
}
template <typename T>
WEFT_ALWAYS T __ldg(const T* from, WEFT_LINE) {
  return weft_emulated::load<T>(weft_emulated::Space::read_only, from, line);
}
// Of atomic operations only where they go is looked at: their order is free.
WEFT_ALWAYS void add_atomically(void* to, long long by, WEFT_LINE) {
  weft_emulated::load<long long>(weft_emulated::Space::global, to, line);
  __atomic_fetch_add(static_cast<long long*>(to), by, __ATOMIC_RELAXED);
}
WEFT_ALWAYS void raise_atomically(void* to, unsigned by, WEFT_LINE) {
  auto* const at = static_cast<unsigned*>(to);
  unsigned old = weft_emulated::load<unsigned>(weft_emulated::Space::global, to, line);
  while (old < by && !__atomic_compare_exchange_n(at, &old, by, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
}

template <typename T>
WEFT_ALWAYS void store_global(void* to, T value, WEFT_LINE) {
  weft_emulated::store<T>(weft_emulated::Space::global, to, value, line);
}
template <typename T>
WEFT_ALWAYS T load_shared(const void* from, WEFT_LINE) {
  return weft_emulated::load<T>(weft_emulated::Space::shared, from, line);
}
template <typename T>
WEFT_ALWAYS void store_shared(void* to, T value, WEFT_LINE) {
  weft_emulated::store<T>(weft_emulated::Space::shared, to, value, line);
}

// ---------------------------------------------------------------- plain accesses

// The compiler puts a call of these before every access to memory that it cannot prove to be a variable of its own.
#ifdef WEFT_CHECK_PLAIN
extern "C" __attribute__((visibility("hidden"))) const char __ehdr_start, _end;  // of this object, by the linker
namespace weft_emulated {
/// A stack, or a constant of the text.
WEFT_ALWAYS bool is_own(const Block* block, const void* at) {
  const auto address = reinterpret_cast<unsigned long long>(at);
  if ((address & ~(kArenaBytes - 1)) == reinterpret_cast<unsigned long long>(block)) return true;
  return at >= &__ehdr_start && at < &_end;
}
}  // namespace weft_emulated
#define WEFT_TOUCH(name, size_parameter, size, write)                                                     \
  extern "C" __attribute__((noinline, no_sanitize_address)) void __asan_##name##_noabort(const void* at size_parameter) { \
    weft_emulated::Block* block = weft_emulated::self();                                                  \
    if (weft_emulated::is_own(block, at)) return;                                                         \
    block->hooks->touch(block, at, static_cast<unsigned>(size), write, {__builtin_return_address(0), 0});                                   \
  }
#define WEFT_NOTHING
#define WEFT_SIZE , unsigned long size
WEFT_TOUCH(load1, WEFT_NOTHING, 1, false)
WEFT_TOUCH(load2, WEFT_NOTHING, 2, false)
WEFT_TOUCH(load4, WEFT_NOTHING, 4, false)
WEFT_TOUCH(load8, WEFT_NOTHING, 8, false)
WEFT_TOUCH(load16, WEFT_NOTHING, 16, false)
WEFT_TOUCH(loadN, WEFT_SIZE, size, false)
WEFT_TOUCH(store1, WEFT_NOTHING, 1, true)
WEFT_TOUCH(store2, WEFT_NOTHING, 2, true)
WEFT_TOUCH(store4, WEFT_NOTHING, 4, true)
WEFT_TOUCH(store8, WEFT_NOTHING, 8, true)
WEFT_TOUCH(store16, WEFT_NOTHING, 16, true)
WEFT_TOUCH(storeN, WEFT_SIZE, size, true)
extern "C" void __asan_handle_no_return() {}
#undef WEFT_TOUCH
#undef WEFT_NOTHING
#undef WEFT_SIZE
#endif
