#ifndef WEFT_C_H
#define WEFT_C_H

/**
 * The C face of Weft: what weft/weft.h has, as opaque handles and plain structs. Patterns: docs/language.md.
 *
 *     weft_engine* engine = NULL;
 *     weft_kernel* kernel = NULL;
 *     weft_compile_options options = weft_compile_options_init();
 *     options.pattern = "longnet";
 *     weft_error* error = weft_engine_create(NULL, &engine);
 *     if (!error) error = weft_compile(engine, text, strlen(text), &options, &kernel);
 *     if (!error) error = weft_run(kernel, &args);
 *     if (error) fputs(weft_error_report(error), stderr);
 *
 * Functions that can fail return NULL or an error, which the caller frees. No exception leaves them, whatever is
 * passed: null handles and structs of other versions are errors too. Handles may be used by many threads at once;
 * they are destroyed once, and kernels may outlive their engine. Strings are UTF-8 and end with a zero; those that are
 * returned live as long as what they were asked of. Structs begin with their size as the caller knows it, which the
 * _init functions set: a newer library reads an older caller's struct, with defaults for what it lacks; fields behind
 * the library's own are an error unless they are zero.
 */

#include <weft/api.h>

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Enums are ints in C++, too: what a caller of another version writes into a struct is an error, not undefined. */
#ifdef __cplusplus
#define WEFT_INT : int
#else
#define WEFT_INT
#endif

typedef struct weft_engine weft_engine;
typedef struct weft_kernel weft_kernel;
typedef struct weft_error weft_error;

/** `0.1.0` */
WEFT_API const char* weft_version(void);

/* ---- errors ---- */

/** Who can mend it: the caller's input, the machine, or Weft itself. */
typedef enum WEFT_INT { WEFT_ERROR_USER = 1, WEFT_ERROR_ENVIRONMENT = 3, WEFT_ERROR_INTERNAL = 4 } weft_error_kind;

/** One thing wrong with a pattern's text. */
typedef struct {
  const char* code;      /**< `E0103` */
  const char* message;   /**< one sentence */
  uint32_t begin, end;   /**< bytes of the text */
  uint32_t line, column; /**< of `begin`, from 1; columns count code points */
} weft_diagnostic;

WEFT_API weft_error_kind weft_error_kind_of(const weft_error* error);
/** One sentence. */
WEFT_API const char* weft_error_message(const weft_error* error);
/** Everything, as a terminal shows it: lines of the text underlined, notes, what to do. */
WEFT_API const char* weft_error_report(const weft_error* error);
WEFT_API size_t weft_error_diagnostic_count(const weft_error* error);
/** Zeros for a number that is not there. */
WEFT_API weft_diagnostic weft_error_diagnostic(const weft_error* error, size_t number);
/** NULL is allowed. */
WEFT_API void weft_error_free(weft_error* error);

/* ---- the engine: kernel store, compilers and threads; open once ---- */

/** A bundle in the program's own memory, as `weft bundle export` links it in. It outlives the engine. */
typedef struct {
  const void* data;
  size_t size;
  const char* name; /**< for messages; NULL: `<linked bundle>` */
} weft_bundle_image;

typedef struct {
  size_t size;
  const char* cache_dir;      /**< kernel store; NULL: WEFT_CACHE_DIR, $XDG_CACHE_HOME/weft, ~/.cache/weft */
  int32_t no_cache;           /**< 1: keep kernels in memory only */
  int32_t no_compile;         /**< 1: a kernel that is in no store and no bundle is an error */
  const char* llvm;           /**< libLLVM.so; NULL: WEFT_LLVM, else the newest installed */
  const char* nvrtc;          /**< libnvrtc.so, or a folder; NULL: WEFT_NVRTC, else the newest that knows the target */
  const char* const* bundles; /**< paths, asked in order after the store */
  size_t bundle_count;
  const weft_bundle_image* linked_bundles; /**< asked after them */
  size_t linked_bundle_count;
  const char* bundle_key; /**< Ed25519 public key (PEM or hexadecimal): bundles that it did not sign are not used */
  const char* record;     /**< a file to add the kernels that were asked for to */
  int32_t threads;        /**< of a launch, at most 4096; 0: one per core this process may use */
  int64_t deadline_ms, memory_bytes;   /**< of one CUDA compilation; 0: no limit */
  uint64_t cache_bytes;                /**< the store may take so many; 0: 2 GiB */
  const char* const* read_only_caches; /**< further stores, asked after one's own and never changed */
  size_t read_only_cache_count;
  int64_t wait_ms; /**< how long to wait for another process that compiles the same kernel; 0: 30 s */
  /** Told what takes long while it does, a sentence, by whichever thread waits; must not throw. NULL: nobody. */
  void (*notice)(const char* sentence, void* context);
  void* notice_context;
  size_t most_kernels; /**< that stay in the engine's memory: see weft::EngineOptions; 0: as many as are asked for */
} weft_engine_options;
/** All defaults, of the version that the caller was compiled with. */
static inline weft_engine_options weft_engine_options_init(void) {
  weft_engine_options made;
  memset(&made, 0, sizeof made);
  made.size = sizeof made;
  return made;
}

/** `options` may be NULL: all defaults. */
WEFT_API weft_error* weft_engine_create(const weft_engine_options* options, weft_engine** out);
/** NULL is allowed. */
WEFT_API void weft_engine_destroy(weft_engine* engine);
/**
 * What went wrong with store and bundles without stopping anything, each once: calls `visit` for every sentence. It
 * must not throw.
 */
WEFT_API weft_error* weft_engine_take_warnings(weft_engine* engine, void (*visit)(const char* warning, void* context),
                                               void* context);

/** What came of an engine's lookups so far. */
typedef struct {
  uint64_t memory_hits, store_hits, read_only_hits, bundle_hits;
  uint64_t misses; /**< found nowhere: compiled, or refused */
  uint64_t compiled, published, not_published;
} weft_cache_stats;
WEFT_API weft_cache_stats weft_engine_cache_stats(const weft_engine* engine);

/* ---- compiling ---- */

typedef enum WEFT_INT {
  WEFT_DTYPE_OPEN = 0, /**< not said */
  WEFT_F32 = 1,
  WEFT_F16 = 2,
  WEFT_BF16 = 3,
  WEFT_F64 = 4,
  WEFT_I32 = 5,
  WEFT_U8 = 6
} weft_dtype;

/** The sizes of a launch without its tensors. */
typedef struct {
  int64_t batch, n_q, n_k, heads, kv_heads;
  int64_t slice_first, slice_of; /**< as in weft_run_args; n_q counts the slice's own rows */
  int64_t head_first, head_of;   /**< likewise; heads and kv_heads count the slice's own heads */
  int32_t sizes_at;              /**< not 0: sizes will stand in the GPU's memory, with these the most */
} weft_run_shape;

typedef struct {
  size_t size;
  const char* pattern;       /**< name in the text; may be NULL where there is one only */
  const char* const* params; /**< `name=value`, values in the language's spelling */
  size_t param_count;
  int64_t heads, kv_heads, dim, dim_v; /**< what the text leaves open; 0: not said */
  weft_dtype dtype;
  int32_t branch_lse;          /**< 1: weft_run_args::branch_lse may be asked for */
  int32_t paged;               /**< 1: K and V come in pages */
  const char* target;          /**< `cpu`, `cuda`, `sm_61`, …; NULL: `cpu` */
  const char* source_name;     /**< what messages call the text; NULL: `<pattern>` */
  int32_t gradient;            /**< 1: the backward pass in place of the forward: see weft::CompileOptions */
  const weft_run_shape* shape; /**< of the launches to come; NULL: not known: see weft::CompileOptions */
} weft_compile_options;
/** All defaults, of the version that the caller was compiled with. */
static inline weft_compile_options weft_compile_options_init(void) {
  weft_compile_options made;
  memset(&made, 0, sizeof made);
  made.size = sizeof made;
  return made;
}

/** A kernel for one pattern of `text`: from memory, else from the store, else from a bundle, else compiled. */
WEFT_API weft_error* weft_compile(weft_engine* engine, const char* text, size_t text_length,
                                  const weft_compile_options* options, weft_kernel** out);
/** NULL is allowed. */
WEFT_API void weft_kernel_destroy(weft_kernel* kernel);

typedef enum WEFT_INT {
  WEFT_FROM_MEMORY = 0,
  WEFT_FROM_DISK = 1,
  WEFT_FROM_BUNDLE = 2,
  WEFT_COMPILED = 3
} weft_cache_origin;
WEFT_API weft_cache_origin weft_kernel_origin(const weft_kernel* kernel);
WEFT_API double weft_kernel_compile_ms(const weft_kernel* kernel);
WEFT_API double weft_kernel_load_ms(const weft_kernel* kernel);
WEFT_API const char* weft_kernel_target(const weft_kernel* kernel);       /**< resolved: `cpu:x86-64-v4` */
WEFT_API const char* weft_kernel_pattern_text(const weft_kernel* kernel); /**< every default written out */
WEFT_API const char* weft_kernel_plan_text(const weft_kernel* kernel);
WEFT_API const char* weft_kernel_source_text(const weft_kernel* kernel); /**< LLVM IR or CUDA C++ */

/* ---- patterns: a text that was read, without compiling anything ---- */

typedef struct weft_pattern weft_pattern;

/** One pattern of `text`, or an error that tells all that is wrong with it. Of the options, target and gradient are
 * not looked at, and dims and dtype may be left open. */
WEFT_API weft_error* weft_check(const char* text, size_t text_length, const weft_compile_options* options,
                                weft_pattern** out);
/** NULL is allowed. Not for those of kernels. */
WEFT_API void weft_pattern_free(weft_pattern* pattern);
/** What a kernel was compiled from; it lives as long as the kernel. */
WEFT_API const weft_pattern* weft_kernel_pattern(const weft_kernel* kernel);

WEFT_API const char* weft_pattern_name(const weft_pattern* pattern);
WEFT_API const char* weft_pattern_text(const weft_pattern* pattern); /**< every default written out */

/** What LSE the rows of O have: the backward pass reads it. */
typedef enum WEFT_INT {
  WEFT_LSE_NONE = 0,       /**< `weights sigmoid` */
  WEFT_LSE_OF_ROWS = 1,    /**< weft_run_args::lse */
  WEFT_LSE_OF_BRANCHES = 2 /**< `combine sum` and `mean`: weft_run_args::branch_lse alone */
} weft_lse_kind;
WEFT_API weft_lse_kind weft_pattern_lse(const weft_pattern* pattern);
WEFT_API int64_t weft_pattern_branch_count(const weft_pattern* pattern);

/** An `input` of the pattern. */
typedef struct {
  const char* name;
  weft_dtype dtype;
  int32_t rank;
} weft_input_info;
WEFT_API size_t weft_pattern_input_count(const weft_pattern* pattern);
/** Zeros for a number that is not there. */
WEFT_API weft_input_info weft_pattern_input(const weft_pattern* pattern, size_t number);

/** What is allowed and seldom meant, such as rows without keys. */
WEFT_API size_t weft_pattern_warning_count(const weft_pattern* pattern);
/** Zeros for a number that is not there. */
WEFT_API weft_diagnostic weft_pattern_warning(const weft_pattern* pattern, size_t number);
/** All warnings as a terminal shows them; empty where there are none. */
WEFT_API const char* weft_pattern_warnings_report(const weft_pattern* pattern);

/** The number-th text of the library of patterns that Weft brings (docs: examples/README.md); NULL behind the last. */
WEFT_API const char* weft_library_text(size_t number);

/* ---- running ---- */

/** The caller's memory. Extents and strides count elements; the last stride of q, k, v and out is 1. */
typedef struct {
  void* data; /**< of inputs it is only read */
  weft_dtype dtype;
  int32_t rank; /**< at most 4 */
  int64_t extent[4];
  int64_t stride[4];
} weft_tensor;

/** A dense row-major tensor; `extents` has `rank` numbers. */
WEFT_API weft_tensor weft_dense(const void* data, weft_dtype dtype, int32_t rank, const int64_t* extents);

typedef struct {
  const char* name;
  weft_tensor tensor;
} weft_named_tensor;

typedef struct {
  size_t size;
  weft_tensor q;                   /**< [B, n_q, H, d] */
  weft_tensor k;                   /**< [B, n_k, H_kv, d] */
  weft_tensor v;                   /**< [B, n_k, H_kv, d_v] */
  weft_tensor out;                 /**< [B, n_q, H, d_v], dtype of q */
  weft_tensor lse;                 /**< [B, H, n_q] f32; no data: not wanted */
  weft_tensor branch_lse;          /**< [branches, B, H, n_q] f32; no data: not wanted */
  const weft_named_tensor* inputs; /**< every `input` of the pattern, in any order */
  size_t input_count;
  const int64_t* offset; /**< position of row 0: one, or one per batch entry; none: n_k - n_q */
  size_t offset_count;
  const int64_t* cu_q; /**< packed sequences: see weft::RunArgs */
  size_t cu_q_count;
  const int64_t* cu_k;
  size_t cu_k_count;
  weft_tensor pages; /**< K and V in pages: see weft::RunArgs */
  const int64_t* kv_lengths;
  size_t kv_length_count;
  const weft_tensor*
      lists; /**< what `random` and `top` chose, one tensor for each of weft_kernel_lists; none: unwanted */
  size_t list_count;
  uint64_t dropout_seed;
  void* workspace; /**< at least weft_kernel_workspace bytes; NULL: the engine's own pool */
  size_t workspace_bytes;
  int32_t threads; /**< 0: as the engine says */
  void* stream;    /**< GPUs: the CUstream to queue on; NULL: the default stream */
  /** q, out and LSE are rows slice_first, … of a sequence of slice_of rows: see weft::RowSlice; 0: they are all rows */
  int64_t slice_first, slice_of;
  /** Kernels compiled with weft_compile_options::gradient read out and lse, or branch_lse: see weft::RunArgs */
  weft_tensor d_out;                 /**< as out; needed */
  weft_tensor d_lse;                 /**< as lse, with `sum` and `mean` as branch_lse; no data: 0 */
  weft_tensor dq, dk, dv;            /**< as q, k and v; no data: not wanted */
  const weft_named_tensor* d_inputs; /**< gradients of f32 inputs, in any order */
  size_t d_input_count;
  const uint64_t*
      dropout_seed_at; /**< where kernels read the seed when they run, in the memory of q; NULL: dropout_seed */
  /** q, out and LSE are heads head_first, … of head_of heads: see weft::HeadSlice; 0: they are all heads */
  int64_t head_first, head_of;
  /**
   * Sizes that kernels read when they run, in the memory of q, in place of cu_q, cu_k, kv_lengths and offset: see
   * weft::SizesAt. sequences_at: how many sequences, 0: none of this
   */
  int64_t sequences_at, most_q, most_k;
  const int32_t *cu_q_at, *cu_k_at; /**< [sequences_at + 1] */
  const int32_t* kv_lengths_at;     /**< [sequences_at] */
  const int64_t* offset_at;         /**< [sequences_at]; NULL: n_k - n_q of each */
} weft_run_args;
/** All defaults, of the version that the caller was compiled with. */
static inline weft_run_args weft_run_args_init(void) {
  weft_run_args made;
  memset(&made, 0, sizeof made);
  made.size = sizeof made;
  return made;
}

/**
 * Computes O (and LSE), or gradients. Returns when they are written, on a GPU when the work is queued. User errors,
 * before anything is written, name the tensor, the dimension, what was found and what was expected.
 */
WEFT_API weft_error* weft_run(const weft_kernel* kernel, const weft_run_args* args);

/** Bytes of scratch a launch of this shape uses; `threads` 0: as the engine says. */
WEFT_API weft_error* weft_kernel_workspace(const weft_kernel* kernel, weft_run_shape shape, int32_t threads,
                                           size_t* bytes);

/**
 * Makes now what the first launch of such a shape would make: see weft::Kernel::prepare. `compile_ms`: what compiling
 * took of that, 0 where nothing was compiled; NULL is allowed.
 */
WEFT_API weft_error* weft_kernel_prepare(const weft_kernel* kernel, weft_run_shape shape, double* compile_ms);

/** One list of key blocks that a kernel makes before the attention, for a `random` or `top` of its pattern. */
typedef struct {
  const char* set;   /**< as the language has it */
  int64_t block;     /**< tokens of a block, of rows and of keys */
  int64_t extent[4]; /**< [batch entries, heads, blocks of rows, places], i32 */
  int64_t first_row; /**< number of the block of rows that stands first */
} weft_chosen_list;
/** Stands behind the numbers of a row that has fewer than there are places. */
#define WEFT_UNUSED_PLACE INT32_MAX

/**
 * The lists that a launch of this shape makes: calls `visit` for each. `offset` as in weft_run_args. `visit` must not
 * throw.
 */
WEFT_API weft_error* weft_kernel_lists(const weft_kernel* kernel, weft_run_shape shape, const int64_t* offset,
                                       size_t offset_count, void (*visit)(const weft_chosen_list* list, void* context),
                                       void* context);

/* ---- pictures: which pairs a text keeps, without compiling anything ---- */

typedef struct weft_picture weft_picture;

typedef struct {
  size_t size;
  int64_t n_q, n_k;                /**< queries and keys; 0: as many as show the pattern, and as many keys as queries */
  int64_t head;                    /**< of those of weft_compile_options, or of the text, else of 8 */
  int64_t cells;                   /**< of the picture in each direction, at most; 0: 64 */
  const weft_named_tensor* inputs; /**< on the host, of one batch entry; those that are missing are made up */
  size_t input_count;
} weft_draw_options;
/** All defaults, of the version that the caller was compiled with. */
static inline weft_draw_options weft_draw_options_init(void) {
  weft_draw_options made;
  memset(&made, 0, sizeof made);
  made.size = sizeof made;
  return made;
}

/** Of the options of compiling those that weft_check looks at. `draw` may be NULL: all defaults. */
WEFT_API weft_error* weft_draw(const char* text, size_t text_length, const weft_compile_options* options,
                               const weft_draw_options* draw, weft_picture** out);
/** NULL is allowed. */
WEFT_API void weft_picture_free(weft_picture* picture);

/** Lines of shades, two rows of cells in each. */
WEFT_API const char* weft_picture_text(const weft_picture* picture);
WEFT_API const char* weft_picture_svg(const weft_picture* picture);

/** The cells, row by row: queries down, keys across. They live as long as the picture. */
typedef struct {
  int64_t n_q, n_k, head;
  int64_t rows, columns;
  int32_t sampled;           /**< 1: estimated from some of each cell's pairs */
  const float* density;      /**< share of a cell's pairs that are kept */
  const float* multiplicity; /**< of those, by how many branches each is kept, in the mean */
  const uint8_t* colors;     /**< as the SVG has them: red, green and blue of each cell */
} weft_picture_cells;
/** Zeros for NULL. */
WEFT_API weft_picture_cells weft_picture_cells_of(const weft_picture* picture);

/* ---- explanations: what a kernel will do at given sizes, and why, as `weft explain` says it ---- */

typedef struct weft_explanation weft_explanation;

typedef struct {
  size_t size;
  int64_t batch;       /**< 0: 1 */
  int64_t n_q, n_k;    /**< 0: what the text demands, else 4096; as many keys as queries */
  int32_t heads_first; /**< 1: tensors are [B, H, n, d], not [B, n, H, d]: it costs a CPU other time */
  int64_t ranks;       /**< of a ring; 0: none */
  const char* layout;  /**< of that ring: `auto`, `contiguous`, `zigzag`, `striped`; NULL: as the text says */
  const weft_named_tensor* inputs; /**< on the host; every `input` of the pattern, or none: then pairs that depend on
                                        them are not counted */
  size_t input_count;
  const char* carrier; /**< of that ring: `auto`, `keys`, `heads`, `queries`; NULL: auto */
  size_t ring_memory;  /**< bytes that each of its ranks has for K, V and messages; 0: what they take */
} weft_explain_options;
/** All defaults, of the version that the caller was compiled with. */
static inline weft_explain_options weft_explain_options_init(void) {
  weft_explain_options made;
  memset(&made, 0, sizeof made);
  made.size = sizeof made;
  return made;
}

/** Nothing runs, but a kernel for a GPU is compiled or taken from the store, for its machine code to be read; this
   needs no GPU. What compile options leave open is 8 heads, dim 64, f32. On CPUs the peak of this one is measured: 0.1
   s. What is missing on the machine is a warning of the engine. `explain` may be NULL: all defaults. */
WEFT_API weft_error* weft_explain(weft_engine* engine, const char* text, size_t text_length,
                                  const weft_compile_options* options, const weft_explain_options* explain,
                                  weft_explanation** out);
/** Compilers, drivers, GPUs, the store: what is there for an engine with these options, which may be NULL, and how to
   get what is not, as `weft doctor` says it. */
WEFT_API weft_error* weft_doctor(const weft_engine_options* options, weft_explanation** out);
/** NULL is allowed. */
WEFT_API void weft_explanation_free(weft_explanation* explanation);

WEFT_API const char* weft_explanation_text(const weft_explanation* explanation); /**< lines for people */
WEFT_API const char* weft_explanation_json(
    const weft_explanation* explanation); /**< one object; keys: docs/command.md */

#ifdef __cplusplus
}
#endif

#endif
