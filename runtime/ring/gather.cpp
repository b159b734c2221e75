#include "compiler/base/guarded.h"
#include "runtime/ring/ring_plan.h"

#include <fmt/format.h>

#include <cstring>

namespace weft {

namespace {

/// Calls copy(lines of the whole, lines of the rows, bytes of each, how many) for the runs of each entry and head.
template <typename Copy>
Status each_run(const OutputView& whole, const TensorView& rows, const ring::Runs& own, std::size_t axis,
                const Copy& copy) {
  const std::size_t other = axis == 1 ? 2 : 1;
  const auto element = static_cast<std::int64_t>(size_of(rows.dtype));
  const auto width = static_cast<std::size_t>((rows.rank == 4 ? rows.extent[3] : 1) * element);
  auto* const to = static_cast<std::byte*>(whole.data);
  auto* const from = static_cast<std::byte*>(const_cast<void*>(rows.data));
  for (std::int64_t b = 0; b < rows.extent[0]; ++b) {
    for (std::int64_t h = 0; h < rows.extent[other]; ++h) {
      std::int64_t local = 0;
      for (const auto& run : own) {
        const auto there = b * whole.stride[0] + h * whole.stride[other] + run.first * whole.stride[axis];
        const auto here = b * rows.stride[0] + h * rows.stride[other] + local * rows.stride[axis];
        WEFT_CHECK(copy(Lines{.data = to + there * element, .pitch = run.stride * whole.stride[axis] * element},
                        Lines{.data = from + here * element, .pitch = rows.stride[axis] * element}, width, run.count));
        local += run.count;
      }
    }
  }
  return done;
}

/// Rows of a rank, densely, as views of them say.
TensorView dense_rows(const TensorView& like, std::size_t axis, std::int64_t rows, const void* data) {
  auto extent = like.extent;
  extent[axis] = rows;
  return like.rank == 3 ? dense_view(data, like.dtype, {extent[0], extent[1], extent[2]})
                        : dense_view(data, like.dtype, {extent[0], extent[1], extent[2], extent[3]});
}

/// What every rank brings to rank 0; empty on the others.
Result<std::vector<std::vector<std::byte>>> bring(Link& link, std::vector<std::byte>& mine,
                                                  const std::vector<std::size_t>& sizes) {
  std::vector<std::vector<std::byte>> out;
  std::vector<Transport::Part> sends, receives;
  if (link.rank() == 0) {
    out.resize(sizes.size());
    for (std::size_t peer = 1; peer < sizes.size(); ++peer) {
      out[peer].resize(sizes[peer]);
      if (sizes[peer] > 0) receives.push_back({static_cast<int>(peer), out[peer].data(), sizes[peer]});
    }
  } else if (!mine.empty()) {
    sends.push_back({0, mine.data(), mine.size()});
  }
  WEFT_TRY(const auto step, link.post(sends, receives));
  WEFT_CHECK(link.wait(step));
  if (link.rank() == 0) out[0] = std::move(mine);
  return out;
}

}  // namespace

Status RingPlan::gather(const TensorView& rows, int axis, const OutputView& whole) const {
  return guarded([&]() -> Status {
    auto& link = state_->ring->link;
    if ((axis != 1 && axis != 2) || rows.rank < 3)
      return link.give_up(
          user_error(fmt::format("rows of a tensor with {} axes are not along axis {}", rows.rank, axis)));
    const auto at = static_cast<std::size_t>(axis);
    const std::size_t other = axis == 1 ? 2 : 1, element = size_of(rows.dtype);
    const auto last = rows.rank == 4 ? static_cast<std::size_t>(rows.extent[3]) : 1;
    const auto row = last * static_cast<std::size_t>(rows.extent[0] * rows.extent[other]) * element;
    std::vector<std::size_t> sizes;
    for (const auto& own : state_->split.home.runs)
      sizes.push_back(row * static_cast<std::size_t>(ring::count_of(own)));
    std::vector<std::byte> mine(sizes[static_cast<std::size_t>(link.rank())]);
    auto dense = dense_rows(rows, at, rows.extent[at], mine.data());
    const ring::Runs all = {{0, rows.extent[at], 1}};
    const OutputView to{
        .data = mine.data(), .dtype = dense.dtype, .rank = dense.rank, .extent = dense.extent, .stride = dense.stride};
    const auto& memory = *state_->memory;
    bool from_host = true, to_host = true;
    if (rows.data != nullptr) {
      WEFT_TRY(from_host, memory.is_on_host(rows.data));
    }
    if (link.rank() == 0 && whole.data != nullptr) {
      WEFT_TRY(to_host, memory.is_on_host(whole.data));
    }
    WEFT_CHECK(each_run(to, rows, all, at, [&](Lines there, Lines here, std::size_t width, std::int64_t lines) {
      there.on_host = true;
      here.on_host = from_host;
      return memory.copy(there, here, width, lines);
    }));
    WEFT_CHECK(memory.settle());
    WEFT_TRY(const auto brought, bring(link, mine, sizes));
    for (std::size_t rank = 0; rank < brought.size(); ++rank) {
      const auto& own = state_->split.home.runs[rank];
      dense = dense_rows(rows, at, ring::count_of(own), brought[rank].data());
      WEFT_CHECK(each_run(whole, dense, own, at, [&](Lines there, Lines here, std::size_t width, std::int64_t lines) {
        there.on_host = to_host;
        here.on_host = true;
        return memory.copy(there, here, width, lines);
      }));
    }
    WEFT_CHECK(memory.settle());
    return done;
  });
}

Result<std::vector<RingShare>> RingPlan::shares() const {
  return guarded([&]() -> Result<std::vector<RingShare>> {
    auto& link = state_->ring->link;
    std::vector<std::byte> mine(sizeof(RingShare));
    std::memcpy(mine.data(), &state_->share, sizeof(RingShare));
    WEFT_TRY(const auto brought,
             bring(link, mine, std::vector(static_cast<std::size_t>(link.ranks()), sizeof(RingShare))));
    std::vector<RingShare> out(brought.size());
    for (std::size_t rank = 0; rank < brought.size(); ++rank)
      std::memcpy(&out[rank], brought[rank].data(), sizeof(RingShare));
    return out;
  });
}

}  // namespace weft
