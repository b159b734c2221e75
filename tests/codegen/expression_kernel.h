#pragma once

#include "codegen/args.h"
#include "codegen/cpu/expression.h"
#include "compiler/ir/pattern_interpreter_problem.h"
#include "runtime/object/loaded_object.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

/// Expressions compiled by themselves, and what the interpreter makes of them: for tests of their spelling.
namespace weft::testing {

inline constexpr int kMostLanes = 16;

/// What a test kernel finds in its scratch, and leaves there: one result per expression and lane, as its bits.
struct Place {
  std::int64_t q[kMostLanes] = {};
  float s[kMostLanes] = {};
  std::int64_t b = 0, h = 0, k = 0, n_q = 0, n_k = 0, heads = 1, offset = 0;
  std::int64_t result[1];
};

struct Results {
  std::vector<std::int64_t> words;
  std::int64_t integer(std::size_t lane) const { return words[lane]; }
  double real(std::size_t lane) const {
    double out = 0;
    std::memcpy(&out, &words[lane], 8);
    return out;
  }
};

/// Expressions compiled into a kernel that computes one vector of each.
class ExpressionKernel {
 public:
  ExpressionKernel(const std::vector<ir::ExprPtr>& expressions, const std::vector<ir::Input>& inputs,
                   const Target& target);

  const std::string& text() const { return text_; }
  std::size_t lanes() const { return static_cast<std::size_t>(lanes_); }

  std::vector<Results> run(const Place& place, weft_args args = {}) const;

 private:
  int lanes_;
  std::size_t count_;
  std::string text_;
  std::shared_ptr<const object::LoadedObject> object_;
  void (*entry_)(const void*) = nullptr;
};

/// An input of a pattern.
inline ir::Input input(const char* name, ir::InputType type, std::vector<ir::Axis> axes) {
  ir::Input out;
  out.name = name;
  out.type = type;
  out.axes = std::move(axes);
  return out;
}

/// The interpreter's values at the same place.
class Reference {
 public:
  Reference(const std::vector<ir::Input>& inputs, const std::vector<ir::Tensor>& tensors, const Place& place)
      : tensors_(tensors), place_(place) {
    pattern_.inputs = inputs;
    shape_.heads = place.heads;
    shape_.offset = {place.offset};
  }

 private:
  double s(std::size_t lane) const { return static_cast<double>(place_.s[lane]); }
  template <typename Use>
  auto with(std::size_t lane, const Use& use) const {
    const ir::Problem problem{.pattern = pattern_, .shape = shape_, .inputs = tensors_};
    const ir::Scope scope{.problem = problem, .n_q = place_.n_q, .n_k = place_.n_k};
    return use(scope, ir::Pair{.b = place_.b, .h = place_.h, .q = place_.q[lane], .k = place_.k});
  }

 public:
  std::int64_t integer(const ir::Expr& e, std::size_t lane) const {
    return with(lane, [&](const auto& scope, const auto& pair) {
      return e.type == ir::Type::boolean ? std::int64_t{ir::evaluate_boolean(e, scope, pair, s(lane))}
                                         : ir::evaluate_integer(e, scope, pair, s(lane));
    });
  }
  double real(const ir::Expr& e, std::size_t lane) const {
    return with(lane, [&](const auto& scope, const auto& pair) { return ir::evaluate_real(e, scope, pair, s(lane)); });
  }

 private:
  const std::vector<ir::Tensor>& tensors_;
  Place place_;
  ir::Pattern pattern_;
  ir::Shape shape_;
};

}  // namespace weft::testing
