#pragma once

/// One pattern over many ranks (docs/ring.md): each has its own rows of Q, K, V and O, what its queries keep of others
/// is fetched, once, and the ordinary kernel runs on its rows. Results have the bits of one device.
///
///     auto ring = weft::Ring::join(std::move(transport));                          // on every rank
///     auto plan = (*ring)->plan(kernel, {.tokens = n, .heads = 8, .kv_heads = 8}); // once a shape
///     auto status = (*plan)->run({.q = q, .k = k, .v = v, .out = o});              // the rows of (*plan)->owned(rank)
///
/// Calls of a ring are collective: every rank makes the same ones in the same order, from one thread at a time.

#include <weft/weft.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace weft {

/// How bytes get from rank to rank. Nothing here blocks, and one thread at a time calls.
class WEFT_API Transport {
 public:
  virtual ~Transport();
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  /// The CUDA device whose memory it moves, beside the host's; nothing: the host's alone.
  virtual std::optional<int> device() const { return std::nullopt; }

  /// Bytes for, or from, a peer. They stay where they are until the step is done.
  struct Part {
    int peer = 0;
    void* data = nullptr;
    std::size_t bytes = 0;
    bool on_device = false;  ///< in the memory of device(), written or free to be written when the step begins
  };
  /// Begins one step, at most one part of more than no bytes for each peer and direction. Steps ascend, and those of
  /// two ranks meet by their number; several may be under way.
  virtual Status post(std::uint64_t step, std::span<const Part> sends, std::span<const Part> receives) = 0;

  struct Progress {
    std::uint64_t done = 0;                    ///< steps that are, of those posted: the first so many
    std::vector<int> waits_for = {};           ///< peers that the others still wait for
    std::vector<std::int64_t> silent_ms = {};  ///< by rank: since it last gave a sign of life
    std::vector<std::uint64_t> begun = {};     ///< by rank: steps that it has posted, as far as is known
  };
  /// Moves things on; tells others that this rank lives. Error where a peer gave up, or the transport cannot go on.
  virtual Result<Progress> poll() = 0;

  /// Tells the others that this rank gives up.
  virtual void abandon(const std::string& why) noexcept = 0;
};

/// Ranks that are threads of this process.
WEFT_API Result<std::vector<std::unique_ptr<Transport>>> local_transports(int ranks);

/// Ranks that are processes of an MPI job, one a process, by a plug-in that is opened when this is called: WEFT_MPI
/// names it, else it is weft-mpi.so beside the program or the library. MPI is started where it is not running; it must
/// allow MPI_THREAD_SERIALIZED.
WEFT_API Result<std::unique_ptr<Transport>> mpi_transport();
/// Ends MPI where mpi_transport() started it: with all ranks, or, where `status` is not 0, by ending them with it.
WEFT_API void end_mpi(int status);

struct NcclOptions {
  int device = 0;  ///< of this rank; no two ranks have the same
  std::int64_t timeout_ms = 60'000;
};

/// Rows on GPUs go from one to the other by NCCL, which is opened when this is called: WEFT_NCCL names the library,
/// else it is libnccl.so.2, 2.14 or newer. All else, signs of life too, goes by `control`. Collective: returns when
/// NCCL has connected all ranks. Environment error (ring_start) where there is no NCCL; user error (ring_mismatch)
/// where ranks have different ones, or the same GPU.
WEFT_API Result<std::unique_ptr<Transport>> nccl_transport(std::unique_ptr<Transport> control,
                                                           const NcclOptions& options = {});

/// A way to send messages between processes, as most frameworks have one; message_transport() makes the rest of a
/// Transport of it. Nothing here blocks, and one thread at a time calls.
class WEFT_API Messenger {
 public:
  virtual ~Messenger();
  virtual int rank() const = 0;
  virtual int ranks() const = 0;

  /// Begins a message to, or from, another rank, of 1 to 2^30 bytes, which stay where they are until it is done or
  /// cancelled. Those of one sender, receiver and tag arrive in the order of sending; of several tags, in any. Tags are
  /// from 1 up to kMostTag. The request that test() and cancel() take; 0 is none.
  virtual Result<std::uint64_t> send(int peer, int tag, const void* data, std::size_t bytes) = 0;
  virtual Result<std::uint64_t> receive(int peer, int tag, void* data, std::size_t bytes) = 0;
  /// How many bytes went, or came, if the message is done: the request is then no more. Nothing: not yet. An error ends
  /// the ring.
  virtual Result<std::optional<std::size_t>> test(std::uint64_t request) = 0;
  /// Nobody waits for the message any more: when this returns, its bytes are not looked at again.
  virtual void cancel(std::uint64_t request) noexcept = 0;

  static constexpr int kMostTag = 16'385;
};

/// Signs of life, deadlines and checks of sizes over a program's own messages. Messages that are under way when it
/// goes, or when the ring has failed, are cancelled.
WEFT_API Result<std::unique_ptr<Transport>> message_transport(std::unique_ptr<Messenger> messenger);

/// Which rank owns which tokens.
enum class RingLayout : std::uint8_t { automatic, contiguous, zigzag, striped };

/// What travels: rows of K and V to the ranks whose rows keep them, or whole heads of Q, K, V and O, which change
/// places between ranks that follow one another, so that each computes more rows of fewer heads; what rows of other
/// such groups keep then travels as rows of K and V; or rows of Q that keep more than others, to the keys, and for the
/// rest `keys`. `automatic`: what is predicted faster; queries where that saves a fifth of the time, as a row's bits
/// are then those of chunks of its keys (RingSummary::bits). Only forward passes send queries.
enum class RingCarrier : std::uint8_t { automatic, keys, heads, queries };

struct RingOptions {
  RingLayout layout = RingLayout::automatic;
  RingCarrier carrier = RingCarrier::automatic;
  /// Bytes that a rank has for K and V, its own and others', and for messages; 0: as much as they take. Where it is
  /// less, all ranks go through the keys in rounds, two of which fit, and each row's state from one to the next: 8
  /// bytes for each number of O, beside. Forward passes only.
  std::size_t memory = 0;
  /// A rank that is waited for and gives no sign of life for so long is lost. One that computes for long is not.
  std::int64_t timeout_ms = 60'000;
};

/// The whole sequence: tokens are queries and keys.
struct RingShape {
  std::int64_t batch = 1, tokens = 0, heads = 1, kv_heads = 1;
};

/// Tokens first, first + stride, …
struct TokenRun {
  std::int64_t first = 0, count = 0, stride = 1;
};

/// The rows that this rank owns, in the order of RingPlan::owned, in the memory that the kernel's launches want, as are
/// inputs. A plan of a backward pass reads O and the LSE that
/// the forward's run left, and gives the gradients of sum(dO * O) + sum(dLSE * LSE), as RunArgs say.
struct RingArgs {
  TensorView q = {}, k = {}, v = {};        ///< [B, own rows, H or H_kv, d]; k and v without data: see RingPlan::own_k
  OutputView out = {};                      ///< [B, own rows, H, d_v]
  OutputView lse = {};                      ///< [B, H, own rows]; no data: not wanted
  TensorView d_out = {};                    ///< as out
  TensorView d_lse = {};                    ///< as lse, or branch_lse; no data: 0
  OutputView dq = {}, dk = {}, dv = {};     ///< as q, k and v; no data: not wanted
  std::span<const NamedInput> inputs = {};  ///< whole, and the same on every rank
  std::uint64_t dropout_seed = 0;
  int threads = 0;
  /// [branches, B, H, own rows]: of `combine sum` and `mean`, where the kernel was compiled with branch_lse; no data:
  /// not wanted.
  OutputView branch_lse = {};
  /// Gradients of f32 inputs, whole, written on every rank; every rank asks for the same. Each rank adds up those of
  /// its rows, and the ranks' sums are added in their order: to one device's it is the rounding of f32, and bits depend
  /// on how the ring splits tokens.
  std::span<const NamedOutput> d_inputs = {};
  void* stream = nullptr;  ///< GPUs: the CUstream that all of it goes by; when run() returns O is written
};

/// What one rank has to do, and did in its last run.
struct RingShare {
  std::int64_t tokens = 0, messages = 0;
  /// Kept, over batch and heads; of a backward pass the mean of those of its rows and those of its keys.
  double pairs = 0;
  std::size_t needed_bytes = 0, received_bytes = 0, sent_bytes = 0;
  double wait_ms = 0;  ///< for keys of others
};

struct RingSummary {
  int ranks = 1;
  std::string layout;  ///< `contiguous`, `snake(group 8, rounds 2)`
  /// `local`: no byte travels; `keys`: rows of K and V do; `heads`, `heads, keys`, `queries`, `queries, keys`
  std::string carrier;
  /// What a row's bits go by: `one device`, whose they are, or `chunks of 4096 keys`: those of every ring that cuts the
  /// keys so, and to one device the rounding of f32.
  std::string bits;
  double imbalance = 1;  ///< the largest rank's pairs by the mean
  std::vector<std::string> reasons = {};
};

/// A kernel, of either pass, at one size, on one rank of a ring, with the memory it needs. It outlives neither its ring
/// nor its engine.
class WEFT_API RingPlan {
 public:
  ~RingPlan();
  /// Tokens of a rank, in the order of its rows; empty where there are more ranks than tokens.
  const std::vector<TokenRun>& owned(int rank) const;
  const RingSummary& summary() const;
  const RingShare& share() const;  ///< of this rank
  /// Where K and V of this rank's rows may be written instead of being copied, where it owns one run of tokens and
  /// computes it, and keys do not come in rounds; else without data.
  OutputView own_k() const, own_v() const;

  /// Brings rows of all ranks together on rank 0. Collective. `axis`: which of the rows' axes counts them, 1 of Q and
  /// O, 2 of LSE, of one branch where there are several. `whole`, which may be in host memory, is looked at by rank 0
  /// alone.
  Status gather(const TensorView& rows, int axis, const OutputView& whole) const;
  /// What each rank has to do and did in its last run; empty but on rank 0. Collective.
  Result<std::vector<RingShare>> shares() const;

  /// Computes the rows of this rank. Collective. After an error O is undefined, Q, K and V are as they were, and every
  /// further call of this ring returns the error.
  Status run(const RingArgs& args);

  struct State;
  explicit RingPlan(std::unique_ptr<State> state);

 private:
  std::unique_ptr<State> state_;
};

class WEFT_API Ring {
 public:
  /// Collective. User error (code ring_mismatch) that names the ranks which disagree in version, number of ranks or
  /// options; environment error (ring_lost) where one does not come.
  static Result<std::unique_ptr<Ring>> join(std::unique_ptr<Transport> transport, const RingOptions& options = {});
  ~Ring();

  int rank() const, ranks() const;

  /// Collective. Who owns what, what travels, and room for it. `inputs` are those of the launches. User error where the
  /// ranks' patterns, sizes, targets or inputs differ, or where the pattern cannot be split. A kernel compiled with
  /// CompileOptions::gradient has the owners that its forward has.
  Result<std::unique_ptr<RingPlan>> plan(const Kernel& kernel, const RingShape& shape,
                                         std::span<const NamedInput> inputs = {});

  /// Returns when every rank has called it.
  Status barrier();

  struct State;
  explicit Ring(std::shared_ptr<State> state);

 private:
  std::shared_ptr<State> state_;
};

}  // namespace weft
