#pragma once

/// Compiles attention patterns, written as text (docs/language.md; its meaning: docs/semantics.md), into kernels.
///
///     weft::Engine engine;
///     auto kernel = engine.compile(text, {.pattern = "longnet", .dim = 64});
///     if (!kernel) std::cerr << weft::report(kernel.error(), {.name = "longnet.weft", .text = text});
///     auto status = kernel->run({.q = q, .k = k, .v = v, .out = o});
///
/// Nothing here throws, raises a signal or ends the process: what can fail returns a Result, out of memory included.
/// (The compilers are others' libraries, which may end a process that has no memory left for them.) What else returns
/// text returns none where memory is out. No header of another library is needed.

#include <weft/result.h>
#include <weft/tensor.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

/// A bundle of kernels in the program's own memory, as `weft bundle export` links it in. It outlives the engine.
struct BundleImage {
  const void* data = nullptr;
  std::size_t size = 0;
  std::string name = "<linked bundle>";  ///< for messages
};

/// Threads that one launch may ask for.
inline constexpr int kMostThreads = 4096;

struct EngineOptions {
  std::string cache_dir = {};  ///< kernel store; empty: WEFT_CACHE_DIR, $XDG_CACHE_HOME/weft, ~/.cache/weft
  bool no_cache = false;       ///< keep one's own kernels in memory only
  bool no_compile = false;     ///< a kernel that is in no store is an error
  /// Bytes the kernel store may take; the least recently used go first.
  std::uint64_t cache_bytes = std::uint64_t{2} << 30;
  /// Further stores, asked in this order after one's own. Nothing in them is ever changed.
  std::vector<std::string> read_only_caches = {};
  /// How long to wait for another process that compiles the same kernel, before compiling it here, too.
  std::int64_t wait_ms = 30'000;
  /// Told what takes long while it does: a sentence, by whichever thread waits.
  std::function<void(const std::string&)> notice = {};
  std::string llvm = {};   ///< libLLVM.so; empty: WEFT_LLVM, else the newest installed
  std::string nvrtc = {};  ///< libnvrtc.so, or a folder; empty: WEFT_NVRTC, else the newest that knows the target
  /// Files of kernels compiled ahead of time (`weft bundle build`), asked in order after the store. They need no
  /// compiler, no GPU to be made, and no writable disk. One that cannot be used is a warning: see take_warnings().
  std::vector<std::string> bundles = {};
  std::vector<BundleImage> linked_bundles = {};  ///< asked after them
  /// An Ed25519 public key, as PEM text or 64 hexadecimal digits. Where it is given, bundles that it did not sign are
  /// not used.
  std::string bundle_key = {};
  /// A file to add the kernels that were asked for to, a line each, for `weft bundle build --from-record`.
  std::string record = {};
  int threads = 0;  ///< threads of a launch, up to kMostThreads; 0: one per core this process may use
  /// Kernels that the engine keeps in memory, half a megabyte each: the one that was not asked for the longest goes
  /// first, to come from the store when it is asked for again. Kernel objects that the caller has stay as they are.
  /// 0: as many as are asked for.
  std::size_t most_kernels = 0;
  /// Limits of one CUDA compilation, which then runs in a process of its own; 0: none.
  std::int64_t deadline_ms = 0, memory_bytes = 0;
};

/// A launch that computes some rows of a sequence and leaves the others to other launches: its q, out and LSE have rows
/// `first`, `first + 1`, … of a sequence of `of` rows. Offsets, inputs and n_q in expressions are the whole sequence's,
/// and so are the bits of every row: they do not tell how a sequence was cut.
struct RowSlice {
  std::int64_t first = 0;
  std::int64_t of = 0;  ///< 0: the launch is the whole
};

/// A launch that computes some heads and leaves the others to other launches, as ranks of a tensor-parallel layer do:
/// its q, out and LSE have heads `first`, `first + 1`, … of `of` heads, and k and v those that these share; both ends
/// stand between groups of heads that share K and V. What patterns say by head, random numbers and inputs go by all
/// heads, and so do the bits.
struct HeadSlice {
  std::int64_t first = 0;
  std::int64_t of = 0;  ///< 0: the launch has all heads
};

/// The sizes of a launch without its tensors; of slices, n_q counts the own rows, heads and kv_heads the own heads.
struct RunShape {
  std::int64_t batch = 1, n_q = 0, n_k = 0, heads = 1, kv_heads = 1;
  RowSlice slice = {};
  HeadSlice head_slice = {};
  bool sizes_at = false;  ///< will they stand in the GPU's memory, with these the most? See RunArgs::sizes_at
};

/// What is compiled in, and what the caller promises about later launches.
struct CompileOptions {
  std::string pattern = {};                        ///< name in the text; may be empty where there is one only
  std::map<std::string, std::string> params = {};  ///< parameters, values in the language's spelling: `[1, 2]`, `8k`
  /// What the text leaves open. A value that contradicts the text is an error. Dims and dtype are compiled
  /// in, so one of the two must say them; heads may stay open until the launch.
  std::optional<std::int64_t> heads = {}, kv_heads = {}, dim = {}, dim_v = {};
  std::optional<DType> dtype = {};
  bool branch_lse = false;  ///< also make RunArgs::branch_lse available
  bool paged = false;       ///< K and V come in pages: RunArgs::pages
  /// The backward pass in place of the forward: a kernel of its own, which reads what the forward wrote and is given
  /// RunArgs::d_out. Not with `paged`.
  bool gradient = false;
  /// Of the first launch: on a GPU a kernel that is new is made of what such launches need, such as those of decoding,
  /// and of nothing else before another launch, or Kernel::prepare, wants that. Left out: what launches of many queries
  /// need. It tells no kernels apart: of one request there is one, whatever shapes it is asked for.
  std::optional<RunShape> shape = {};
  /// `cpu`, `cpu:NAME`, `interpreter` (f64, slow, the meaning itself); `cuda`, `cuda:N` (a GPU of this machine),
  /// `sm_NN` (compiled anywhere, run where there is such a GPU; `sm_NN:simt` as if it had no tensor cores,
  /// `sm_NN:ptx` as PTX, which the drivers of later GPUs compile: what `cuda` is on a GPU newer than every target),
  /// `emulate:sm_NN` (CUDA text on the host, slow).
  std::string target = "cpu";
  std::string source_name = "<pattern>";  ///< what messages call the text
};

struct NamedInput {
  std::string_view name = {};
  TensorView view = {};
};

struct NamedOutput {
  std::string_view name = {};
  OutputView view = {};
};

/// Sizes that kernels read when they run, in the memory that q is in, so that a CUDA graph is replayed while sequences
/// come, go and grow. On a GPU nobody looks at them before: numbers that are out of range stand for the nearest that
/// are in it, so that O is wrong where they are used, and no other memory is touched. On a CPU they are checked as
/// those of RunArgs are. Not of slices, gradients of inputs, patterns with `random` or `top`, and patterns that fix
/// their tokens; on a GPU not where kernels pass over blocks of keys by lists (`step fill` in plan_text()), as those of
/// documents do. A backward pass writes zeros before the first sequence and behind the last.
struct SizesAt {
  std::int64_t sequences = 0;                ///< 0: the sizes are those of RunArgs
  std::int64_t most_q = 0, most_k = 0;       ///< no sequence has more; 0: as many as q and k have, where not packed
  const std::int32_t* cu_q = nullptr;        ///< [sequences + 1], as RunArgs::cu_q; null: q is not packed
  const std::int32_t* cu_k = nullptr;        ///< [sequences + 1], as RunArgs::cu_k, and with cu_q
  const std::int32_t* kv_lengths = nullptr;  ///< [sequences], as RunArgs::kv_lengths, of K and V in pages
  const std::int64_t* offset = nullptr;      ///< [sequences], positions of rows 0; null: n_k - n_q of each
};

/// Everything one launch needs. Axes are `[B, n, H, d]`; position of a row: section 1 of the semantics.
struct RunArgs {
  TensorView q = {};                          ///< [B, n_q, H, d]
  TensorView k = {};                          ///< [B, n_k, H_kv, d]
  TensorView v = {};                          ///< [B, n_k, H_kv, d_v]
  OutputView out = {};                        ///< [B, n_q, H, d_v], dtype of q
  OutputView lse = {};                        ///< [B, H, n_q] f32, natural log; no data: not wanted
  OutputView branch_lse = {};                 ///< [branches, B, H, n_q] f32; no data: not wanted
  std::span<const NamedInput> inputs = {};    ///< every `input` of the pattern, in any order
  std::span<const std::int64_t> offset = {};  ///< position of row 0: one, or one per batch entry; none: n_k - n_q
  /// Not of packed sequences, nor where `top` pools queries: the means of blocks want all rows.
  RowSlice slice = {};
  HeadSlice head_slice = {};
  /// Sequences of different lengths behind one another, without padding: q and out are [1, total, H, d], k and v
  /// [1, total, H_kv, d]; sequence b has rows cu_q[b] .. cu_q[b + 1] - 1 and keys likewise. lse is [1, H, total],
  /// branch_lse [branches, 1, H, total]. In host memory, one entry more than sequences; none: not packed.
  std::span<const std::int64_t> cu_q = {}, cu_k = {};
  /// K and V in pages, as serving engines keep them: k is [pages, page size, H_kv, d], v likewise, and token n of
  /// sequence b stands in page pages[b, n / page size], i32. `kv_lengths`, in host memory, has the tokens of each
  /// sequence. Kernels compiled with CompileOptions::paged only. Of a table in host memory every entry that the lengths
  /// need is looked at, and one that is no page of k is an error. Of a table on a GPU none is: an entry that is no page
  /// stands for the nearest, so that O is wrong where it is used, and no other memory is read.
  TensorView pages = {};
  std::span<const std::int64_t> kv_lengths = {};
  /// In place of cu_q, cu_k, kv_lengths and offset, which are then empty.
  SizesAt sizes_at = {};
  /// What `random` and `top` choose, for those who want to see it: one i32 view for each list of Kernel::lists, of the
  /// extents that stand there; one without data is not wanted, and no views are none. Numbers of key blocks ascend in a
  /// row, and places that a row does not use, behind them, hold kUnusedPlace. Not of packed sequences and of pages. A
  /// backward pass chooses as its forward did.
  std::span<const OutputView> lists = {};
  /// Of kernels compiled with CompileOptions::gradient, which launch with the forward's arguments and these: the
  /// gradients of sum(dO * O) + sum(dLSE * LSE). They read `out` and `lse`, with `sum` and `mean` `branch_lse`, as the
  /// forward wrote them, so these must have data. Gradients are written, not added to; those without data are not
  /// wanted, and one must be. A slice of the rows gives what these rows add to dK, dV and the inputs, and a slice of
  /// the heads what these heads add to the inputs.
  TensorView d_out = {};                       ///< as out
  TensorView d_lse = {};                       ///< as lse, with `sum` and `mean` as branch_lse; no data: 0
  OutputView dq = {}, dk = {}, dv = {};        ///< as q, k and v, of their dtype
  std::span<const NamedOutput> d_inputs = {};  ///< of f32 inputs, in any order, as the inputs
  std::uint64_t dropout_seed = 0;
  /// Where kernels read the seed when they run, in the memory that q is in; null: it is dropout_seed. A CUDA graph that
  /// is replayed draws by what stands there then.
  const std::uint64_t* dropout_seed_at = nullptr;
  std::span<std::byte> workspace = {};  ///< at least Kernel::workspace bytes; empty: the engine's own pool
  int threads = 0;                      ///< 0: as the engine says
  void* stream = nullptr;               ///< GPUs: the CUstream to queue on; null: the default stream
};

/// One list of key blocks that a kernel makes before the attention, for a `random` or `top` of its pattern. For rows
/// first_row * block .. of each head, a block of rows after the other: which blocks of keys it keeps.
struct ChosenList {
  std::string set;         ///< as the language has it: `blocks(64, top(8, by: pooled, causal: true))`
  std::int64_t block = 1;  ///< tokens of a block, of rows and of keys; 1 outside of `blocks`
  /// [batch entries, heads, blocks of rows, places]; 1 batch entry where all have the same. With an offset for each
  /// entry, blocks of rows span them all, and those in which an entry has no row hold nothing of meaning.
  std::array<std::int64_t, kMaxRank> extent = {};
  std::int64_t first_row = 0;  ///< number of the block of rows that stands first
};
inline constexpr std::int32_t kUnusedPlace = std::numeric_limits<std::int32_t>::max();

/// Where a kernel came from.
enum class CacheOrigin : std::uint8_t { memory, disk, bundle, miss };
WEFT_API const char* to_string(CacheOrigin origin);

/// What came of an engine's lookups so far.
struct CacheStats {
  std::uint64_t memory_hits = 0;     ///< kernels this engine had, or another of its threads was making
  std::uint64_t store_hits = 0;      ///< from one's own store
  std::uint64_t read_only_hits = 0;  ///< from one of EngineOptions::read_only_caches
  std::uint64_t bundle_hits = 0;
  std::uint64_t misses = 0;  ///< found nowhere: compiled, or refused
  /// Why one's own store had none of what was asked of it: `absent`, `disabled`, `unsafe`, `corrupt`, `other key`,
  /// `other format`, `unreadable`.
  std::map<std::string, std::uint64_t> store_misses = {};
  std::uint64_t compiled = 0, published = 0, not_published = 0;
};

/// What making a kernel took, in milliseconds. All 0 for one from memory.
struct BuildTimes {
  double plan_ms = 0, emit_ms = 0;  ///< emit_ms: 0 for a stored kernel whose text nobody needed
  double compile_ms = 0;            ///< 0 unless the origin is `miss`
  double load_ms = 0;               ///< mapping the binary, and reading the store before
  BuildTimes& operator+=(const BuildTimes& other) {
    plan_ms += other.plan_ms;
    emit_ms += other.emit_ms;
    compile_ms += other.compile_ms;
    load_ms += other.load_ms;
    return *this;
  }
};

/// A pattern compiled for one target. Immutable; a handle that is cheap to copy. Any number of threads may run
/// it at once.
class WEFT_API Kernel {
 public:
  struct State;

  /// Computes O (and LSE) for one set of tensors, or their gradients (CompileOptions::gradient), and returns when they
  /// are written. On a GPU it returns when the work is queued on RunArgs::stream; tensors and workspace are device
  /// memory, offsets are not.
  ///
  /// On a GPU the launch may be captured into a CUDA graph, behind prepare() with its shape. It then needs a workspace
  /// that lives as long as the graph, where workspace() says more than 0 bytes, and replays with the tensors' contents
  /// of that time and the offsets, lengths and dropout_seed of this call (see sizes_at and dropout_seed_at). It asks
  /// nothing of the host, and is refused where it would have to.
  ///
  /// User errors, before anything is written, name the tensor, the dimension, what was found and what was
  /// expected: extents that disagree, a last stride other than 1, a dtype other than the compiled one, null or
  /// misaligned pointers, sizes that overflow, inputs missing or of wrong extents, a workspace too small.
  Status run(const RunArgs& args) const;

  /// Bytes of scratch a launch of this shape uses, in total over its threads.
  Result<std::size_t> workspace(const RunShape& shape, int threads = 0) const;

  /// Makes now what the first launch of such a shape would make: launches of few queries have kernels of their own,
  /// on a GPU gradients of inputs and sizes in its memory, too, and each number of heads tables, there in its memory.
  /// Says what it took: zeros where all was there. Errors are those of run() and of Engine::compile.
  Result<BuildTimes> prepare(const RunShape& shape) const;

  /// The lists that a launch of this shape makes, in the order of pattern_text(), each once; none where the pattern has
  /// no `random` and no `top`. `offset` as in RunArgs: it says which rows there are.
  Result<std::vector<ChosenList>> lists(const RunShape& shape, std::span<const std::int64_t> offset = {}) const;

  CacheOrigin origin() const { return origin_; }
  /// The directory of the store or the file of the bundle that it was first read from; empty where it was compiled.
  const std::string& origin_path() const;
  const BuildTimes& times() const { return times_; }
  double compile_ms() const { return times_.compile_ms; }
  double load_ms() const { return times_.load_ms; }
  const std::string& pattern_text() const;  ///< the pattern with every default written out
  const std::string& plan_text() const;     ///< every decision, as text; empty on the interpreter
  /// What the backend compiled, as text: LLVM IR or CUDA C++. Empty on the interpreter.
  const std::string& source_text() const;
  const std::string& target() const;                ///< resolved: `cpu:x86-64-v4`
  const std::vector<Diagnostic>& warnings() const;  ///< about the pattern's text

  /// Registers of a thread of a GPU kernel, and bytes that it spills. Nothing elsewhere.
  std::optional<int> registers() const, spill_bytes() const;
  /// Shared memory of a block, which grows with the branches that a head can have.
  std::optional<std::int64_t> shared_bytes(std::int64_t heads) const;

  Kernel(std::shared_ptr<const State> state, CacheOrigin origin, const BuildTimes& times)
      : state_(std::move(state)), origin_(origin), times_(times) {}
  const State& state() const { return *state_; }

 private:
  std::shared_ptr<const State> state_;
  CacheOrigin origin_;
  BuildTimes times_;
};

/// Kernel store, compilers and threads: open once, share between threads.
///
/// A process may fork at any time, whatever its other threads do with engines: the child compiles, stores and runs with
/// what it inherited. fork() waits for the part of a CPU kernel that LLVM is compiling. (A GPU's driver does not
/// survive: a child of a process that has used it cannot launch on GPUs.)
class WEFT_API Engine {
 public:
  /// Options that make no sense, and memory that runs out, are told by ready() and by every compile().
  explicit Engine(EngineOptions options = {});
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Why nothing can be compiled, if so.
  Status ready() const;

  /// A kernel for one pattern of `text`: from memory, else from the store, else from a bundle, else compiled. Where
  /// bundles have none for `cpu` or a GPU, but one for a lesser target that it also executes, that one is taken.
  ///
  /// User errors are about the text or contradict it; environment errors say what is missing on this machine
  /// and the command that mends it. Trouble with the store is never an error: see warnings().
  Result<Kernel> compile(std::string_view text, const CompileOptions& options = {}) const;

  /// What went wrong with the store without stopping anything; each is reported once.
  std::vector<std::string> take_warnings() const;

  CacheStats cache_stats() const;

  struct State;
  const State& state() const { return *state_; }  ///< where ready()

 private:
  std::unique_ptr<State> state_;
  Error failure_;  ///< where there is no state
};

/// All of an error as a terminal shows it: lines of the text underlined, notes, what to do. `source` is the text that
/// was compiled, with the name to show; without it, lines are not shown. Ends with a line break.
WEFT_API std::string report(const Error& error, const Source& source = {});

/// `0.1.0`
WEFT_API const char* version();

}  // namespace weft
