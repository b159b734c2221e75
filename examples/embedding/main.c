/* Runs a kernel of a bundle's file: embedding_c BUNDLE */

#include <weft/c.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { kTokens = 100, kDim = 32 };

static const char* const kText = "pattern streaming { keep causal & (window(63, 0) | sink(4)); }";

static void print_warning(const char* warning, void* context) {
  (void)context;
  fprintf(stderr, "%s\n", warning);
}

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: %s BUNDLE\n", argv[0]);
    return 2;
  }
  weft_engine_options options = weft_engine_options_init();
  const char* bundle = argv[1];
  options.bundles = &bundle;
  options.bundle_count = 1;
  options.no_cache = 1;
  options.no_compile = 1;
  weft_compile_options wanted = weft_compile_options_init();
  wanted.dim = kDim;
  wanted.dtype = WEFT_F32;

  /* V counts tokens, and all keys are alike: O is the mean of what a row sees. */
  static float q[kTokens * kDim], k[kTokens * kDim], v[kTokens * kDim], out[kTokens * kDim];
  for (int n = 0; n < kTokens; ++n) {
    for (int c = 0; c < kDim; ++c) {
      q[n * kDim + c] = (float)(n % 7);
      v[n * kDim + c] = (float)n;
    }
  }
  const int64_t extents[4] = {1, kTokens, 1, kDim};
  weft_run_args args = weft_run_args_init();
  args.q = weft_dense(q, WEFT_F32, 4, extents);
  args.k = weft_dense(k, WEFT_F32, 4, extents);
  args.v = weft_dense(v, WEFT_F32, 4, extents);
  args.out = weft_dense(out, WEFT_F32, 4, extents);

  weft_engine* engine = NULL;
  weft_kernel* kernel = NULL;
  weft_error* error = weft_engine_create(&options, &engine);
  if (!error) error = weft_compile(engine, kText, strlen(kText), &wanted, &kernel);
  if (!error) error = weft_run(kernel, &args);
  if (engine) weft_error_free(weft_engine_take_warnings(engine, print_warning, NULL));
  int status = 1;
  if (error) {
    fputs(weft_error_report(error), stderr);
  } else {
    /* The last token sees tokens 0 to 3 and 36 to 99. */
    const double got = out[kTokens * kDim - 1], want = (0 + 1 + 2 + 3 + (36 + 99) * 64 / 2.0) / 68;
    printf("kernel for %s, last row %.4f, expected %.4f\n", weft_kernel_target(kernel), got, want);
    status = fabs(got - want) < 1e-3 ? 0 : 1;
  }
  weft_error_free(error);
  weft_kernel_destroy(kernel);
  weft_engine_destroy(engine);
  return status;
}
