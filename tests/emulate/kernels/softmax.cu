// One block a tile of 64 rows: each warp owns 16 rows, two lanes a row, of scores s = sum over keys in chunks of 8,
// with a running maximum and sum, as attention has them. O[row] = sum_k p_k v_k / sum_k p_k with s = q[row] k[key],
// keys up to the row's own position (causal).
struct Args {
  const float* q;
  const float* k;
  const float* v;
  float* o;
  int n;
};

constexpr int kRows = 64;
constexpr int kKeys = 16;

struct Shared {
  float keys[kKeys];
  float values[kKeys];
  float partial[kRows][2];  // of the two lanes of a row
};

template <bool kFirst>
__device__ __forceinline__ void meet_all() {
  __syncthreads();
}

extern "C" __global__ void __launch_bounds__(128) weft_kernel(const Args a) {
  WEFT_SHARED_MEMORY(memory);
  Shared& s = *(Shared*)memory;
  const int thread = threadIdx.x, half = thread % 2, row = blockIdx.x * kRows + thread / 2;
  // fault(output_by_the_read_only_path) value: row < a.n ? load_global<float>(a.o + row) : 0.0f
  const float q = row < a.n ? load_global<float>(a.q + row) : 0.0f;
  // fault(barrier_after_return) also: if (thread >= 96) return;
  float highest = -__builtin_huge_valf(), sum = 0, acc = 0;
  for (int begin = 0; begin < min(a.n, (int)(blockIdx.x + 1) * kRows); begin += kKeys) {
    if (thread < kKeys) {
      // fault(load_behind_the_end) value: begin + thread
      const int key = min(begin + thread, a.n - 1);
      // fault(load_before_the_begin) instead:
      //   store_shared(&s.keys[thread], load_global<float>(a.k + begin + thread - 1));
      // fault(plain_load_behind_the_end) instead: store_shared(&s.keys[thread], a.k[key + a.n]);
      store_shared(&s.keys[thread], load_global<float>(a.k + key));
      store_shared(&s.values[thread], load_global<float>(a.v + key));
    }
    // fault(barrier_without_some) instead: if (thread < 96) __syncthreads();
    // fault(two_barriers) instead: if (half == 0) __syncthreads(/*line*/ 1); else __syncthreads(/*line*/ 2);
    // fault(two_instances_of_a_barrier) instead: if (thread < 64) meet_all<true>(); else meet_all<false>();
    // fault(no_barrier_after_staging) leaves this out
    __syncthreads();  // staged
    float score[kKeys / 2], most = -__builtin_huge_valf();
#pragma unroll
    for (int i = 0; i < kKeys / 2; ++i) {
      const int key = begin + 2 * i + half;
      // fault(mask_one_too_far) instead:
      //   score[i] = key <= row + 1 ? q * load_shared<float>(&s.keys[2 * i + half]) : -__builtin_huge_valf();
      // fault(misaligned) instead:
      //   score[i] = key <= row ? q * load_shared<float2>(&s.keys[2 * i + half]).x : -__builtin_huge_valf();
      // fault(mask_one_too_short) value: key < row ? right : -__builtin_huge_valf()
      score[i] = key <= row ? q * load_shared<float>(&s.keys[2 * i + half]) : -__builtin_huge_valf();
      most = fmaxf(most, score[i]);
    }
    most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFu, most, 1));
    const float next = fmaxf(highest, most);
    const float rescale = next == highest ? 1.0f : exp2_approx(highest - next);
    sum *= rescale;
    // fault(no_rescale) leaves this out
    acc *= rescale;
    highest = next;
#pragma unroll
    for (int i = 0; i < kKeys / 2; ++i) {
      const float p = next == -__builtin_huge_valf() ? 0.0f : exp2_approx(score[i] - next);
      sum += p;
      acc = __fmaf_rn(p, load_shared<float>(&s.values[2 * i + half]), acc);
    }
    // Two warps at a place of their own each.
    // fault(half_a_warp_at_another_place) value: thread < 48
    const bool here = thread < 64;
    // fault(no_barrier_before_staging) leaves this out
    if (here) {
      meet_warps();  // read
    } else {
      meet_warps();
    }
  }
  // fault(shuffle_with_exited_lane) also: if (thread == 37) return;
  // fault(shuffle_from_a_lane_outside_the_mask) also: if (thread % 32 < 16) sum += __shfl_sync(0xFFFFu, sum, 20);
  // fault(mask_without_the_caller) also: sum += __shfl_sync(0xFFFFu, sum, 0);
  // fault(two_shuffles) also:
  //   sum += half == 0 ? __shfl_sync(~0u, sum, 0, 32, /*line*/ 1) : __shfl_sync(~0u, sum, 1, 32, /*line*/ 2);
  // fault(deadlock) also: if (half == 0) __syncwarp(); else __syncthreads();
  sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 1);
  // fault(store_behind_shared_memory) instead: store_shared(&s.partial[thread][half], acc);
  // fault(plain_race) instead: s.partial[thread / 2][half] = acc;
  store_shared(&s.partial[thread / 2][half], acc);
  // fault(no_syncwarp) leaves this out
  // fault(plain_race) leaves this out
  __syncwarp();
  const float both = load_shared<float>(&s.partial[thread / 2][0]) + load_shared<float>(&s.partial[thread / 2][1]);
  // fault(store_behind_the_end) instead: if (half == 0) store_global(a.o + row, both / sum);
  // fault(store_into_an_input) instead: if (row < a.n && half == 0) store_global((float*)a.q + row, both / sum);
  // fault(plain_store_behind_the_end) instead: a.o[row] = both / sum;
  if (row < a.n && half == 0) store_global(a.o + row, both / sum);
}
