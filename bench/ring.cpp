/// Two ranks of one thread each beside one rank of one thread, and beside a ring in which all of K and V travel, as
/// ring-flash-attention has it: `zigzag` for dense causal attention, hop by hop, with masks and merges of its own; for
/// other patterns, which it does not have, all keys go round and the rank's rows are then computed by the same kernel.
/// Its hops are copies between threads, the least that they can cost.

#include "compiler/base/result.h"

#include <weft/ring.h>

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace weft::bench {
namespace {

constexpr double kBar = 0.93;  ///< of the efficiency of two ranks
constexpr std::int64_t kDim = 64;

const char* const kTexts =
    "pattern dense { keep causal; }\n"
    "pattern longnet3 { branches dilated(segments: [2048, 4096, 8192], rates: [1, 2, 4]); keep causal; }\n"
    "pattern window { branch window(1023, 0); }\n"
    "pattern global { branch window(255, 255) | global(512); }\n"
    "pattern everything { }\n";

struct Workload {
  std::string pattern;
  std::int64_t heads = 8;
  bool has_bar = true;
  RingCarrier carrier = RingCarrier::automatic;
};
const Workload kWorkloads[] = {{"dense", 2},
                               {"dense", 2, true, RingCarrier::heads},
                               {"longnet3", 8},
                               {"window", 8, false},
                               {"window", 8, false, RingCarrier::heads},
                               {"global", 1, false, RingCarrier::keys},
                               {"global", 1, false, RingCarrier::queries}};

struct Options {
  std::int64_t tokens = 16384;
  int ranks = 2, rounds = 11;
};

using Numbers = std::vector<float>;
using Clock = std::chrono::steady_clock;

/// Of tensors of one head after the other: [rows, dim] each.
TensorView rows_of(const Numbers& from, std::int64_t heads, std::int64_t tokens, std::int64_t first,
                   std::int64_t count) {
  auto view = dense_view(from.data() + first * kDim, DType::f32, {1, heads, tokens, kDim});
  std::swap(view.extent[1], view.extent[2]);
  std::swap(view.stride[1], view.stride[2]);
  view.extent[1] = count;
  return view;
}
OutputView rows_of(Numbers& to, std::int64_t heads, std::int64_t tokens, std::int64_t first, std::int64_t count) {
  const auto view = rows_of(std::as_const(to), heads, tokens, first, count);
  return {
      .data = to.data() + first * kDim, .dtype = view.dtype, .rank = 4, .extent = view.extent, .stride = view.stride};
}

Numbers random_numbers(std::int64_t count, std::uint32_t seed) {
  Numbers out(static_cast<std::size_t>(count));
  for (auto& number : out) {
    seed = seed * 1664525 + 1013904223;
    number = static_cast<float>(seed >> 8) / (1 << 23) - 1;
  }
  return out;
}

/// A rank's own tensors, [heads, rows, dim].
struct Own {
  std::int64_t rows = 0;
  Numbers q, k, v, out, lse;
  void make(std::int64_t heads, std::int64_t count, std::uint32_t seed) {
    rows = count;
    q = random_numbers(heads * rows * kDim, seed);
    k = random_numbers(heads * rows * kDim, seed + 1);
    v = random_numbers(heads * rows * kDim, seed + 2);
    out.resize(q.size());
    lse.resize(static_cast<std::size_t>(heads * rows));
  }
};

/// The least of all rounds. What a rank's thread computes for does not count what else the machine does meanwhile, nor
/// what the rank waits for.
struct Seconds {
  double wall = 1e9;
  double busy = 1e9;  ///< of the rank that computes the longest
};

/// Runs work(rank) on a thread for each rank.
Status measure(Seconds& least, int ranks, const std::function<Status(int)>& work) {
  std::vector<Status> said(static_cast<std::size_t>(ranks), done);
  std::vector<double> busy(said.size());
  const auto start = Clock::now();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      const auto at = static_cast<std::size_t>(rank);
      said[at] = work(rank);
      timespec used = {};
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
      busy[at] = static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
    });
  for (auto& thread : threads) thread.join();
  least.wall = std::min(least.wall, std::chrono::duration<double>(Clock::now() - start).count());
  least.busy = std::min(least.busy, *std::max_element(busy.begin(), busy.end()));
  for (auto& status : said) WEFT_CHECK(status);
  return done;
}

/// Ranks of weft::Ring.
class Ours {
 public:
  Status make(const Kernel& kernel, std::int64_t heads, RingCarrier carrier, const Options& options) {
    const auto count = static_cast<std::size_t>(options.ranks);
    rings_.resize(count);
    plans_.resize(count);
    own_.resize(count);
    heads_ = heads;
    WEFT_TRY(auto transports, local_transports(options.ranks));
    Seconds unused;
    WEFT_CHECK(measure(unused, options.ranks, [&](int rank) -> Status {
      const auto at = static_cast<std::size_t>(rank);
      WEFT_TRY(rings_[at], Ring::join(std::move(transports[at]), {.carrier = carrier}));
      WEFT_TRY(plans_[at], rings_[at]->plan(kernel, {1, options.tokens, heads, heads}));
      own_[at].make(heads, plans_[at]->share().tokens, static_cast<std::uint32_t>(rank));
      return done;
    }));
    return done;
  }
  Status run(int rank) {
    auto& own = own_[static_cast<std::size_t>(rank)];
    return plans_[static_cast<std::size_t>(rank)]->run(
        {.q = rows_of(std::as_const(own.q), heads_, own.rows, 0, own.rows),
         .k = rows_of(std::as_const(own.k), heads_, own.rows, 0, own.rows),
         .v = rows_of(std::as_const(own.v), heads_, own.rows, 0, own.rows),
         .out = rows_of(own.out, heads_, own.rows, 0, own.rows),
         .threads = 1});
  }
  const std::string& layout() const { return plans_[0]->summary().layout; }
  double imbalance() const { return plans_[0]->summary().imbalance; }
  std::size_t most_received() const {
    std::size_t most = 0;
    for (const auto& plan : plans_) most = std::max(most, plan->share().received_bytes);
    return most;
  }

 private:
  std::int64_t heads_ = 0;
  std::vector<std::unique_ptr<Ring>> rings_;
  std::vector<std::unique_ptr<RingPlan>> plans_;
  std::vector<Own> own_;
};

/// O and LSE of one hop join those of the hops before.
void merge(Own& own, std::int64_t heads, const Numbers& out, const Numbers& lse, std::int64_t first,
           std::int64_t count) {
  for (std::int64_t h = 0; h < heads; ++h) {
    for (std::int64_t i = 0; i < count; ++i) {
      float& before = own.lse[static_cast<std::size_t>(h * own.rows + first + i)];
      const float now = lse[static_cast<std::size_t>(h * count + i)];
      const float top = std::max(before, now), a = std::exp(before - top), b = std::exp(now - top), sum = a + b;
      float* const to = own.out.data() + (h * own.rows + first + i) * kDim;
      const float* const from = out.data() + (h * count + i) * kDim;
      for (std::int64_t c = 0; c < kDim; ++c) to[c] = (to[c] * a + from[c] * b) / sum;
      before = top + std::log(sum);
    }
  }
}

/// A ring of all keys: each rank has pieces g and 2R - 1 - g of the tokens, or a run of them where all keys are there
/// before it computes; what it holds goes to the next rank after each hop.
class Rotation {
 public:
  Rotation(const Kernel& kernel, const Kernel& everything, std::int64_t heads, const Options& options, bool by_hops)
      : kernel_(kernel),
        everything_(everything),
        heads_(heads),
        ranks_(options.ranks),
        tokens_(options.tokens),
        rows_(options.tokens / options.ranks),
        by_hops_(by_hops),
        own_(static_cast<std::size_t>(ranks_)),
        held_(own_.size()),
        coming_(own_.size()),
        all_(own_.size()),
        barrier_(ranks_) {
    for (std::size_t g = 0; g < own_.size(); ++g) {
      own_[g].make(heads_, rows_, static_cast<std::uint32_t>(g));
      if (by_hops_) continue;
      all_[g].k.resize(static_cast<std::size_t>(heads_ * tokens_ * kDim));
      all_[g].v = all_[g].k;
    }
  }

  std::size_t received() const {
    return static_cast<std::size_t>((ranks_ - 1) * rows_ * heads_ * kDim * 2) * sizeof(float);
  }

  Status run(int rank) {
    const auto g = static_cast<std::size_t>(rank);
    held_[g] = {own_[g].k, own_[g].v};
    for (int hop = 0; hop < ranks_; ++hop) {
      const auto from = static_cast<std::size_t>((rank - hop + ranks_) % ranks_);
      by_hops_ ? void() : keep(g, from);
      if (by_hops_) WEFT_CHECK(compute(g, from));
      if (hop + 1 == ranks_) break;
      barrier_.arrive_and_wait();
      coming_[g] = held_[static_cast<std::size_t>((rank - 1 + ranks_) % ranks_)];
      barrier_.arrive_and_wait();
      std::swap(held_[g], coming_[g]);
    }
    return by_hops_ ? done : whole_rows(g);
  }

 private:
  struct KeysAndValues {
    Numbers k, v;
  };

  /// One hop of zigzag: of earlier ranks the first half of the keys counts for all rows, of later ones all keys for the
  /// second half.
  Status compute(std::size_t g, std::size_t from) {
    auto& own = own_[g];
    const std::int64_t half = rows_ / 2, first = from > g ? half : 0, count = rows_ - first;
    const std::int64_t keys = from < g ? half : rows_;
    Numbers out(static_cast<std::size_t>(heads_ * count * kDim)), lse(static_cast<std::size_t>(heads_ * count));
    const bool diagonal = from == g;
    const Kernel& kernel = diagonal ? kernel_ : everything_;
    WEFT_CHECK(
        kernel.run({.q = rows_of(std::as_const(own.q), heads_, rows_, first, count),
                    .k = rows_of(std::as_const(held_[g].k), heads_, rows_, 0, keys),
                    .v = rows_of(std::as_const(held_[g].v), heads_, rows_, 0, keys),
                    .out = diagonal ? rows_of(own.out, heads_, rows_, 0, rows_) : rows_of(out, heads_, count, 0, count),
                    .lse = dense_output(diagonal ? own.lse.data() : lse.data(), DType::f32, {1, heads_, count}),
                    .threads = 1}));
    if (!diagonal) merge(own, heads_, out, lse, first, count);
    return done;
  }

  void keep(std::size_t g, std::size_t from) {
    const auto size = static_cast<std::size_t>(rows_ * kDim);
    for (std::int64_t h = 0; h < heads_; ++h) {
      const auto to = static_cast<std::size_t>((h * tokens_ + static_cast<std::int64_t>(from) * rows_) * kDim);
      std::copy_n(held_[g].k.data() + static_cast<std::size_t>(h) * size, size, all_[g].k.data() + to);
      std::copy_n(held_[g].v.data() + static_cast<std::size_t>(h) * size, size, all_[g].v.data() + to);
    }
  }

  Status whole_rows(std::size_t g) {
    auto& own = own_[g];
    return kernel_.run({.q = rows_of(std::as_const(own.q), heads_, rows_, 0, rows_),
                        .k = rows_of(std::as_const(all_[g].k), heads_, tokens_, 0, tokens_),
                        .v = rows_of(std::as_const(all_[g].v), heads_, tokens_, 0, tokens_),
                        .out = rows_of(own.out, heads_, rows_, 0, rows_),
                        .slice = {.first = static_cast<std::int64_t>(g) * rows_, .of = tokens_},
                        .threads = 1});
  }

  const Kernel &kernel_, &everything_;
  const std::int64_t heads_;
  const int ranks_;
  const std::int64_t tokens_, rows_;
  const bool by_hops_;
  std::vector<Own> own_;
  std::vector<KeysAndValues> held_, coming_, all_;
  std::barrier<> barrier_;
};

Result<bool> measure(const Engine& engine, const Workload& workload, const Options& options) {
  const auto compiled = [&](const std::string& pattern) {
    return engine.compile(kTexts, {.pattern = pattern, .dim = kDim, .dtype = DType::f32, .target = "cpu"});
  };
  WEFT_TRY(const auto kernel, compiled(workload.pattern));
  WEFT_TRY(const auto everything, compiled("everything"));
  const std::int64_t heads = workload.heads, n = options.tokens;
  Own one;
  one.make(heads, n, 1);
  Ours ours;
  WEFT_CHECK(ours.make(kernel, heads, workload.carrier, options));
  Rotation peer(kernel, everything, heads, options, workload.pattern == "dense");
  const auto alone = [&](int) {
    return kernel.run({.q = rows_of(std::as_const(one.q), heads, n, 0, n),
                       .k = rows_of(std::as_const(one.k), heads, n, 0, n),
                       .v = rows_of(std::as_const(one.v), heads, n, 0, n),
                       .out = rows_of(one.out, heads, n, 0, n),
                       .threads = 1});
  };
  Seconds of_one, of_ours, of_peer;
  for (int round = 0; round < options.rounds; ++round) {
    WEFT_CHECK(measure(of_one, 1, alone));
    WEFT_CHECK(measure(of_ours, options.ranks, [&](int rank) { return ours.run(rank); }));
    WEFT_CHECK(measure(of_peer, options.ranks, [&](int rank) { return peer.run(rank); }));
  }
  const auto efficiency = [&](const Seconds& of) { return of_one.wall / of.wall / options.ranks; };
  const double share = efficiency(of_ours);
  const bool kept = !workload.has_bar || share >= kBar;
  fmt::print(
      "{:<9} {:>2} {:>9.1f} | {:>9.1f} {:>6.3f} {:>6.3f} {:>9.3f} {:>6.3f} | {:>9.1f} {:>6.3f} {:>9.3f} | {}{}\n",
      workload.pattern, heads, of_one.wall * 1e3, of_ours.wall * 1e3, share, of_one.busy / of_ours.busy / options.ranks,
      static_cast<double>(ours.most_received()) * 1e-6, ours.imbalance(), of_peer.wall * 1e3, efficiency(of_peer),
      static_cast<double>(peer.received()) * 1e-6, ours.layout(), kept ? "" : "  not kept");
  return kept;
}

Result<bool> run(const Options& options) {
  if (options.tokens % (2 * options.ranks) != 0)
    return user_error(fmt::format("the peer wants tokens that {} ranks can halve", options.ranks));
  const Engine engine({.no_cache = true});
  fmt::print("{} tokens, dim {}, f32, {} ranks of one thread; the least of {} rounds; limit: efficiency >= {}\n",
             options.tokens, kDim, options.ranks, options.rounds, kBar);
  fmt::print("{:<9} {:>2} {:>9} | {:>9} {:>6} {:>6} {:>9} {:>6} | {:>9} {:>6} {:>9} |\n", "pattern", "H", "1 rank ms",
             "ring ms", "eff.", "busy", "MB got", "imbal.", "all-KV ms", "eff.", "MB got");
  bool all_kept = true;
  for (const auto& workload : kWorkloads) {
    WEFT_TRY(const bool kept, measure(engine, workload, options));
    all_kept = all_kept && kept;
  }
  return all_kept;
}

/// `--tokens 16384 --ranks 2 --rounds 11`
Result<Options> options_of(int count, char** words) {
  Options out;
  for (int i = 1; i < count; i += 2) {
    const std::string word = words[i];
    const long value = i + 1 < count ? std::strtol(words[i + 1], nullptr, 10) : 0;
    if (value < 1) return user_error(fmt::format("{} wants a number of at least 1", word));
    if (word == "--tokens")
      out.tokens = value;
    else if (word == "--ranks")
      out.ranks = static_cast<int>(value);
    else if (word == "--rounds")
      out.rounds = static_cast<int>(value);
    else
      return user_error(fmt::format("there is no {}; there are --tokens, --ranks and --rounds", word));
  }
  return out;
}

}  // namespace
}  // namespace weft::bench

int main(int count, char** words) {
  const auto options = weft::bench::options_of(count, words);
  if (!options) {
    fmt::print(stderr, "{}\n", options.error().message);
    return 2;
  }
  const auto kept = weft::bench::run(*options);
  if (kept) return *kept ? 0 : 1;
  fmt::print(stderr, "{}\n", kept.error().message);
  return 3;
}
