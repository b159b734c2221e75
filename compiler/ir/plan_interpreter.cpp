#include "compiler/ir/plan_interpreter.h"

#include "compiler/ir/philox.h"
#include "compiler/ir/schedule.h"

#include <cmath>
#include <limits>

namespace weft::ir {
namespace {

constexpr double kNone = -std::numeric_limits<double>::infinity();

using TileVisitor = std::function<void(int pass, std::int64_t x, std::int64_t y, int weight)>;

void visit_tile(const HeadTable& head, const TileRows& rows, const Extent& extent, const TileVisitor& visit) {
  std::vector<Zone> zones;
  for (std::size_t p = 0; p < head.passes.size(); ++p) {
    const PassTable& pass = head.passes[p];
    zones_of_tile(pass, rows, extent, zones);
    for (bool full : {true, false}) {
      for (const auto& zone : zones) {
        if (zone.full != full) continue;
        for_each_hit(pass, zone, rows, extent, [&](const Hit& hit) {
          for (std::size_t r = 0; r < rows.x.size(); ++r) {
            visit(static_cast<int>(p), rows.x[r], hit.y, weight_of(pass, hit, full, rows, r, extent));
          }
        });
      }
    }
  }
}

/// Softmax state of one row: the carried state of a kernel, in f64.
struct State {
  double m = kNone;
  double l = 0;
  std::vector<double> acc;
  /// `kept`: what dropout leaves of the weight, for the output alone.
  void add(double s, int weight, double kept, const double* v, std::int64_t d_v) {
    if (acc.empty()) acc.assign(static_cast<std::size_t>(d_v), 0);
    if (s > m) {
      const double shrink = m == kNone ? 0 : std::exp(m - s);
      for (auto& a : acc) a *= shrink;
      l *= shrink;
      m = s;
    }
    const double w = m == kNone ? 0 : weight * std::exp(s - m);
    l += w;
    for (std::size_t c = 0; kept > 0 && c < acc.size(); ++c) acc[c] += w * kept * v[c];
  }
  void add_directly(double weight, const double* v, std::int64_t d_v) {
    acc.resize(static_cast<std::size_t>(d_v));
    for (std::size_t c = 0; weight > 0 && c < acc.size(); ++c) acc[c] += weight * v[c];
    l = 1;
  }
  /// A further term of the sum that has no value.
  void join_sink(double s) {
    const double top = std::max(m, s);
    if (top == kNone) return;
    for (auto& a : acc) a *= std::exp(m - top);
    l = (m == kNone ? 0 : l * std::exp(m - top)) + std::exp(s - top);
    m = top;
  }
  double lse() const { return l > 0 ? m + std::log(l) : kNone; }
};

class Runner {
 public:
  Runner(const Plan& plan, const Shape& shape, const Tensor& q, const Tensor& k, const Tensor& v,
         const InputValues& inputs, Outcome& out)
      : plan_(plan),
        shape_(shape),
        q_(q),
        k_(k),
        v_(v),
        out_(out),
        pairs_(plan, shape, inputs, &q, &k),
        threshold_(dropout_threshold(plan.dropout)) {
    scale_ = plan.scale ? *plan.scale : 1 / std::sqrt(static_cast<double>(plan.bind.d));
  }

  void run_head(const Tables& tables, std::int64_t b, std::int64_t h, const std::vector<Tensor>& inputs) {
    states_.assign(static_cast<std::size_t>(shape_.n_q), {});
    TileRows rows;
    for (std::size_t p = 0; p < plan_.phases.size(); ++p) {
      const Phase& phase = plan_.phases[p];
      const HeadTable& head = tables.phases[p].of(h);
      Extent extent = extent_of(shape_, b, phase.stationary, &inputs, &tables);
      extent.h = h;
      extent.pairs = &pairs_;
      const bool last = phase.carry == Carry::none || phase.carry == Carry::in;
      const std::int64_t tiles = tile_count(phase, head, extent);
      for (std::int64_t tile = 0; tile < tiles; ++tile) {
        rows_of_tile(phase, head, extent, tile, rows);
        if (!rows.x.empty()) run_tile(phase, head, rows, extent, b, h, last);
      }
    }
  }

 private:
  void run_tile(const Phase& phase, const HeadTable& head, const TileRows& rows, const Extent& extent, std::int64_t b,
                std::int64_t h, bool last) {
    int current = -1;
    const auto finish = [&](int upto) {
      for (; current >= 0 && current < upto; ++current)
        close(phase, phase.passes[static_cast<std::size_t>(current)], rows, extent, b, h, last);
    };
    current = 0;
    visit_tile(head, rows, extent, [&](int pass, std::int64_t x, std::int64_t y, int weight) {
      finish(pass);
      if (weight == 0) return;
      State& state = states_[static_cast<std::size_t>(x - extent.x_begin)];
      const double s = score(b, h, x, x - extent.x_begin, y), kept = left(b, h, x, y);
      const double* const value = &v_.data[index(v_, b, y, h)];
      plan_.weights == Weights::direct ? state.add_directly(weight * s * kept, value, shape_.d_v)
                                       : state.add(s, weight, kept, value, shape_.d_v);
    });
    finish(static_cast<int>(phase.passes.size()));
  }

  std::size_t index(const Tensor& t, std::int64_t b, std::int64_t y, std::int64_t h) const {
    const std::int64_t hk = h / (shape_.heads / shape_.kv_heads);
    return static_cast<std::size_t>(((b * t.shape[1] + y) * t.shape[2] + hk) * t.shape[3]);
  }

  double left(std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k) const {
    if (plan_.dropout == 0) return 1;
    return dropped(shape_.dropout_seed, threshold_, b, h, q, k) ? 0 : 1 / (1 - plan_.dropout);
  }

  double score(std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t row, std::int64_t k) {
    const double* key = &k_.data[index(k_, b, k, h)];
    double dot = 0;
    for (std::int64_t c = 0; c < shape_.d; ++c) dot += q_.at(b, row, h, c) * key[c];
    const double s = pairs_.score(dot * scale_, b, h, q, k);
    if (std::isfinite(s)) out_.max_abs_score = std::max(out_.max_abs_score, std::abs(s));
    return s;
  }

  void close(const Phase& phase, const Pass& pass, const TileRows& rows, const Extent& extent, std::int64_t b,
             std::int64_t h, bool last) {
    if (!last) return;
    for (auto x : rows.x) {
      const std::int64_t row = x - extent.x_begin;
      State& state = states_[static_cast<std::size_t>(row)];
      if (plan_.sink_logit) state.join_sink(pairs_.sink_logit(h));
      if (pass.lse) lse(pass.lse_slot, b, h, row) = state.lse();
      if (pass.out && state.l > 0 && !state.acc.empty()) {
        for (std::int64_t c = 0; c < shape_.d_v; ++c) {
          out_.o.at(b, row, h, c) += pass.factor * state.acc[static_cast<std::size_t>(c)] / state.l;
        }
      }
      if (phase.passes.size() > 1) state = {};
    }
  }

  double& lse(int slot, std::int64_t b, std::int64_t h, std::int64_t row) {
    return slot < 0 ? out_.lse.data[static_cast<std::size_t>((b * shape_.heads + h) * shape_.n_q + row)]
                    : out_.branch_lse.at(slot, b, h, row);
  }

  const Plan& plan_;
  const Shape& shape_;
  const Tensor &q_, &k_, &v_;
  Outcome& out_;
  PairValues pairs_;
  std::uint64_t threshold_;
  double scale_ = 1;
  std::vector<State> states_;
};

}  // namespace

void visit_pairs(const Plan& plan, const Tables& tables, const Shape& shape, const std::vector<Tensor>& inputs,
                 const std::function<void(const Visit&)>& visit, const Tensor* q, const Tensor* k) {
  const PairValues pairs(plan, shape, inputs, q, k);
  TileRows rows;
  Visit at;
  for (at.phase = 0; at.phase < static_cast<int>(plan.phases.size()); ++at.phase) {
    const Phase& phase = plan.phases[static_cast<std::size_t>(at.phase)];
    const PhaseTable& table = tables.phases[static_cast<std::size_t>(at.phase)];
    for (at.b = 0; at.b < shape.batch; ++at.b) {
      Extent extent = extent_of(shape, at.b, phase.stationary, &inputs, &tables);
      extent.pairs = &pairs;
      for (at.h = 0; at.h < shape.heads; ++at.h) {
        extent.h = at.h;
        const HeadTable& head = table.of(at.h);
        const std::int64_t tiles = tile_count(phase, head, extent);
        for (std::int64_t tile = 0; tile < tiles; ++tile) {
          rows_of_tile(phase, head, extent, tile, rows);
          visit_tile(head, rows, extent, [&](int pass, std::int64_t x, std::int64_t y, int weight) {
            at.pass = pass;
            at.x = x;
            at.y = y;
            at.weight = weight;
            visit(at);
          });
        }
      }
    }
  }
}

Result<Outcome> interpret_plan(const Plan& plan, const Shape& shape, const Tensor& q, const Tensor& k, const Tensor& v,
                               const InputValues& inputs) {
  if (auto wrong = verify(plan); !wrong.empty()) return internal_error("the plan is not sound: " + wrong.front());
  WEFT_TRY(const Tables tables, make_tables(plan, shape.heads));
  Outcome out;
  out.o = Tensor({shape.batch, shape.n_q, shape.heads, shape.d_v});
  const bool separate = plan.combine == Combine::sum || plan.combine == Combine::mean;
  if (!separate && plan.weights == Weights::softmax) out.lse = Tensor({shape.batch, shape.heads, shape.n_q}, kNone);
  if (separate || plan.bind.branch_lse)
    out.branch_lse = Tensor({plan.branches, shape.batch, shape.heads, shape.n_q}, kNone);
  Runner runner(plan, shape, q, k, v, inputs, out);
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    for (std::int64_t h = 0; h < shape.heads; ++h) runner.run_head(tables, b, h, inputs);
  }
  return out;
}

}  // namespace weft::ir
