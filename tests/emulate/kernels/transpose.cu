// O = I^T for one tile of 32 x 32 floats a block, staged in shared memory whose rows have kRow floats.
struct Args {
  const float* in;
  float* out;
};

constexpr int kRow = 33;

extern "C" __global__ void weft_kernel(const Args a) {
  WEFT_SHARED_MEMORY(memory);
  float* tile = (float*)memory;
  const int x = threadIdx.x % 32, y = threadIdx.x / 32;
  const long long base = 1024LL * blockIdx.x;
  for (int row = y; row < 32; row += 4) {
    store_shared(tile + row * kRow + x, load_global<float>(a.in + base + row * 32 + x));
  }
  __syncthreads();
  for (int row = y; row < 32; row += 4) {
    store_global(a.out + base + row * 32 + x, load_shared<float>(tile + x * kRow + row));
  }
}
