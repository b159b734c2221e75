#include "runtime/ring/moved_queries.h"

#include "runtime/engine/key_cut.h"
#include "runtime/ring/launch.h"

namespace weft {

Result<MovedQueries> MovedQueries::make(const Kernel& kernel, std::shared_ptr<KernelMemory> memory,
                                        const std::shared_ptr<KernelMemory>& messages, const ring::Split& split,
                                        int rank, const ir::Shape& shape, DType dtype) {
  MovedQueries out(kernel, split, rank, shape, dtype);
  out.memory_ = std::move(memory);
  std::size_t queries = 0, merged = 0, own = 0;
  for (std::int64_t owner = 0; owner < split.ranks(); ++owner) {
    std::int64_t before = 0;
    for (const auto& of : split.owned(owner)) {
      for (const auto& run : ring::inside(split.moved.rows, {of})) {
        Rows rows{
            .run = run, .owner = static_cast<int>(owner), .local = before + run.first - of.first, .begin = queries};
        queries += out.bytes_of_queries(rows);
        if (owner == rank) {
          own += out.bytes_of_queries(rows);
          rows.states = merged;
          merged += out.bytes_of_states(rows, split.moved.chunks());
        }
        out.rows_.push_back(rows);
      }
      before += of.count;
    }
    auto& stretches = out.stretches_.emplace_back();
    split.moved.each_stretch(owner, [&](std::int64_t first, std::int64_t end) { stretches.emplace_back(first, end); });
  }
  std::size_t kept = 0, kept_for_me = 0, states = 0;
  for (int owner = 0; owner < split.ranks(); ++owner) {
    auto begin = kept;
    auto mine = out.kept_of(rank, owner, kept);
    if (owner == rank) kept_for_me = kept - begin;
    out.mine_.insert(out.mine_.end(), mine.begin(), mine.end());
    if (owner != rank) out.kept_of(owner, rank, states);
    if (owner != rank && out.has_chunks(owner)) out.sent_ += own;
  }
  out.sent_ += kept - kept_for_me;
  WEFT_TRY(out.queries_, KernelBytes::make(out.memory_, out.has_chunks(rank) ? queries : 0));
  WEFT_TRY(out.kept_, KernelBytes::make(out.memory_, kept));
  WEFT_TRY(out.merged_, KernelBytes::make(out.memory_, merged));
  WEFT_TRY(out.in_queries_, KernelBytes::make(messages, out.has_chunks(rank) ? queries - own : 0));
  WEFT_TRY(out.out_queries_, KernelBytes::make(messages, own));
  WEFT_TRY(out.in_states_, KernelBytes::make(messages, states));
  WEFT_TRY(out.out_states_, KernelBytes::make(messages, kept));
  return out;
}

std::size_t MovedQueries::bytes_of_queries(const Rows& rows) const {
  return static_cast<std::size_t>(shape_.batch * rows.run.count * shape_.heads * shape_.d) * size_of(dtype_);
}

std::size_t MovedQueries::bytes_of_states(const Rows& rows, std::int64_t chunks) const {
  return static_cast<std::size_t>(shape_.batch * rows.run.count * shape_.heads * chunks *
                                  floats_of_state(kernel_.state().plan)) *
         sizeof(float);
}

std::vector<MovedQueries::Kept> MovedQueries::kept_of(std::int64_t rank, int owner, std::size_t& begin) const {
  std::vector<Kept> out;
  for (const auto& [first, end] : stretches_[static_cast<std::size_t>(rank)]) {
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (rows_[i].owner != owner) continue;
      out.push_back({.rows = i, .first = first, .end = end, .begin = begin});
      begin += bytes_of_states(rows_[i], end - first);
    }
  }
  return out;
}

Status MovedQueries::post_queries(Link& link, const TensorView& q) {
  std::size_t own = 0;
  for (const auto& rows : rows_) {
    if (rows.owner != rank_) continue;
    const auto from = rows_of(q, 1, rows.local, rows.run.count);
    const auto element = static_cast<std::int64_t>(size_of(dtype_));
    const auto width = static_cast<std::size_t>(shape_.d * element);
    auto* const data = static_cast<std::byte*>(const_cast<void*>(from.data));
    for (std::int64_t b = 0; b < shape_.batch; ++b) {
      for (std::int64_t row = 0; row < rows.run.count; ++row) {
        const Lines heads{.data = data + (b * from.stride[0] + row * from.stride[1]) * element,
                          .pitch = from.stride[2] * element};
        WEFT_CHECK(memory_->copy(out_queries_.lines(own, width), heads, width, shape_.heads));
        own += width * static_cast<std::size_t>(shape_.heads);
      }
    }
  }
  WEFT_CHECK(memory_->settle());
  std::vector<Transport::Part> sends, receives;
  std::size_t in = 0;
  for (int peer = 0; peer < split_.ranks(); ++peer) {
    if (peer == rank_) continue;
    if (own > 0 && has_chunks(peer)) sends.push_back(out_queries_.part(peer, 0, own));
    std::size_t theirs = 0;
    for (const auto& rows : rows_) theirs += rows.owner == peer ? bytes_of_queries(rows) : 0;
    if (theirs > 0 && has_chunks(rank_)) receives.push_back(in_queries_.part(peer, in, theirs));
    in += theirs;
  }
  arrived_ = false;
  WEFT_TRY(queries_step_, link.post(sends, receives));
  return done;
}

Status MovedQueries::take_queries(Link& link, double& wait_ms) {
  if (arrived_) return done;
  WEFT_CHECK(link.wait(queries_step_, wait_ms));
  std::size_t in = 0, own = 0;
  for (const auto& rows : rows_) {
    const auto bytes = bytes_of_queries(rows);
    const bool mine = rows.owner == rank_;
    auto& begin = mine ? own : in;
    WEFT_CHECK(memory_->copy(queries_.lines(rows.begin, bytes), (mine ? out_queries_ : in_queries_).lines(begin, bytes),
                             bytes, 1));
    begin += bytes;
  }
  arrived_ = true;
  return done;
}

Status MovedQueries::compute(Link& link, const ring::Keys& keys, const Arena& arena, const RingArgs& args,
                             double& wait_ms) {
  WEFT_CHECK(take_queries(link, wait_ms));
  for (const auto& kept : mine_) {
    if (kept.first * split_.moved.keys != keys.first) continue;
    const auto& rows = rows_[kept.rows];
    RingArgs some = args;
    some.q = dense_view(queries_.data() + rows.begin, dtype_, {shape_.batch, rows.run.count, shape_.heads, shape_.d});
    auto* const states = kept_.data() + kept.begin;
    // No O is written: a launch has one.
    some.out = dense_output(states, dtype_, {shape_.batch, rows.run.count, shape_.heads, shape_.d_v});
    some.lse = some.branch_lse = {};
    const std::int64_t chunks = kept.end - kept.first;
    const auto run = launch_of(some, arena, rows.run, 0, shape_.n_q);
    WEFT_CHECK(run_cut(kernel_, run,
                       {.states = reinterpret_cast<float*>(states),
                        .slots = chunks,
                        .count = chunks,
                        .first = keys.first,
                        .keys = split_.moved.keys}));
  }
  return done;
}

/// Into the places of their chunks.
Status MovedQueries::merge(const Kept& kept, const KernelBytes& from) {
  const auto& rows = rows_[kept.rows];
  const auto state = static_cast<std::size_t>(floats_of_state(kernel_.state().plan)) * sizeof(float);
  const auto of_row = state * static_cast<std::size_t>(split_.moved.chunks());
  const auto width = state * static_cast<std::size_t>(kept.end - kept.first);
  const Lines to{.data = merged_.data() + rows.states + state * static_cast<std::size_t>(kept.first),
                 .pitch = static_cast<std::int64_t>(of_row)};
  return memory_->copy(to, from.lines(kept.begin, width), width, shape_.batch * shape_.heads * rows.run.count);
}

Status MovedQueries::finish(Link& link, const Arena& arena, const RingArgs& args, double& wait_ms) {
  if (kept_.size() > 0) WEFT_CHECK(memory_->copy(out_states_.whole(), kept_.whole(), kept_.size(), 1));
  WEFT_CHECK(memory_->settle());
  std::vector<Transport::Part> sends, receives;
  std::vector<Kept> theirs;
  std::size_t in = 0, out = 0;
  for (int peer = 0; peer < split_.ranks(); ++peer) {
    const auto begin = out;
    kept_of(rank_, peer, out);
    if (peer == rank_) continue;
    if (out > begin) sends.push_back(out_states_.part(peer, begin, out - begin));
    const auto from = in;
    const auto its = kept_of(peer, rank_, in);
    if (in > from) receives.push_back(in_states_.part(peer, from, in - from));
    theirs.insert(theirs.end(), its.begin(), its.end());
  }
  WEFT_TRY(const auto step, link.post(sends, receives));
  WEFT_CHECK(link.wait(step, wait_ms));
  for (const auto& kept : theirs) WEFT_CHECK(merge(kept, in_states_));
  for (const auto& kept : mine_) {
    if (rows_[kept.rows].owner == rank_) WEFT_CHECK(merge(kept, kept_));
  }
  for (const auto& rows : rows_) {
    if (rows.owner != rank_) continue;
    const auto run = launch_of(args, arena, rows.run, rows.local, shape_.n_q);
    WEFT_CHECK(run_cut(kernel_, run,
                       {.step = KeyCut::Step::finish,
                        .states = reinterpret_cast<float*>(merged_.data() + rows.states),
                        .slots = split_.moved.chunks(),
                        .count = split_.moved.chunks()}));
  }
  return memory_->settle();
}

}  // namespace weft
