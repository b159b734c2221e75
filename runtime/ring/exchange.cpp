#include "runtime/ring/exchange.h"

#include <algorithm>
#include <array>
#include <utility>

namespace weft {

namespace {

std::int64_t element_of(const Exchange::Tensor& tensor) { return static_cast<std::int64_t>(size_of(tensor.dtype)); }

std::int64_t branches_of(const Exchange::Tensor& tensor) { return std::max<std::int64_t>(1, tensor.branches); }

}  // namespace

Result<Exchange> Exchange::make(const std::shared_ptr<KernelMemory>& memory,
                                const std::shared_ptr<KernelMemory>& messages, const ring::Split& split, int rank,
                                std::int64_t batch, const std::vector<Tensor>& before,
                                const std::vector<Tensor>& behind) {
  Exchange out;
  out.memory_ = memory;
  out.me_ = static_cast<std::size_t>(split.lane_of(rank));
  out.batch_ = batch;
  std::int64_t rows_before = 0;
  const std::int64_t own_rows = ring::count_of(split.owned(rank)), own_heads = split.heads(rank).count;
  for (std::int64_t lane = 0; lane < split.group_size(); ++lane) {
    const auto member = split.rank_of(split.group_of(rank), lane);
    const auto rows = ring::count_of(split.owned(member));
    const auto& heads = split.heads(member);
    out.members_.push_back({.rank = static_cast<int>(member),
                            .rows_of_group = {.first_row = rows_before, .rows = rows, .heads = own_heads},
                            .heads_of_own = {.rows = own_rows, .first_head = heads.first, .heads = heads.count}});
    rows_before += rows;
  }
  for (const auto& [tensors, to] : {std::pair{&before, &out.before_}, {&behind, &out.behind_}}) {
    for (const auto& tensor : *tensors) {
      WEFT_TRY(auto held, out.held(tensor, rows_before));
      to->push_back(std::move(held));
    }
  }
  std::array<std::size_t, 2> of_rows = {}, of_heads = {};  // bytes, before and behind
  for (std::size_t i = 0; i < out.members_.size(); ++i) {
    const auto &rows = out.members_[i].rows_of_group, &heads = out.members_[i].heads_of_own;
    of_rows[0] += out.bytes_of(out.before_, rows);
    of_rows[1] += out.bytes_of(out.behind_, rows);
    of_heads[0] += out.bytes_of(out.before_, heads);
    of_heads[1] += out.bytes_of(out.behind_, heads);
    if (i == out.me_) continue;
    out.needed_ += out.bytes_of(out.before_, rows) + out.bytes_of(out.behind_, heads);
    out.sent_ += out.bytes_of(out.before_, heads) + out.bytes_of(out.behind_, rows);
  }
  WEFT_TRY(out.in_, KernelBytes::make(messages, std::max(of_rows[0], of_heads[1])));
  WEFT_TRY(out.out_, KernelBytes::make(messages, std::max(of_heads[0], of_rows[1])));
  return out;
}

Result<Exchange::Held> Exchange::held(const Tensor& tensor, std::int64_t rows) const {
  const std::int64_t heads = members_[me_].rows_of_group.heads;
  Held out{.tensor = tensor, .memory = {}, .view = {}};
  WEFT_TRY(out.memory, KernelBytes::make(memory_, bytes_of(tensor, {.rows = rows, .heads = heads})));
  auto* const data = out.memory.data();
  const std::int64_t count = heads * tensor.of_key_head;
  out.view = tensor.branches > 0 ? dense_output(data, tensor.dtype, {tensor.branches, batch_, count, rows})
             : tensor.by_head    ? dense_output(data, tensor.dtype, {batch_, count, rows})
                                 : dense_output(data, tensor.dtype, {batch_, rows, count, tensor.dim});
  return out;
}

void Exchange::place_before(std::size_t number, const OutputView& where) {
  before_[number].memory = {};
  before_[number].view = where;
}

template <typename Pointer>
Exchange::Place Exchange::place_of(const Tensor& tensor, const View<Pointer>& view) {
  const std::size_t entry = tensor.branches > 0 ? 1 : 0, row = entry + (tensor.by_head ? 2 : 1),
                    head = entry + (tensor.by_head ? 1 : 2);
  const auto bytes = [&](std::size_t axis) { return view.stride[axis] * element_of(tensor); };
  return {.data = static_cast<std::byte*>(const_cast<void*>(static_cast<const void*>(view.data))),
          .branch = tensor.branches > 0 ? bytes(0) : 0,
          .entry = bytes(entry),
          .row = bytes(row),
          .head = bytes(head)};
}

template <typename Use>
Status Exchange::each(const Tensor& tensor, const Place& place, const Block& block, const Use& use) const {
  if (block.rows == 0 || block.heads == 0) return done;
  const std::int64_t heads = block.heads * tensor.of_key_head, bytes = tensor.dim * element_of(tensor);
  // What lies side by side goes at once, where it does.
  const std::int64_t outer = tensor.by_head ? heads : block.rows, inner = tensor.by_head ? block.rows : heads;
  const std::int64_t outer_step = tensor.by_head ? place.head : place.row,
                     inner_step = tensor.by_head ? place.row : place.head;
  std::byte* const first =
      place.data + block.first_row * place.row + block.first_head * tensor.of_key_head * place.head;
  for (std::int64_t branch = 0; branch < branches_of(tensor); ++branch) {
    for (std::int64_t b = 0; b < batch_; ++b) {
      std::byte* const at = first + branch * place.branch + b * place.entry;
      if (inner_step == bytes) {
        WEFT_CHECK(use(Lines{.data = at, .pitch = outer_step}, static_cast<std::size_t>(inner * bytes), outer));
        continue;
      }
      for (std::int64_t o = 0; o < outer; ++o)
        WEFT_CHECK(
            use(Lines{.data = at + o * outer_step, .pitch = inner_step}, static_cast<std::size_t>(bytes), inner));
    }
  }
  return done;
}

std::size_t Exchange::bytes_of(const Tensor& tensor, const Block& block) const {
  return static_cast<std::size_t>(branches_of(tensor) * batch_ * block.rows * block.heads * tensor.of_key_head *
                                  tensor.dim * element_of(tensor));
}

std::size_t Exchange::bytes_of(const std::vector<Held>& tensors, const Block& block) const {
  std::size_t bytes = 0;
  for (const auto& held : tensors) bytes += bytes_of(held.tensor, block);
  return bytes;
}

Status Exchange::pack(const Tensor& tensor, const Place& place, const Block& block, const KernelBytes& to,
                      std::size_t begin) const {
  if (place.data == nullptr) return memory_->clear(to.lines(begin, 0), bytes_of(tensor, block));
  return each(tensor, place, block, [&](const Lines& from, std::size_t width, std::int64_t lines) {
    const auto there = to.lines(begin, width);
    begin += width * static_cast<std::size_t>(lines);
    return memory_->copy(there, from, width, lines);
  });
}

Status Exchange::unpack(const Tensor& tensor, const Place& place, const Block& block, const KernelBytes& from,
                        std::size_t begin) const {
  if (place.data == nullptr) return done;
  return each(tensor, place, block, [&](const Lines& to, std::size_t width, std::int64_t lines) {
    const auto there = from.lines(begin, width);
    begin += width * static_cast<std::size_t>(lines);
    return memory_->copy(to, there, width, lines);
  });
}

Status Exchange::exchange(Link& link, const std::vector<Held>& tensors, const std::vector<Place>& from, BlockOf sent,
                          const std::vector<Place>& to, BlockOf received) {
  std::vector<Transport::Part> sends, receives;
  struct Arrived {
    const KernelBytes* message;
    std::size_t begin;
  };
  std::vector<Arrived> arrived;  // by member
  std::size_t in = 0, out = 0;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const auto& member = members_[i];
    const auto begin = out;
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      WEFT_CHECK(pack(tensors[t].tensor, from[t], member.*sent, out_, out));
      out += bytes_of(tensors[t].tensor, member.*sent);
    }
    if (i == me_) {
      arrived.push_back({&out_, begin});
      continue;
    }
    const auto bytes = out - begin, expected = bytes_of(tensors, member.*received);
    if (bytes > 0) sends.push_back(out_.part(member.rank, begin, bytes));
    if (expected > 0) receives.push_back(in_.part(member.rank, in, expected));
    arrived.push_back({&in_, in});
    in += expected;
  }
  WEFT_CHECK(memory_->settle());
  WEFT_TRY(const auto step, link.post(sends, receives));
  WEFT_CHECK(link.wait(step));
  for (std::size_t i = 0; i < members_.size(); ++i) {
    auto [message, begin] = arrived[i];
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      WEFT_CHECK(unpack(tensors[t].tensor, to[t], members_[i].*received, *message, begin));
      begin += bytes_of(tensors[t].tensor, members_[i].*received);
    }
  }
  // The buffers are the next exchange's only then.
  return memory_->settle();
}

Status Exchange::to_heads(Link& link, std::span<const TensorView> own) {
  std::vector<Place> from, to;
  for (std::size_t t = 0; t < before_.size(); ++t) {
    from.push_back(place_of(before_[t].tensor, own[t]));
    to.push_back(place_of(before_[t].tensor, before_[t].view));
  }
  return exchange(link, before_, from, &Member::heads_of_own, to, &Member::rows_of_group);
}

Status Exchange::to_rows(Link& link, std::span<const OutputView> own) {
  std::vector<Place> from, to;
  for (std::size_t t = 0; t < behind_.size(); ++t) {
    from.push_back(place_of(behind_[t].tensor, behind_[t].view));
    to.push_back(place_of(behind_[t].tensor, own[t]));
  }
  return exchange(link, behind_, from, &Member::rows_of_group, to, &Member::heads_of_own);
}

}  // namespace weft
