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

extern "C" __global__ void __launch_bounds__(128) weft_kernel(const Args a) {
  WEFT_SHARED_MEMORY(memory);
  Shared& s = *(Shared*)memory;
  const int thread = threadIdx.x, half = thread % 2, row = blockIdx.x * kRows + thread / 2;
  const float q = row < a.n ? load_global<float>(a.q + row) : 0.0f;
  float highest = -__builtin_huge_valf(), sum = 0, acc = 0;
  for (int begin = 0; begin < min(a.n, (int)(blockIdx.x + 1) * kRows); begin += kKeys) {
    if (thread < kKeys) {
      const int key = min(begin + thread, a.n - 1);
      store_shared(&s.keys[thread], load_global<float>(a.k + key));
      store_shared(&s.values[thread], load_global<float>(a.v + key));
    }
    __syncthreads();  // staged
    float score[kKeys / 2], most = -__builtin_huge_valf();
#pragma unroll
    for (int i = 0; i < kKeys / 2; ++i) {
      const int key = begin + 2 * i + half;
      score[i] = key <= row ? q * load_shared<float>(&s.keys[2 * i + half]) : -__builtin_huge_valf();
      most = fmaxf(most, score[i]);
    }
    most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFu, most, 1));
    const float next = fmaxf(highest, most);
    const float rescale = next == highest ? 1.0f : exp2_approx(highest - next);
    sum *= rescale;
    acc *= rescale;
    highest = next;
#pragma unroll
    for (int i = 0; i < kKeys / 2; ++i) {
      const float p = next == -__builtin_huge_valf() ? 0.0f : exp2_approx(score[i] - next);
      sum += p;
      acc = __fmaf_rn(p, load_shared<float>(&s.values[2 * i + half]), acc);
    }
    __syncthreads();  // read
  }
  sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 1);
  store_shared(&s.partial[thread / 2][half], acc);
  __syncwarp();
  const float both = load_shared<float>(&s.partial[thread / 2][0]) + load_shared<float>(&s.partial[thread / 2][1]);
  if (row < a.n && half == 0) store_global(a.o + row, both / sum);
}
