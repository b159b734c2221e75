#pragma once

#include "compiler/ir/plan.h"

#include <string_view>

/// Words of the plan's text, one list per enum, shared by printer and parser.
namespace weft::ir {

template <typename E>
struct Word {
  E value;
  std::string_view name;
};

inline constexpr Word<Variable> kVariables[] = {{Variable::b, "b"},     {Variable::h, "h"},     {Variable::q, "q"},
                                                {Variable::k, "k"},     {Variable::n_q, "n_q"}, {Variable::n_k, "n_k"},
                                                {Variable::heads, "H"}, {Variable::s, "s"}};
inline constexpr Word<Role> kRoles[] = {{Role::attend, "attend"}, {Role::inputs, "inputs"}};
inline constexpr Word<Carry> kCarries[] = {
    {Carry::none, "none"}, {Carry::out, "out"}, {Carry::inout, "inout"}, {Carry::in, "in"}};
inline constexpr Word<Combine> kCombines[] = {{Combine::joint, "joint"},
                                              {Combine::joint_detached, "joint_detached"},
                                              {Combine::unite, "union"},
                                              {Combine::sum, "sum"},
                                              {Combine::mean, "mean"}};
inline constexpr Word<KernelClass> kClasses[] = {
    {KernelClass::vector, "vector"}, {KernelClass::simt, "simt"}, {KernelClass::mma, "mma"}};
inline constexpr Word<DType> kDTypes[] = {{DType::f32, "f32"}, {DType::f16, "f16"}, {DType::bf16, "bf16"}};
inline constexpr Word<InputType> kInputTypes[] = {
    {InputType::i32, "i32"}, {InputType::u8, "u8"}, {InputType::f32, "f32"}};
inline constexpr Word<List::Kind> kLists[] = {{List::Kind::random, "random"},
                                              {List::Kind::top, "top"},
                                              {List::Kind::spans, "spans"},
                                              {List::Kind::meets, "meets"},
                                              {List::Kind::choosers, "choosers"}};
inline constexpr Word<RingLayout> kLayouts[] = {{RingLayout::automatic, "auto"},
                                                {RingLayout::contiguous, "contiguous"},
                                                {RingLayout::zigzag, "zigzag"},
                                                {RingLayout::striped, "striped"}};
inline constexpr Word<Axis::Kind> kAxes[] = {{Axis::Kind::batch, "batch"},     {Axis::Kind::heads, "heads"},
                                             {Axis::Kind::queries, "queries"}, {Axis::Kind::keys, "keys"},
                                             {Axis::Kind::tokens, "tokens"},   {Axis::Kind::blocks, "blocks"}};

template <typename E, std::size_t N>
constexpr std::string_view word(const Word<E> (&words)[N], E value) {
  for (const auto& w : words) {
    if (w.value == value) return w.name;
  }
  return "?";
}

}  // namespace weft::ir
