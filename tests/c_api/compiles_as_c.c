/* The header is C: what it declares can be called from here. */

#include <weft/c.h>
#include <weft/c_ring.h>

size_t size_of_options_in_c(void) { return sizeof(weft_engine_options); }

weft_error* compile_in_c(weft_engine* engine, const char* text, weft_kernel** kernel) {
  weft_compile_options options = weft_compile_options_init();
  options.dim = 8;
  options.dtype = WEFT_F32;
  options.target = "interpreter";
  return weft_compile(engine, text, strlen(text), &options, kernel);
}
