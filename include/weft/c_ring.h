#ifndef WEFT_C_RING_H
#define WEFT_C_RING_H

/**
 * The C face of weft/ring.h: one pattern over many ranks, each with its own rows of Q, K, V and O.
 *
 *     weft_transport* transport = NULL;
 *     weft_ring* ring = NULL;
 *     weft_ring_plan* plan = NULL;
 *     weft_error* error = weft_mpi_transport(&transport);
 *     if (!error) error = weft_ring_join(transport, NULL, &ring);
 *     if (!error) error = weft_ring_plan_create(ring, kernel, shape, NULL, 0, &plan);
 *     if (!error) error = weft_ring_run(plan, &args);
 *
 * Every rank makes the same calls of a ring in the same order, from one thread at a time. Plans are destroyed before
 * their rings.
 */

#include <weft/c.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_transport weft_transport;
typedef struct weft_ring weft_ring;
typedef struct weft_ring_plan weft_ring_plan;

/** What of a ring went wrong, beside weft_error_kind_of. */
typedef enum WEFT_INT {
  WEFT_ERROR_OTHER = 0,
  WEFT_ERROR_RING_MISMATCH = 1, /**< ranks disagree */
  WEFT_ERROR_RING_LOST = 2,     /**< a rank stopped, left or gave up */
  WEFT_ERROR_RING_START = 3,    /**< they never came together */
  WEFT_ERROR_RING_TRANSPORT = 4 /**< bytes did not arrive as they should */
} weft_error_code;
WEFT_API weft_error_code weft_error_code_of(const weft_error* error);

/** Ranks that are threads of this process: fills in `ranks` transports. */
WEFT_API weft_error* weft_local_transports(int32_t ranks, weft_transport** out);
/** A rank that is a process of an MPI job: see weft::mpi_transport. */
WEFT_API weft_error* weft_mpi_transport(weft_transport** out);
typedef struct {
  size_t size;
  int32_t device;     /**< of this rank; no two ranks have the same */
  int64_t timeout_ms; /**< default 60,000 */
} weft_nccl_options;
static inline weft_nccl_options weft_nccl_options_init(void) {
  weft_nccl_options made;
  memset(&made, 0, sizeof made);
  made.size = sizeof made;
  made.timeout_ms = 60000;
  return made;
}
/** Rows on GPUs go by NCCL, all else by `control`, which is the ring's from now on, also after an error: see
 * weft::nccl_transport. `options`: NULL for the defaults. */
WEFT_API weft_error* weft_nccl_transport(weft_transport* control, const weft_nccl_options* options,
                                         weft_transport** out);
/** See weft::end_mpi. */
WEFT_API void weft_end_mpi(int32_t status);

/**
 * How a program sends messages its own way: see weft::Messenger. The functions do not block, and one thread at a time
 * calls them. They return NULL, or what is wrong, a text that lives until the next call. `context` is handed to each.
 */
typedef struct {
  size_t size;
  void* context;
  int32_t rank, ranks;
  /** Begin a message of `bytes` bytes to, or from, `peer`; `*request`, not 0, names it until it is done or cancelled.
   */
  const char* (*send)(void* context, int32_t peer, int32_t tag, const void* data, size_t bytes, uint64_t* request);
  const char* (*receive)(void* context, int32_t peer, int32_t tag, void* data, size_t bytes, uint64_t* request);
  /** Is it done? `*bytes`: how many went or came. */
  const char* (*test)(void* context, uint64_t request, int32_t* is_done, size_t* bytes);
  /** When it returns, the message's bytes are not looked at again. */
  void (*cancel)(void* context, uint64_t request);
  void (*end)(void* context); /**< no further call comes; may be NULL */
} weft_messenger;
static inline weft_messenger weft_messenger_init(void) {
  weft_messenger made;
  memset(&made, 0, sizeof made);
  made.size = sizeof made;
  return made;
}
/** See weft::message_transport. Where it fails, `end` is not called. */
WEFT_API weft_error* weft_message_transport(const weft_messenger* messenger, weft_transport** out);

WEFT_API int32_t weft_transport_rank(const weft_transport* transport);
WEFT_API int32_t weft_transport_ranks(const weft_transport* transport);
/** NULL is allowed. Not for one that weft_ring_join was given. */
WEFT_API void weft_transport_free(weft_transport* transport);

typedef enum WEFT_INT {
  WEFT_RING_AUTO = 0,
  WEFT_RING_CONTIGUOUS = 1,
  WEFT_RING_ZIGZAG = 2,
  WEFT_RING_STRIPED = 3
} weft_ring_layout;

/** What travels: see weft::RingCarrier. */
typedef enum WEFT_INT {
  WEFT_RING_BY_AUTO = 0,
  WEFT_RING_BY_KEYS = 1,
  WEFT_RING_BY_HEADS = 2,
  WEFT_RING_BY_QUERIES = 3
} weft_ring_carrier;

typedef struct {
  size_t size;
  weft_ring_layout layout;
  int64_t timeout_ms; /**< without a sign of life, after which a rank that is waited for is lost; 0: 60 s */
  weft_ring_carrier carrier;
  size_t memory; /**< bytes that a rank has for K, V and messages; 0: what they take. See weft::RingOptions */
} weft_ring_options;
/** All defaults, of the version that the caller was compiled with. */
static inline weft_ring_options weft_ring_options_init(void) {
  weft_ring_options made;
  memset(&made, 0, sizeof made);
  made.size = sizeof made;
  return made;
}

/** Takes the transport, whatever comes of it. `options` may be NULL: all defaults. */
WEFT_API weft_error* weft_ring_join(weft_transport* transport, const weft_ring_options* options, weft_ring** out);
/** NULL is allowed. */
WEFT_API void weft_ring_destroy(weft_ring* ring);
/** Returns when every rank has called it. */
WEFT_API weft_error* weft_ring_barrier(weft_ring* ring);

/** The whole sequence: tokens are queries and keys. */
typedef struct {
  int64_t batch, tokens, heads, kv_heads;
} weft_ring_shape;

/** Who owns what, what travels, and room for it; `inputs` are those of the launches, whole on every rank. */
WEFT_API weft_error* weft_ring_plan_create(weft_ring* ring, const weft_kernel* kernel, weft_ring_shape shape,
                                           const weft_named_tensor* inputs, size_t input_count, weft_ring_plan** out);
/** NULL is allowed. */
WEFT_API void weft_ring_plan_destroy(weft_ring_plan* plan);

/** Tokens first, first + stride, … */
typedef struct {
  int64_t first, count, stride;
} weft_token_run;
/** The runs of tokens that a rank owns, in the order of its rows. */
WEFT_API size_t weft_ring_plan_run_count(const weft_ring_plan* plan, int32_t rank);
/** Zeros for a rank or number that is not there. */
WEFT_API weft_token_run weft_ring_plan_run(const weft_ring_plan* plan, int32_t rank, size_t number);
/** `contiguous`, `snake(group 8, rounds 2)`, … */
WEFT_API const char* weft_ring_plan_layout(const weft_ring_plan* plan);
/** `local`, `keys`, `heads`, … */
WEFT_API const char* weft_ring_plan_carrier(const weft_ring_plan* plan);
/** What a row's bits go by: `one device`, or `chunks of 4096 keys`. */
WEFT_API const char* weft_ring_plan_bits(const weft_ring_plan* plan);

/** What this rank has to do, and did in its last run. */
typedef struct {
  int64_t tokens, messages;
  double pairs;
  uint64_t needed_bytes, received_bytes, sent_bytes;
  double wait_ms;
} weft_ring_share;
WEFT_API weft_ring_share weft_ring_plan_share(const weft_ring_plan* plan);

typedef struct {
  size_t size;
  weft_tensor q, k, v;             /**< [B, own rows, H or H_kv, d] */
  weft_tensor out;                 /**< [B, own rows, H, d_v] */
  weft_tensor lse;                 /**< [B, H, own rows] f32; no data: not wanted */
  const weft_named_tensor* inputs; /**< whole, and the same on every rank */
  size_t input_count;
  uint64_t dropout_seed;
  int32_t threads; /**< 0: as the engine says */
  /* Of kernels compiled with weft_compile_options::gradient: see weft::RingArgs. */
  weft_tensor d_out, d_lse;
  weft_tensor dq, dk, dv;            /**< no data: not wanted */
  weft_tensor branch_lse;            /**< [branches, B, H, own rows] f32: see weft::RingArgs; no data: not wanted */
  const weft_named_tensor* d_inputs; /**< whole, on every rank: see weft::RingArgs */
  size_t d_input_count;
  void* stream; /**< GPUs: the CUstream that all of it goes by; when weft_ring_run returns O is written */
} weft_ring_args;
/** All defaults, of the version that the caller was compiled with. */
static inline weft_ring_args weft_ring_args_init(void) {
  weft_ring_args made;
  memset(&made, 0, sizeof made);
  made.size = sizeof made;
  return made;
}

/** Computes the rows of this rank. After an error O is undefined, and further calls of the ring return it. */
WEFT_API weft_error* weft_ring_run(weft_ring_plan* plan, const weft_ring_args* args);
/** Brings rows together on rank 0, in `whole`, which the others may leave empty: see weft::RingPlan::gather. */
WEFT_API weft_error* weft_ring_gather(weft_ring_plan* plan, weft_tensor rows, int32_t axis, weft_tensor whole);

#ifdef __cplusplus
}
#endif

#endif
