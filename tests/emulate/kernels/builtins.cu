// Each thread writes kValues numbers, which the test computes again.
struct Args {
  const float* in;
  unsigned* out;
};

constexpr int kValues = 24;

extern "C" __global__ void weft_kernel(const Args a) {
  const int t = threadIdx.x, lane = t % 32;
  const float x = load_global<float>(a.in + t);
  const unsigned all = 0xFFFFFFFFu;
  unsigned* out = a.out + kValues * (blockIdx.x * blockDim.x + t);
  int at = 0;
  store_global(out + at++, gridDim.x * 1000 + blockDim.x);
  store_global(out + at++, (unsigned)__shfl_sync(all, t, lane + 3));
  store_global(out + at++, (unsigned)__shfl_sync(all, t, 5, 8));
  store_global(out + at++, (unsigned)__shfl_xor_sync(all, t, 16));
  store_global(out + at++, (unsigned)__shfl_up_sync(all, t, 1));
  store_global(out + at++, (unsigned)__shfl_down_sync(all, t, 30));
  store_global(out + at++, __ballot_sync(all, lane % 3 == 0));
  store_global(out + at++, (unsigned)__any_sync(all, lane == 7));
  store_global(out + at++, (unsigned)__all_sync(all, lane != 7));
  store_global(out + at++, (unsigned)__syncthreads_or(t == 40));
  store_global(out + at++, (unsigned)__syncthreads_or(t == 4000));
  store_global(out + at++, (unsigned)__syncthreads_and(t < 40));
  store_global(out + at++, (unsigned)__syncthreads_count(t < 40));
  store_global(out + at++, (unsigned)(__popc(t) * 10000 + __ffs(t) * 100 + __clz(t)));
  store_global(out + at++, __umulhi(0x80000000u + t, 0x10u));
  store_global(out + at++, __float_as_uint(exp2_approx(0.0f)));
  store_global(out + at++, __float_as_uint(fmaxf(__int_as_float(0x7FC00000), x)));
  store_global(out + at++, __float_as_uint(fminf(x, __uint_as_float(0x7FC00000u))));
  store_global(out + at++, (unsigned)to_half(x));
  store_global(out + at++, __float_as_uint(from_half(to_half(x))));
  store_global(out + at++, (unsigned)to_bfloat(x));
  store_global(out + at++, __float_as_uint(from_bfloat(to_bfloat(x))));
  store_global(out + at++, __float_as_uint(__fmaf_rn(x, x, -x * x)));
  store_global(out + at++, (unsigned)(max(t, 3) - min((long long)t, 3LL)));
}
