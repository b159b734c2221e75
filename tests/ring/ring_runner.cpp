#include "tests/ring/ring_runner.h"

#include "tests/support/near.h"

#include "runtime/engine/front.h"
#include "runtime/engine/reference.h"
#include "runtime/ring/views.h"
#include "tests/support/stored.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <thread>

namespace weft::test {

namespace {

/// Copies rows between a tensor of all tokens, [B, n, width], and one of a rank's, [B, rows, width]; width in bytes.
template <typename Copy>
void each_row(const std::vector<TokenRun>& own, std::int64_t batch, std::int64_t tokens, const Copy& copy) {
  std::int64_t rows = 0;
  for (const auto& run : own) rows += run.count;
  for (std::int64_t b = 0; b < batch; ++b) {
    std::int64_t local = 0;
    for (const auto& run : own) {
      for (std::int64_t i = 0; i < run.count; ++i, ++local)
        copy(static_cast<std::size_t>(b * tokens + run.first + i * run.stride),
             static_cast<std::size_t>(b * rows + local));
    }
  }
}

Bytes rows_of(const Bytes& all, const std::vector<TokenRun>& own, std::int64_t batch, std::int64_t tokens) {
  const std::size_t width = all.size() / static_cast<std::size_t>(batch * tokens);
  std::int64_t rows = 0;
  for (const auto& run : own) rows += run.count;
  Bytes out(static_cast<std::size_t>(batch * rows) * width);
  each_row(own, batch, tokens, [&](std::size_t whole, std::size_t local) {
    std::memcpy(out.data() + local * width, all.data() + whole * width, width);
  });
  return out;
}

/// Rows of a rank, back in a tensor of all tokens.
void put_rows(const Bytes& rows, Bytes& all, const std::vector<TokenRun>& own, std::int64_t batch,
              std::int64_t tokens) {
  const std::size_t width = all.size() / static_cast<std::size_t>(batch * tokens);
  each_row(own, batch, tokens, [&](std::size_t whole, std::size_t local) {
    std::memcpy(all.data() + whole * width, rows.data() + local * width, width);
  });
}

/// The same of tensors [B, H, n], `branches` behind one another.
void each_lse(const std::vector<TokenRun>& own, const ir::Shape& s, std::int64_t branches, std::int64_t rows,
              const std::function<void(std::size_t whole, std::size_t local)>& copy) {
  for (std::int64_t at = 0; at < branches * s.heads; ++at) {
    each_row(own, s.batch, s.n_q, [&](std::size_t whole, std::size_t local) {
      const auto n = static_cast<std::size_t>(s.n_q), r = static_cast<std::size_t>(rows),
                 head = static_cast<std::size_t>(at % s.heads), heads = static_cast<std::size_t>(s.heads),
                 before = static_cast<std::size_t>(at / s.heads * s.batch);
      copy(((before + whole / n) * heads + head) * n + whole % n,
           ((before + local / r) * heads + head) * r + local % r);
    });
  }
}

const Engine& engine() {
  static const Engine kEngine({.no_cache = true});
  return kEngine;
}

}  // namespace

RingRunner::RingRunner(Program program, const std::string& target, bool gradients) : program_(std::move(program)) {
  auto& s = program_.shape;
  s.n_q = s.n_k;
  s.offset.clear();
  program_.branch_lse = false;
  dtype_ = from_ir(program_.dtype);
  const auto pattern = lowered(program_);
  if (!pattern.ok()) {
    refused_ = pattern.error().message;
    return;
  }
  has_lse_ = ir::has_lse(*pattern);
  if (ir::per_branch(pattern->combine)) branches_ = std::ssize(pattern->branches);
  const auto tensors = draw_tensors(s, program_.dtype, program_.seed);
  q_ = stored(tensors.q, dtype_);
  k_ = stored(tensors.k, dtype_);
  v_ = stored(tensors.v, dtype_);
  const auto values = draw_inputs(*pattern, s, program_.seed);
  for (const auto& input : pattern->inputs) names_.push_back(input.name);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto type = from_ir(pattern->inputs[i].type);
    inputs_.push_back(stored(values[i], type));
    named_.push_back({.name = names_[i], .view = dense(inputs_.back().data(), type, values[i].shape)});
  }
  std::map<std::string, std::string> params;
  for (const auto& define : program_.defines) {
    const auto at = define.find('=');
    params[define.substr(0, at)] = define.substr(at + 1);
  }
  CompileOptions options{
      .pattern = program_.pattern, .params = params, .dim = s.d, .dim_v = s.d_v, .dtype = dtype_, .target = target};
  options.branch_lse = branches_ > 0;
  const auto compile = [&](std::optional<Kernel>& to) {
    auto kernel = engine().compile(program_.text, options);
    if (!kernel)
      refused_ = kernel.error().message;
    else
      to = std::move(*kernel);
  };
  compile(kernel_);
  if (!gradients) return;
  options.gradient = true;
  options.branch_lse = false;
  compile(backward_);
  auto of_rows = s;
  of_rows.kv_heads = s.heads;
  auto drawn = draw_tensors(of_rows, program_.dtype, program_.seed + 100).v;
  // Ranks see gradients of other sizes, which is what kernels of f16 scale them by.
  const auto row = static_cast<std::size_t>(s.heads * s.d_v), rows = static_cast<std::size_t>(s.n_q);
  for (std::size_t i = 0; i < drawn.data.size(); ++i)
    drawn.data[i] = std::ldexp(drawn.data[i], -static_cast<int>(10 * (i / row % rows) / rows));
  d_out_ = stored(drawn, dtype_);
  of_rows.d = 1;
  of_rows.batch *= lse_of_a_row();
  const auto numbers = draw_tensors(of_rows, ir::DType::f32, program_.seed + 200).q;
  d_lse_.assign(numbers.data.begin(), numbers.data.end());
}

OutputView RingRunner::lse_of(std::vector<float>& numbers, std::int64_t rows) const {
  const auto& s = program_.shape;
  return branches_ > 0 ? dense_output(numbers.data(), DType::f32, {branches_, s.batch, s.heads, rows})
                       : dense_output(numbers.data(), DType::f32, {s.batch, s.heads, rows});
}

Status RingRunner::run_whole() {
  const auto& s = program_.shape;
  whole_out_.assign(static_cast<std::size_t>(s.batch * s.n_q * s.heads * s.d_v) * size_of(dtype_), std::byte{0xff});
  whole_lse_.assign(static_cast<std::size_t>(lse_of_a_row() * s.batch * s.heads * s.n_q), -7);
  RunArgs args{.q = dense_view(q_.data(), dtype_, {s.batch, s.n_q, s.heads, s.d}),
               .k = dense_view(k_.data(), dtype_, {s.batch, s.n_k, s.kv_heads, s.d}),
               .v = dense_view(v_.data(), dtype_, {s.batch, s.n_k, s.kv_heads, s.d_v}),
               .out = dense_output(whole_out_.data(), dtype_, {s.batch, s.n_q, s.heads, s.d_v}),
               .inputs = named_};
  args.dropout_seed = s.dropout_seed;
  if (has_lse_) (branches_ > 0 ? args.branch_lse : args.lse) = lse_of(whole_lse_, s.n_q);
  WEFT_CHECK(kernel_->run(args));
  return backward_ ? run_whole_backward(args) : done;
}

std::vector<NamedOutput> RingRunner::places_of(OfInputs& gradients) const {
  std::vector<NamedOutput> out;
  for (std::size_t i = 0; i < named_.size(); ++i) {
    const auto& like = named_[i].view;
    if (like.dtype != DType::f32) continue;
    auto& room = gradients[i];
    room.assign(numbers_of(like), -5);
    out.push_back({.name = named_[i].name,
                   .view = {.data = room.data(),
                            .dtype = DType::f32,
                            .rank = like.rank,
                            .extent = like.extent,
                            .stride = like.stride}});
  }
  return out;
}

std::string RingRunner::difference_of_inputs() const {
  for (const auto& [number, whole] : whole_inputs_) {
    float largest = 0;
    for (const float x : whole) largest = std::max(largest, std::abs(x));
    for (const auto& of_rank : ring_inputs_) {
      const auto& found = of_rank.at(number);
      if (std::memcmp(found.data(), ring_inputs_[0].at(number).data(), found.size() * sizeof(float)) != 0)
        return fmt::format(" ranks differ in the gradient of {}", names_[number]);
      for (std::size_t i = 0; i < whole.size(); ++i) {
        if (!(std::abs(found[i] - whole[i]) <= 1e-5F * largest))
          return fmt::format(" the gradient of {} is {} at {}, not {}", names_[number], found[i], i, whole[i]);
      }
    }
  }
  return {};
}

Status RingRunner::run_whole_backward(RunArgs args) {
  const auto& s = program_.shape;
  const Bytes* const like[] = {&q_, &k_, &v_};
  for (std::size_t i = 0; i < 3; ++i) {
    whole_d_[i].assign(like[i]->size(), std::byte{0xaa});
    ring_d_[i].assign(like[i]->size(), std::byte{0xbb});
  }
  args.dq = dense_output(whole_d_[0].data(), dtype_, {s.batch, s.n_q, s.heads, s.d});
  args.dk = dense_output(whole_d_[1].data(), dtype_, {s.batch, s.n_k, s.kv_heads, s.d});
  args.dv = dense_output(whole_d_[2].data(), dtype_, {s.batch, s.n_k, s.kv_heads, s.d_v});
  args.d_out = dense_view(d_out_.data(), dtype_, {s.batch, s.n_q, s.heads, s.d_v});
  if (has_lse_) args.d_lse = operand(lse_of(d_lse_, s.n_q));
  const auto places = places_of(whole_inputs_);
  args.d_inputs = places;
  return backward_->run(args);
}

Status RingRunner::run_backward(Ring& ring, const RingShape& shape, RingArgs args, int times, RankOutcome& outcome) {
  const auto& s = program_.shape;
  WEFT_TRY(const auto plan, ring.plan(*backward_, shape, named_));
  const auto& own = plan->owned(ring.rank());
  const std::int64_t rows = plan->share().tokens;
  const Bytes d_out = rows_of(d_out_, own, s.batch, s.n_q);
  std::vector<float> d_lse(static_cast<std::size_t>(lse_of_a_row() * s.batch * s.heads * rows));
  each_lse(own, s, lse_of_a_row(), rows, [&](std::size_t whole, std::size_t local) { d_lse[local] = d_lse_[whole]; });
  std::array<Bytes, 3> results;
  for (std::size_t i = 0; i < 3; ++i)
    results[i].assign(whole_d_[i].size() / static_cast<std::size_t>(s.n_q) * static_cast<std::size_t>(rows),
                      std::byte{0xcc});
  args.d_out = dense_view(d_out.data(), dtype_, {s.batch, rows, s.heads, s.d_v});
  if (has_lse_) args.d_lse = operand(lse_of(d_lse, rows));
  args.dq = dense_output(results[0].data(), dtype_, {s.batch, rows, s.heads, s.d});
  args.dk = dense_output(results[1].data(), dtype_, {s.batch, rows, s.kv_heads, s.d});
  args.dv = dense_output(results[2].data(), dtype_, {s.batch, rows, s.kv_heads, s.d_v});
  const auto places = places_of(ring_inputs_[static_cast<std::size_t>(ring.rank())]);
  args.d_inputs = places;
  for (int i = 0; i < times; ++i) WEFT_CHECK(plan->run(args));
  for (std::size_t i = 0; i < 3; ++i) put_rows(results[i], ring_d_[i], own, s.batch, s.n_q);
  outcome.backward = plan->share();
  return done;
}

void RingRunner::run_rank(std::unique_ptr<Transport> transport, const RingOptions& options, int times, bool lend,
                          RankOutcome& outcome) {
  const auto& s = program_.shape;
  const int rank = transport->rank();
  const auto run = [&]() -> Status {
    WEFT_TRY(const auto ring, Ring::join(std::move(transport), options));
    RingShape shape{.batch = s.batch, .tokens = s.n_q, .heads = s.heads, .kv_heads = s.kv_heads};
    if (distort) distort(rank, shape);
    WEFT_TRY(const auto plan, ring->plan(*kernel_, shape, named_));
    const auto& own = plan->owned(rank);
    const Bytes q = rows_of(q_, own, s.batch, s.n_q), k = rows_of(k_, own, s.batch, s.n_q),
                v = rows_of(v_, own, s.batch, s.n_q);
    const std::int64_t rows = plan->share().tokens;
    Bytes out(static_cast<std::size_t>(s.batch * rows * s.heads * s.d_v) * size_of(dtype_), std::byte{0xee});
    std::vector<float> lse(static_cast<std::size_t>(lse_of_a_row() * s.batch * s.heads * rows), -8);
    RingArgs args{.q = dense_view(q.data(), dtype_, {s.batch, rows, s.heads, s.d}),
                  .k = dense_view(k.data(), dtype_, {s.batch, rows, s.kv_heads, s.d}),
                  .v = dense_view(v.data(), dtype_, {s.batch, rows, s.kv_heads, s.d_v}),
                  .out = dense_output(out.data(), dtype_, {s.batch, rows, s.heads, s.d_v}),
                  .inputs = named_,
                  .dropout_seed = s.dropout_seed,
                  .threads = 1};
    if (has_lse_) (branches_ > 0 ? args.branch_lse : args.lse) = lse_of(lse, rows);
    if (lend && plan->own_k().data != nullptr) {
      const auto write = [&](const OutputView& to, const Bytes& from) {
        const auto heads = to.extent[2], dim = to.extent[3];
        const auto bytes = static_cast<std::size_t>(dim) * size_of(dtype_);
        const auto* next = from.data();
        for (std::int64_t b = 0; b < s.batch; ++b) {
          for (std::int64_t row = 0; row < rows; ++row) {
            for (std::int64_t h = 0; h < heads; ++h, next += bytes) {
              const auto at = b * to.stride[0] + row * to.stride[1] + h * to.stride[2];
              std::memcpy(static_cast<std::byte*>(to.data) + static_cast<std::size_t>(at) * size_of(dtype_), next,
                          bytes);
            }
          }
        }
      };
      write(plan->own_k(), k);
      write(plan->own_v(), v);
      args.k = args.v = {};
    }
    for (int i = 0; i < times; ++i) WEFT_CHECK(plan->run(args));
    put_rows(out, ring_out_, own, s.batch, s.n_q);
    each_lse(own, s, lse_of_a_row(), rows,
             [&](std::size_t whole, std::size_t local) { ring_lse_[whole] = lse[local]; });
    if (backward_) {
      args.k = dense_view(k.data(), dtype_, {s.batch, rows, s.kv_heads, s.d});
      args.v = dense_view(v.data(), dtype_, {s.batch, rows, s.kv_heads, s.d_v});
      WEFT_CHECK(run_backward(*ring, shape, args, times, outcome));
    }
    outcome.share = plan->share();
    outcome.summary = plan->summary();
    return ring->barrier();
  };
  outcome.status = run();
}

std::vector<RankOutcome> RingRunner::run_ring(Transports transports, const RingOptions& options, int times, bool lend) {
  ring_out_.assign(whole_out_.size(), std::byte{0xdd});
  ring_lse_.assign(whole_lse_.size(), -9);
  ring_inputs_.assign(transports.size(), {});
  std::vector<RankOutcome> outcomes(transports.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < transports.size(); ++rank) {
    threads.emplace_back([&, rank] { run_rank(std::move(transports[rank]), options, times, lend, outcomes[rank]); });
  }
  for (auto& thread : threads) thread.join();
  return outcomes;
}

std::string wrong_bytes(const std::vector<RankOutcome>& outcomes, RingShare RankOutcome::*pass) {
  std::size_t sent = 0, received = 0;
  for (const auto& outcome : outcomes) {
    if (!outcome.status.ok()) return outcome.status.error().message;
    const RingShare& share = outcome.*pass;
    sent += share.sent_bytes;
    received += share.received_bytes;
    if (share.received_bytes != share.needed_bytes)
      return fmt::format("needed {} bytes, received {}", share.needed_bytes, share.received_bytes);
  }
  return sent == received ? "" : fmt::format("sent {}, received {}", sent, received);
}

std::size_t sent_bytes(const std::vector<RankOutcome>& outcomes, RingShare RankOutcome::*pass) {
  std::size_t sent = 0;
  for (const auto& outcome : outcomes) sent += (outcome.*pass).sent_bytes;
  return sent;
}

double RingRunner::apart() const {
  const double of_out = test::apart(numbers_of(whole_out_, dtype_), numbers_of(ring_out_, dtype_));
  return has_lse_ ? std::max(of_out, test::apart(whole_lse_, ring_lse_)) : of_out;
}

std::string RingRunner::difference() const {
  const auto& s = program_.shape;
  const std::size_t width = whole_out_.size() / static_cast<std::size_t>(s.batch * s.n_q);
  std::string out;
  for (std::size_t row = 0; row < static_cast<std::size_t>(s.batch * s.n_q); ++row) {
    if (std::memcmp(whole_out_.data() + row * width, ring_out_.data() + row * width, width) != 0)
      out += fmt::format(" {}", row);
  }
  if (!out.empty()) out = "rows differ:" + out;
  if (has_lse_ && std::memcmp(whole_lse_.data(), ring_lse_.data(), whole_lse_.size() * sizeof(float)) != 0)
    out += " LSE differs";
  for (std::size_t i = 0; i < 3; ++i) {
    if (whole_d_[i] == ring_d_[i]) continue;
    const auto row = whole_d_[i].size() / static_cast<std::size_t>(s.batch * s.n_q);
    const auto at = std::mismatch(whole_d_[i].begin(), whole_d_[i].end(), ring_d_[i].begin()).first;
    out +=
        fmt::format(" d{} differs from row {} on", "qkv"[i], static_cast<std::size_t>(at - whole_d_[i].begin()) / row);
  }
  return out + (backward_ ? difference_of_inputs() : std::string());
}

}  // namespace weft::test
