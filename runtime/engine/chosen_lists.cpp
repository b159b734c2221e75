#include "runtime/engine/chosen_lists.h"

#include "runtime/engine/lists.h"
#include "runtime/engine/reference.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft {

namespace {

/// What the planner makes of a set.
ir::List list_of(const ir::ChosenSet& chosen) {
  const ir::Set& set = *chosen.set;
  const bool random = set.kind == ir::SetKind::random;
  return {.kind = random ? ir::List::Kind::random : ir::List::Kind::top,
          .count = set.args[0],
          .block = chosen.block,
          .seed = random ? set.args[1] : 0,
          .input = random ? -1 : set.input,
          .causal = !random && set.causal_top};
}

/// A list without what it holds.
ir::ChosenKeys keys_of(const ir::ChosenSet& chosen, const ir::Shape& shape) {
  const ListShape s = chosen_shape(list_of(chosen), shape);
  return {.of = chosen,
          .first_row = s.first_row,
          .extent = {s.batches, shape.heads_computed(), s.rows, s.count},
          .first_head = shape.head_begin};
}

/// Calls `visit(b, h, row, view's first place of that row)`.
template <typename Visit>
void for_each_row(const OutputView& view, const Visit& visit) {
  for (std::int64_t b = 0; b < view.extent[0]; ++b) {
    for (std::int64_t h = 0; h < view.extent[1]; ++h) {
      for (std::int64_t row = 0; row < view.extent[2]; ++row) {
        const std::int64_t at = b * view.stride[0] + h * view.stride[1] + row * view.stride[2];
        visit(static_cast<std::int32_t*>(view.data) + at);
      }
    }
  }
}

}  // namespace

static_assert(kUnusedPlace == ir::kNoKey);

std::vector<ChosenList> chosen_lists(const ir::Pattern& pattern, const ir::Shape& shape) {
  std::vector<ChosenList> out;
  for (const auto& chosen : ir::chosen_sets(pattern)) {
    const auto keys = keys_of(chosen, shape);
    out.push_back(
        {.set = ir::print(chosen, pattern), .block = chosen.block, .extent = keys.extent, .first_row = keys.first_row});
  }
  return out;
}

Status use_caller_lists(const ir::Plan& plan, const ir::Pattern& pattern, const Launch& launch, weft_args& block) {
  if (launch.lists.empty()) return done;
  const auto sets = ir::chosen_sets(pattern);
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const OutputView& view = launch.lists[i];
    if (view.data == nullptr) continue;
    const ir::List list = list_of(sets[i]);
    const auto at = std::find(plan.lists.begin(), plan.lists.end(), list);
    if (at == plan.lists.end()) {
      return internal_error(fmt::format("the plan of {} has no list for {}", plan.name, ir::print(sets[i], pattern)));
    }
    weft_list& to = block.lists[at - plan.lists.begin()];
    to.stride_b = view.extent[0] > 1 ? view.stride[0] : 0;
    to.stride_h = view.stride[1];
    to.stride_row = view.stride[2];
    to.data = static_cast<std::int32_t*>(view.data) - chosen_shape(list, launch.shape).first_row * to.stride_row -
              launch.shape.head_begin * to.stride_h;
  }
  return done;
}

std::vector<ir::ChosenKeys> read_lists(const ir::Pattern& pattern, const Launch& launch) {
  std::vector<ir::ChosenKeys> out;
  const auto sets = ir::chosen_sets(pattern);
  for (std::size_t i = 0; i < launch.lists.size(); ++i) {
    const OutputView& view = launch.lists[i];
    if (view.data == nullptr) continue;
    auto& keys = out.emplace_back(keys_of(sets[i], launch.shape));
    for_each_row(view, [&](const std::int32_t* places) {
      keys.numbers.insert(keys.numbers.end(), places, places + view.extent[3]);
    });
  }
  return out;
}

void interpret_lists(const ir::Pattern& pattern, const Launch& launch, const ir::InputValues& inputs,
                     const ir::Tensor& q, const ir::Tensor& k) {
  const auto sets = ir::chosen_sets(pattern);
  for (std::size_t i = 0; i < launch.lists.size(); ++i) {
    const OutputView& view = launch.lists[i];
    if (view.data == nullptr) continue;
    auto keys = keys_of(sets[i], launch.shape);
    ir::choose_keys(pattern, launch.shape, inputs, q, k, keys);
    auto from = keys.numbers.begin();
    for_each_row(view, [&](std::int32_t* places) {
      std::copy(from, from + view.extent[3], places);
      from += view.extent[3];
    });
  }
}

}  // namespace weft
