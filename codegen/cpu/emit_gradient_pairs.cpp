#include "codegen/cpu/pairs.h"
#include "codegen/cpu/products.h"

#include <optional>

/// Gradients, pair by pair: from S and dP, which products left in the scratch, to P and dS.
namespace weft::codegen::cpu {
namespace {

const Value kZero = Part::i64(0);

using ir::Variable;

const Value kInfinity{"float", "0x7FF0000000000000"};

/// What a slope makes of the gradient behind it: 0 where either is, also of infinities and NaN.
Value passed_on(Part& f, const Value& slope, const Value& d_score) {
  const Value none = f.bit_or(f.fcmp("oeq", slope, f.vsplat(0)), f.fcmp("oeq", d_score, f.vsplat(0)));
  return f.select(none, f.vsplat(0), f.fmul(slope, d_score));
}

/// Where an element's gradient is added up, if it is wanted.
void when_wanted(Part& f, std::size_t number, const std::function<void(const Value&)>& body) {
  const Value sums = f.in_scratch(f.kernel.input_sums + static_cast<std::int64_t>(number * sizeof(ElementSums)));
  f.when(f.icmp("ne", f.load("ptr", sums, 8), {"ptr", "null"}), [&] { body(sums); });
}

void add_to_place(Part& f, const Value& sums, const Value& place, const Value& value) {
  const Value first_at = f.at(sums, "i8", Part::i64(offsetof(ElementSums, first)));
  const Value last_at = f.at(sums, "i8", Part::i64(offsetof(ElementSums, last)));
  const Value to = f.at(f.load("ptr", sums, 8), "float", place);
  f.store(f.fadd(f.load("float", to, 4), value), to, 4);
  f.store(f.min(f.load("i64", first_at, 8), place), first_at, 8);
  f.store(f.max(f.load("i64", last_at, 8), place), last_at, 8);
}

/// What a vector of rows gives to an element of an input. Where all rows read one, their sum.
void add_to_element(Part& f, std::size_t number, Expression& pair, const Value& gradient) {
  const Kernel& k = f.kernel;
  when_wanted(f, number, [&](const Value& sums) {
    Expression inner = pair;
    const Value place = inner.place(*k.of_elements[number]);
    const auto add = [&](const Value& at, const Value& value) { add_to_place(f, sums, at, value); };
    const Value values = f.in_scratch(k.lane_values), places = f.in_scratch(k.lane_places);
    f.vstore(gradient, values, kZero);
    const bool one_place = place.type == "i64";
    if (!one_place) f.store(place, places, 64);
    const auto value_of = [&](const Value& lane) { return f.load("float", f.at(values, "float", lane), 4); };
    if (!one_place) {
      f.for_each(kZero, Part::i64(k.lanes), 1,
                 [&](const Value& lane) { add(f.load("i64", f.at(places, "i64", lane), 8), value_of(lane)); });
      return;
    }
    const auto sum = f.fold(kZero, Part::i64(k.lanes), 1, {Part::f32(0)}, [&](const Value& lane, const auto& before) {
      return std::vector<Value>{f.fadd(before[0], value_of(lane))};
    });
    add(place, sum[0]);
  });
}

/// A block's pairs of one vector of rows: scores to weights, and dP to dS.
class Pairs {
 public:
  Pairs(Part& f, bool kept, const Value& v)
      : f_(f),
        k_(f.kernel),
        kept_(kept),
        v_(v),
        from_(f.vload(f.in_scratch(k_.top), v)),
        delta_(f.vload(f.in_scratch(k_.delta), v)),
        is_row_(f.fcmp("une", from_, f.splat(kInfinity, k_.lanes))) {}

  /// rowsum(P dP) of the block joins that of the row; where branches mix, rowsum(P) too, and each branch's apart.
  void sum_up() {
    if (k_.branches > 0) return sum_up_branches();
    const auto total = over_keys({f_.vsplat(0)}, [&](const Value&, const Pair& pair, std::vector<Value>& sums) {
      const Value share = f_.fma(pair.weight, pair.d_weight, sums[0]);
      sums[0] = kept_ ? f_.select(pair.holds, share, sums[0]) : share;
    });
    add_to(f_, total[0], f_.at(f_.in_scratch(k_.row_dot), "float", v_));
  }

  void rewrite() {
    over_keys({}, [&](const Value& key, Pair& pair, std::vector<Value>&) {
      Value d_score =
          k_.direct != 0 ? f_.fmul(pair.count, pair.d_weight) : f_.fmul(pair.weight, f_.fsub(pair.d_weight, delta_));
      if (k_.branches > 0) {
        const Value of_branches =
            each_branch(key, {f_.vsplat(0)}, [&](const Value& at, const Value& held, const auto& sum) {
              const Value delta = f_.vload(at_row(k_.branch_delta, at), kZero);
              return std::vector<Value>{f_.select(held, f_.fadd(sum[0], delta), sum[0])};
            })[0];
        d_score = f_.fsub(d_score, f_.fmul(pair.once, of_branches));
      }
      if (kept_) d_score = f_.select(pair.holds, d_score, f_.vsplat(0));
      if (k_.plan.score) {
        for (std::size_t i = 0; i < k_.score_elements(); ++i) {
          const Value gradient = passed_on(f_, pair.score->vector(*k_.element_slopes[i]), d_score);
          add_to_element(f_, i, *pair.score, gradient);
        }
        d_score = passed_on(f_, pair.score->vector(*k_.slope), d_score);
      }
      f_.vstore(pair.of_value, f_.pair_at(k_.scores, key, v_), kZero);
      f_.vstore(d_score, f_.pair_at(k_.d_scores, key, v_), kZero);
    });
  }

 private:
  struct Pair {
    Value weight;                     ///< P without dropout
    Value once;                       ///< the same of a pair that one branch keeps
    Value count;                      ///< how many do
    Value of_value;                   ///< what V is multiplied by
    Value d_weight;                   ///< what becomes of dO V^T
    Value holds;                      ///< does the row keep the key?
    std::optional<Expression> score;  ///< where s, q and k are known
  };

  std::vector<Value> over_keys(std::vector<Value> initial,
                               const std::function<void(const Value&, Pair&, std::vector<Value>&)>& body) {
    std::optional<Expression> rows;
    if (k_.plan.score) rows = score_of_rows(f_, v_);
    initial.push_back(Part::i64(-1));
    return each_key(f_, kept_, std::move(initial), [&](const Value& key, std::vector<Value> handed) {
      Value drawn = handed.back();
      handed.pop_back();
      Pair pair;
      Value s = f_.vload(f_.pair_at(k_.scores, key, v_), kZero);
      if (rows) {
        pair.score = rows;
        if (k_.positions != 0) pair.score->let(Variable::k, key_position(f_, key));
        pair.score->let(Variable::s, s);
        s = pair.score->vector(*k_.plan.score);
        if (k_.direct == 0) s = f_.fmul(s, f_.vsplat(1.4426950408889634));
      }
      weigh(key, s, pair);
      pair.d_weight = f_.vload(f_.pair_at(k_.d_scores, key, v_), kZero);
      pair.of_value = pair.weight;
      if (k_.plan.dropout > 0) {
        const Drawn now = draw_for(f_, key, drawn, v_);
        drawn = now.four;
        const Value factor = f_.vsplat(1 / (1 - k_.plan.dropout));
        const auto dropped = [&](const Value& x) { return f_.select(now.stays, f_.fmul(x, factor), f_.vsplat(0)); };
        pair.of_value = dropped(pair.weight);
        pair.d_weight = dropped(pair.d_weight);
      }
      body(key, pair, handed);
      handed.push_back(drawn);
      return handed;
    });
  }

  void sum_up_branches() {
    over_keys({}, [&](const Value& key, Pair& pair, std::vector<Value>&) {
      each_branch(key, {}, [&](const Value& branch, const Value& held, const auto& nothing) {
        const auto add = [&](std::int64_t base, const Value& value) {
          add_to(f_, f_.select(held, value, f_.vsplat(0)), at_row(base, branch));
        };
        add(k_.branch_dot, f_.fmul(pair.once, pair.d_weight));
        add(k_.branch_total, pair.once);
        return nothing;
      });
    });
  }

  /// Which of the vector's rows keep the key in a branch: for all of them.
  std::vector<Value> each_branch(
      const Value& key, std::vector<Value> values,
      const std::function<std::vector<Value>(const Value&, const Value&, const std::vector<Value>&)>& body) {
    constexpr int kMostInLine = 8;
    const auto one = [&](const Value& branch, const std::vector<Value>& before) {
      return body(branch, f_.mask_at(f_.kept_by_branch_at(branch, key, v_)), before);
    };
    if (k_.branches > kMostInLine) return f_.fold(kZero, Part::i64(k_.branches), 1, std::move(values), one);
    for (int i = 0; i < k_.branches; ++i) values = one(Part::i64(i), values);
    return values;
  }
  Value at_row(std::int64_t base, const Value& branch) {
    return f_.at(f_.at(f_.in_scratch(base), "float", f_.mul(branch, Part::i64(k_.rows))), "float", v_);
  }

  void weigh(const Value& key, const Value& s, Pair& pair) {
    // Smaller ones would be denormal numbers in what they are multiplied by, and slow.
    constexpr double kLeast = -100;
    const Value x = f_.fsub(s, from_);
    Value p = k_.direct != 0 ? s : f_.select(f_.fcmp("olt", x, f_.vsplat(kLeast)), f_.vsplat(0), f_.exp2(x));
    pair.once = p;
    if (!kept_) {
      pair.count = broadcast(f_, Part::argument("ptr", "weights"), key);
      pair.weight = f_.fmul(p, pair.count);
      return;
    }
    pair.holds = f_.bit_and(f_.kept(key, v_), is_row_);
    pair.once = f_.select(pair.holds, p, f_.vsplat(0));
    pair.count = k_.counts ? f_.vload(f_.pair_at(k_.weight, key, v_), kZero) : f_.vsplat(1);
    if (k_.counts) p = f_.fmul(p, pair.count);
    pair.weight = f_.select(pair.holds, p, f_.vsplat(0));
  }

  Part& f_;
  const Kernel& k_;
  bool kept_;
  Value v_, from_, delta_, is_row_;
};

constexpr const char* kPairParameters = "ptr %weights, ptr %positions, i64 %count, i64 %v, i64 %only_delta";

/// @pair_gradients, @pair_gradients_kept: of keys that every row keeps, or of listed groups.
std::string pair_gradients(const Kernel& k, bool kept) {
  Part f(k, kept ? "pair_gradients_kept" : "pair_gradients", "void", kPairParameters);
  f.describe("what pairs add for the inputs of their scores, and dS of the scaled products");
  const Value v = Part::argument("i64", "v");
  const auto rewrite = [&] { Pairs(f, kept, v).rewrite(); };
  if (k.many_passes || k.branches > 0) {
    f.when(
        f.icmp("ne", Part::argument("i64", "only_delta"), kZero), [&] { Pairs(f, kept, v).sum_up(); }, rewrite);
  } else {
    rewrite();
  }
  f.ret();
  return f.finish();
}

/// @add_sink: what rows of a head give to the elements that its sink is made of.
std::string add_sink(const Kernel& k) {
  Part f(k, "add_sink", "void", "i64 %h, float %gradient");
  f.seldom();
  Expression e = expression_at(f, 1);
  e.let(Variable::h, Part::argument("i64", "h"));
  for (std::size_t i = k.score_elements(); i < k.of_elements.size(); ++i) {
    when_wanted(f, i, [&](const Value& sums) {
      Expression inner = e;
      const Value slope = inner.value(*k.element_slopes[i]), place = inner.place(*k.of_elements[i]);
      add_to_place(f, sums, place, f.fmul(slope, Part::argument("float", "gradient")));
    });
  }
  f.ret();
  return f.finish();
}

}  // namespace

std::string emit_gradient_pairs(const Kernel& k) {
  return ";; Gradients: single pairs\n" + pair_gradients(k, false) + pair_gradients(k, true) +
         (k.sink_elements > 0 ? add_sink(k) : "");
}

}  // namespace weft::codegen::cpu
