#include "runtime/c_api/handles.h"
#include "runtime/c_api/tensors.h"
#include "runtime/c_api/versioned.h"
#include "runtime/engine/kernel_state.h"

#include <cstring>
#include <limits>

namespace weft::c_api {
namespace {

std::string text_or_empty(const char* text) { return text == nullptr ? std::string() : std::string(text); }

}  // namespace

Result<EngineOptions> options_of(const weft_engine_options* given) {
  WEFT_TRY(const auto from, read_versioned(given, "weft_engine_options", weft_engine_options_init()));
  if (from.bundle_count > 0 && from.bundles == nullptr) return missing("weft_engine_options::bundles");
  if (from.linked_bundle_count > 0 && from.linked_bundles == nullptr) {
    return missing("weft_engine_options::linked_bundles");
  }
  EngineOptions out;
  out.cache_dir = text_or_empty(from.cache_dir);
  out.no_cache = from.no_cache != 0;
  out.no_compile = from.no_compile != 0;
  out.llvm = text_or_empty(from.llvm);
  out.nvrtc = text_or_empty(from.nvrtc);
  for (std::size_t i = 0; i < from.bundle_count; ++i) out.bundles.push_back(text_or_empty(from.bundles[i]));
  for (std::size_t i = 0; i < from.linked_bundle_count; ++i) {
    const weft_bundle_image& image = from.linked_bundles[i];
    BundleImage made{.data = image.data, .size = image.size};
    if (image.name != nullptr) made.name = image.name;
    out.linked_bundles.push_back(std::move(made));
  }
  if (from.read_only_cache_count > 0 && from.read_only_caches == nullptr) {
    return missing("weft_engine_options::read_only_caches");
  }
  for (std::size_t i = 0; i < from.read_only_cache_count; ++i) {
    out.read_only_caches.push_back(text_or_empty(from.read_only_caches[i]));
  }
  if (from.cache_bytes != 0) out.cache_bytes = from.cache_bytes;
  if (from.wait_ms != 0) out.wait_ms = from.wait_ms;
  if (from.notice != nullptr) {
    out.notice = [call = from.notice, context = from.notice_context](const std::string& sentence) {
      call(sentence.c_str(), context);
    };
  }
  out.bundle_key = text_or_empty(from.bundle_key);
  out.record = text_or_empty(from.record);
  out.threads = from.threads;
  out.deadline_ms = from.deadline_ms;
  out.memory_bytes = from.memory_bytes;
  out.most_kernels = from.most_kernels;
  return out;
}

namespace {

RunShape shape_of(const weft_run_shape& from) {
  return {.batch = from.batch,
          .n_q = from.n_q,
          .n_k = from.n_k,
          .heads = from.heads,
          .kv_heads = from.kv_heads,
          .slice = {.first = from.slice_first, .of = from.slice_of},
          .head_slice = {.first = from.head_first, .of = from.head_of},
          .sizes_at = from.sizes_at != 0};
}

}  // namespace

Result<CompileOptions> options_of(const weft_compile_options* given) {
  WEFT_TRY(const auto from, read_versioned(given, "weft_compile_options", weft_compile_options_init()));
  CompileOptions out;
  out.pattern = text_or_empty(from.pattern);
  if (from.param_count > 0 && from.params == nullptr) return missing("weft_compile_options::params");
  for (std::size_t i = 0; i < from.param_count; ++i) {
    const std::string param = text_or_empty(from.params[i]);
    const auto equals = param.find('=');
    if (equals == std::string::npos) return user_error(fmt::format("the parameter '{}' is not name=value", param));
    out.params[param.substr(0, equals)] = param.substr(equals + 1);
  }
  const auto bound = [](std::int64_t n) { return n == 0 ? std::nullopt : std::optional(n); };
  out.heads = bound(from.heads);
  out.kv_heads = bound(from.kv_heads);
  out.dim = bound(from.dim);
  out.dim_v = bound(from.dim_v);
  if (from.dtype != WEFT_DTYPE_OPEN) {
    WEFT_TRY(out.dtype, dtype_of(from.dtype, "weft_compile_options"));
  }
  out.branch_lse = from.branch_lse != 0;
  out.paged = from.paged != 0;
  out.gradient = from.gradient != 0;
  if (from.shape != nullptr) out.shape = shape_of(*from.shape);
  if (from.target != nullptr) out.target = from.target;
  if (from.source_name != nullptr) out.source_name = from.source_name;
  return out;
}

namespace {

Result<std::span<const std::int64_t>> numbers(const std::int64_t* data, std::size_t count, const char* name) {
  if (count > 0 && data == nullptr) return missing(name);
  return std::span(data, count);
}

Result<std::vector<OutputView>> lists_of(const weft_run_args& from) {
  if (from.list_count > 0 && from.lists == nullptr) return missing("weft_run_args::lists");
  std::vector<OutputView> out;
  for (std::size_t i = 0; i < from.list_count; ++i) {
    WEFT_TRY(auto view, tensor_of<OutputView>(from.lists[i], "a list"));
    out.push_back(view);
  }
  return out;
}

/// Everything but inputs and lists.
Result<RunArgs> args_of(const weft_run_args& from) {
  RunArgs out;
  WEFT_CHECK(take_common(from, out));
  WEFT_TRY(out.pages, tensor_of<TensorView>(from.pages, "pages"));
  WEFT_TRY(out.offset, numbers(from.offset, from.offset_count, "weft_run_args::offset"));
  WEFT_TRY(out.cu_q, numbers(from.cu_q, from.cu_q_count, "weft_run_args::cu_q"));
  WEFT_TRY(out.cu_k, numbers(from.cu_k, from.cu_k_count, "weft_run_args::cu_k"));
  WEFT_TRY(out.kv_lengths, numbers(from.kv_lengths, from.kv_length_count, "weft_run_args::kv_lengths"));
  out.sizes_at = {.sequences = from.sequences_at,
                  .most_q = from.most_q,
                  .most_k = from.most_k,
                  .cu_q = from.cu_q_at,
                  .cu_k = from.cu_k_at,
                  .kv_lengths = from.kv_lengths_at,
                  .offset = from.offset_at};
  out.slice = {.first = from.slice_first, .of = from.slice_of};
  out.head_slice = {.first = from.head_first, .of = from.head_of};
  out.dropout_seed_at = from.dropout_seed_at;
  if (from.workspace != nullptr) {
    out.workspace = std::span(static_cast<std::byte*>(from.workspace), from.workspace_bytes);
  }
  return out;
}

}  // namespace
}  // namespace weft::c_api

using namespace weft;         // NOLINT(google-build-using-namespace): the functions below have no namespace
using namespace weft::c_api;  // NOLINT(google-build-using-namespace)

extern "C" {

const char* weft_version(void) { return version(); }

weft_error* weft_engine_create(const weft_engine_options* options, weft_engine** out) {
  return guarded(nullptr, [&]() -> Status {
    if (out == nullptr) return missing("the place for the engine");
    *out = nullptr;
    WEFT_TRY(auto made, options_of(options));
    auto engine = std::make_unique<weft_engine>(std::move(made));
    WEFT_CHECK(engine->engine.ready());
    *out = engine.release();
    return done;
  });
}

void weft_engine_destroy(weft_engine* engine) { delete engine; }

weft_error* weft_engine_take_warnings(weft_engine* engine, void (*visit)(const char* warning, void* context),
                                      void* context) {
  return guarded(nullptr, [&]() -> Status {
    if (engine == nullptr) return missing("the engine");
    if (visit == nullptr) return missing("the function to call");
    for (const auto& warning : engine->engine.take_warnings()) visit(warning.c_str(), context);
    return done;
  });
}

weft_cache_stats weft_engine_cache_stats(const weft_engine* engine) {
  weft_cache_stats out = {};
  const auto copy = [&]() -> Status {
    if (engine == nullptr) return done;
    const CacheStats stats = engine->engine.cache_stats();
    out = {.memory_hits = stats.memory_hits,
           .store_hits = stats.store_hits,
           .read_only_hits = stats.read_only_hits,
           .bundle_hits = stats.bundle_hits,
           .misses = stats.misses,
           .compiled = stats.compiled,
           .published = stats.published,
           .not_published = stats.not_published};
    return done;
  };
  weft_error_free(guarded(nullptr, copy));
  return out;
}

weft_error* weft_compile(weft_engine* engine, const char* text, size_t text_length, const weft_compile_options* options,
                         weft_kernel** out) {
  Source source;
  return guarded(&source, [&]() -> Status {
    if (out == nullptr) return missing("the place for the kernel");
    *out = nullptr;
    if (engine == nullptr) return missing("the engine");
    if (text == nullptr) return missing("the text");
    WEFT_TRY(const auto made, options_of(options));
    source = {.name = made.source_name, .text = std::string(text, text_length)};
    WEFT_TRY(auto kernel, engine->engine.compile(source.text, made));
    auto pattern = pattern_of(kernel.state().pattern, kernel.warnings(), source);
    *out = new weft_kernel{.kernel = std::move(kernel), .pattern = std::move(pattern)};
    return done;
  });
}

void weft_kernel_destroy(weft_kernel* kernel) { delete kernel; }

weft_cache_origin weft_kernel_origin(const weft_kernel* kernel) {
  if (kernel == nullptr) return WEFT_COMPILED;
  switch (kernel->kernel.origin()) {
    case CacheOrigin::memory:
      return WEFT_FROM_MEMORY;
    case CacheOrigin::disk:
      return WEFT_FROM_DISK;
    case CacheOrigin::bundle:
      return WEFT_FROM_BUNDLE;
    case CacheOrigin::miss:
      return WEFT_COMPILED;
  }
  return WEFT_COMPILED;
}

double weft_kernel_compile_ms(const weft_kernel* kernel) { return kernel == nullptr ? 0 : kernel->kernel.compile_ms(); }
double weft_kernel_load_ms(const weft_kernel* kernel) { return kernel == nullptr ? 0 : kernel->kernel.load_ms(); }
const char* weft_kernel_target(const weft_kernel* kernel) {
  return kernel == nullptr ? "" : kernel->kernel.target().c_str();
}
const char* weft_kernel_pattern_text(const weft_kernel* kernel) {
  return kernel == nullptr ? "" : kernel->kernel.pattern_text().c_str();
}
const char* weft_kernel_plan_text(const weft_kernel* kernel) {
  return kernel == nullptr ? "" : kernel->kernel.plan_text().c_str();
}
const char* weft_kernel_source_text(const weft_kernel* kernel) {
  return kernel == nullptr ? "" : kernel->kernel.source_text().c_str();
}

weft_tensor weft_dense(const void* data, weft_dtype dtype, int32_t rank, const int64_t* extents) {
  weft_tensor out = {};
  out.data = const_cast<void*>(data);
  out.dtype = dtype;
  out.rank = rank;
  if (extents == nullptr || rank < 0 || rank > kMaxRank) return out;  // refused when launched
  int64_t stride = 1;
  for (int axis = rank - 1; axis >= 0; --axis) {
    out.extent[axis] = extents[axis];
    out.stride[axis] = stride;
    if (__builtin_mul_overflow(stride, extents[axis], &stride)) stride = 0;
  }
  return out;
}

weft_error* weft_run(const weft_kernel* kernel, const weft_run_args* args) {
  return guarded(nullptr, [&]() -> Status {
    if (kernel == nullptr) return missing("the kernel");
    if (args == nullptr) return missing("weft_run_args");
    WEFT_TRY(const auto from, read_versioned(args, "weft_run_args", weft_run_args_init()));
    WEFT_TRY(auto made, args_of(from));
    WEFT_TRY(const auto inputs, named_tensors<NamedInput>(from.inputs, from.input_count, "weft_run_args::inputs"));
    WEFT_TRY(const auto d_inputs,
             named_tensors<NamedOutput>(from.d_inputs, from.d_input_count, "weft_run_args::d_inputs"));
    WEFT_TRY(const auto lists, lists_of(from));
    made.inputs = inputs;
    made.d_inputs = d_inputs;
    made.lists = lists;
    return kernel->kernel.run(made);
  });
}

weft_error* weft_kernel_workspace(const weft_kernel* kernel, weft_run_shape shape, int32_t threads, size_t* bytes) {
  return guarded(nullptr, [&]() -> Status {
    if (kernel == nullptr) return missing("the kernel");
    if (bytes == nullptr) return missing("the place for the number of bytes");
    WEFT_TRY(*bytes, kernel->kernel.workspace(shape_of(shape), threads));
    return done;
  });
}

weft_error* weft_kernel_prepare(const weft_kernel* kernel, weft_run_shape shape, double* compile_ms) {
  return guarded(nullptr, [&]() -> Status {
    if (kernel == nullptr) return missing("the kernel");
    WEFT_TRY(const auto times, kernel->kernel.prepare(shape_of(shape)));
    if (compile_ms != nullptr) *compile_ms = times.compile_ms;
    return done;
  });
}

weft_error* weft_kernel_lists(const weft_kernel* kernel, weft_run_shape shape, const int64_t* offset,
                              size_t offset_count, void (*visit)(const weft_chosen_list* list, void* context),
                              void* context) {
  return guarded(nullptr, [&]() -> Status {
    if (kernel == nullptr) return missing("the kernel");
    if (visit == nullptr) return missing("the function to call");
    WEFT_TRY(const auto offsets, numbers(offset, offset_count, "the offset"));
    WEFT_TRY(const auto lists, kernel->kernel.lists(shape_of(shape), offsets));
    for (const auto& list : lists) {
      weft_chosen_list out = {};
      out.set = list.set.c_str();
      out.block = list.block;
      std::copy(list.extent.begin(), list.extent.end(), std::begin(out.extent));
      out.first_row = list.first_row;
      visit(&out, context);
    }
    return done;
  });
}

}  // extern "C"
