// One access of each lane of one warp to shared memory and to global memory. The test puts in a type and two indices
// in terms of `lane`.
struct Args {
  const float* in;
  float* out;
};

using Type = TYPE;

extern "C" __global__ void weft_kernel(const Args a) {
  WEFT_SHARED_MEMORY(memory);
  const int lane = threadIdx.x;
  const int shared = SHARED_INDEX, global = GLOBAL_INDEX;
  const Type value = load_global<Type>((const Type*)a.in + global);
  store_shared((Type*)memory + shared, value);
  __syncwarp();
  store_global((Type*)a.out + global, load_shared<Type>((Type*)memory + shared));
}
