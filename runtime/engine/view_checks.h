#pragma once

#include "compiler/base/result.h"

#include <weft/weft.h>

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>

/// What can be wrong with one tensor of a launch, in words that name it, the dimension, what was found and expected.
namespace weft {

using Names = std::array<const char*, kMaxRank>;
inline constexpr Names kRowAxes = {"batch", "tokens", "heads", "dim"};
inline constexpr Names kLseAxes = {"batch", "heads", "tokens", ""};
inline constexpr Names kBranchLseAxes = {"branches", "batch", "heads", "tokens"};

/// What is the same for every tensor of a launch, whatever its axes mean.
template <typename Pointer>
Status check_view(const std::string& name, const View<Pointer>& view, DType dtype, int rank, const Names& axes) {
  if (view.data == nullptr) return user_error(fmt::format("{} has no data", name));
  if (view.dtype != dtype) {
    return user_error(fmt::format("{} is {}; expected {}", name, to_string(view.dtype), to_string(dtype)));
  }
  if (view.rank != rank) return user_error(fmt::format("{} has {} dimensions; expected {}", name, view.rank, rank));
  if (reinterpret_cast<std::uintptr_t>(view.data) % size_of(dtype) != 0) {
    return user_error(fmt::format("{} starts at an address that is no multiple of {} bytes", name, size_of(dtype)));
  }
  std::int64_t reach = static_cast<std::int64_t>(size_of(dtype));
  for (int axis = 0; axis < rank; ++axis) {
    const auto at = static_cast<std::size_t>(axis);
    const auto extent = view.extent[at];
    if (extent < 1) {
      return user_error(
          fmt::format("{}, dimension {} ({}): the extent is {}; it must be at least 1", name, axis, axes[at], extent));
    }
    std::int64_t bytes = 0;
    if (__builtin_mul_overflow(extent - 1, view.stride[at], &bytes) ||
        __builtin_mul_overflow(bytes, static_cast<std::int64_t>(size_of(dtype)), &bytes) || bytes == INT64_MIN ||
        __builtin_add_overflow(reach, bytes < 0 ? -bytes : bytes, &reach)) {
      return user_error(fmt::format("{}, dimension {} ({}): extent {} with stride {} is larger than memory", name, axis,
                                    axes[at], extent, view.stride[at]));
    }
  }
  const auto last = static_cast<std::size_t>(rank - 1);
  if (rank > 0 && view.extent[last] > 1 && view.stride[last] != 1) {
    return user_error(fmt::format("{}, dimension {} ({}): the stride is {}; the last dimension must be contiguous (1)",
                                  name, rank - 1, axes[last], view.stride[last]));
  }
  return done;
}

template <typename Pointer>
Status expect_extent(const std::string& name, const View<Pointer>& view, int axis, const Names& axes,
                     std::int64_t expected, const std::string& why) {
  const auto found = view.extent[static_cast<std::size_t>(axis)];
  if (found == expected) return done;
  return user_error(fmt::format("{}, dimension {} ({}): the extent is {}; expected {}, {}", name, axis,
                                axes[static_cast<std::size_t>(axis)], found, expected, why));
}

/// Two threads must never write one element.
inline Status check_distinct(const std::string& name, const OutputView& view, const Names& axes) {
  for (int axis = 0; axis < view.rank; ++axis) {
    const auto at = static_cast<std::size_t>(axis);
    if (view.extent[at] > 1 && view.stride[at] == 0) {
      return user_error(
          fmt::format("{}, dimension {} ({}): the stride is 0; an output cannot overlap itself", name, axis, axes[at]));
    }
  }
  return done;
}

/// LSE of all branches, or of each of `branches`, or its gradient, beside a q that was found right.
template <typename Pointer>
Status check_rows_of_lse(const std::string& name, const View<Pointer>& view, std::optional<std::int64_t> branches,
                         const RunArgs& args) {
  const Names& axes = branches ? kBranchLseAxes : kLseAxes;
  const int first = branches ? 1 : 0;
  const auto& q = args.q.extent;
  WEFT_CHECK(check_view(name, view, DType::f32, 3 + first, axes));
  if (branches) WEFT_CHECK(expect_extent(name, view, 0, axes, *branches, "the pattern's branches"));
  WEFT_CHECK(expect_extent(name, view, first, axes, q[0], "as in q"));
  WEFT_CHECK(expect_extent(name, view, first + 1, axes, q[2], "as in q"));
  return expect_extent(name, view, first + 2, axes, q[1], "as in q");
}

/// O, or its gradient, beside q and v that were found right.
template <typename Pointer>
Status check_rows_of_o(const std::string& name, const View<Pointer>& view, const RunArgs& args) {
  WEFT_CHECK(check_view(name, view, args.q.dtype, 4, kRowAxes));
  for (int axis = 0; axis < 3; ++axis)
    WEFT_CHECK(expect_extent(name, view, axis, kRowAxes, args.q.extent[static_cast<std::size_t>(axis)], "as in q"));
  return expect_extent(name, view, 3, kRowAxes, args.v.extent[3], "as in v");
}

}  // namespace weft
