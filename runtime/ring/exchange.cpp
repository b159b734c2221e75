#include "runtime/ring/exchange.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace weft {

namespace {

std::int64_t element_of(const Exchange::Tensor& tensor) { return static_cast<std::int64_t>(size_of(tensor.dtype)); }

std::int64_t branches_of(const Exchange::Tensor& tensor) { return std::max<std::int64_t>(1, tensor.branches); }

}  // namespace

Exchange::Exchange(const ring::Split& split, int rank, std::int64_t batch, const std::vector<Tensor>& before,
                   const std::vector<Tensor>& behind)
    : me_(static_cast<std::size_t>(split.lane_of(rank))), batch_(batch) {
  std::int64_t rows_before = 0;
  const std::int64_t own_rows = ring::count_of(split.owned(rank)), own_heads = split.heads(rank).count;
  for (std::int64_t lane = 0; lane < split.group_size(); ++lane) {
    const auto member = split.rank_of(split.group_of(rank), lane);
    const auto rows = ring::count_of(split.owned(member));
    const auto& heads = split.heads(member);
    members_.push_back({.rank = static_cast<int>(member),
                        .rows_of_group = {.first_row = rows_before, .rows = rows, .heads = own_heads},
                        .heads_of_own = {.rows = own_rows, .first_head = heads.first, .heads = heads.count}});
    rows_before += rows;
  }
  for (const auto& tensor : before) before_.push_back(held(tensor, rows_before));
  for (const auto& tensor : behind) behind_.push_back(held(tensor, rows_before));
  std::array<std::size_t, 2> of_rows = {}, of_heads = {};  // bytes, before and behind
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const auto &rows = members_[i].rows_of_group, &heads = members_[i].heads_of_own;
    of_rows[0] += bytes_of(before_, rows);
    of_rows[1] += bytes_of(behind_, rows);
    of_heads[0] += bytes_of(before_, heads);
    of_heads[1] += bytes_of(behind_, heads);
    if (i == me_) continue;
    needed_ += bytes_of(before_, rows) + bytes_of(behind_, heads);
    sent_ += bytes_of(before_, heads) + bytes_of(behind_, rows);
  }
  in_.resize(std::max(of_rows[0], of_heads[1]));
  out_.resize(std::max(of_heads[0], of_rows[1]));
}

Exchange::Held Exchange::held(const Tensor& tensor, std::int64_t rows) const {
  const std::int64_t heads = members_[me_].rows_of_group.heads;
  Held out{.tensor = tensor, .memory = {}, .view = {}};
  out.memory.resize(bytes_of(tensor, {.rows = rows, .heads = heads}));
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
void Exchange::each(const Tensor& tensor, const Place& place, const Block& block, const Use& use) const {
  if (block.rows == 0 || block.heads == 0) return;
  const std::int64_t heads = block.heads * tensor.of_key_head, bytes = tensor.dim * element_of(tensor);
  // What lies side by side goes at once, where it does.
  const std::int64_t outer = tensor.by_head ? heads : block.rows, inner = tensor.by_head ? block.rows : heads;
  const std::int64_t outer_step = tensor.by_head ? place.head : place.row,
                     inner_step = tensor.by_head ? place.row : place.head;
  std::byte* const first =
      place.data + block.first_row * place.row + block.first_head * tensor.of_key_head * place.head;
  for (std::int64_t branch = 0; branch < branches_of(tensor); ++branch) {
    for (std::int64_t b = 0; b < batch_; ++b) {
      for (std::int64_t o = 0; o < outer; ++o) {
        std::byte* const at = first + branch * place.branch + b * place.entry + o * outer_step;
        if (inner_step == bytes) {
          use(at, static_cast<std::size_t>(inner * bytes));
          continue;
        }
        for (std::int64_t i = 0; i < inner; ++i) use(at + i * inner_step, static_cast<std::size_t>(bytes));
      }
    }
  }
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

std::size_t Exchange::pack(const Tensor& tensor, const Place& place, const Block& block, std::byte* to) const {
  const auto bytes = bytes_of(tensor, block);
  if (place.data == nullptr) {
    std::fill_n(to, bytes, std::byte());
    return bytes;
  }
  each(tensor, place, block, [&](const std::byte* from, std::size_t count) {
    std::memcpy(to, from, count);
    to += count;
  });
  return bytes;
}

std::size_t Exchange::unpack(const Tensor& tensor, const Place& place, const Block& block,
                             const std::byte* from) const {
  if (place.data != nullptr) {
    each(tensor, place, block, [&](std::byte* to, std::size_t count) {
      std::memcpy(to, from, count);
      from += count;
    });
  }
  return bytes_of(tensor, block);
}

Status Exchange::exchange(Link& link, const std::vector<Held>& tensors, const std::vector<Place>& from, BlockOf sent,
                          const std::vector<Place>& to, BlockOf received) {
  std::vector<Transport::Part> sends, receives;
  std::vector<const std::byte*> arrived;  // by member
  std::byte *in = in_.data(), *out = out_.data();
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const auto& member = members_[i];
    std::byte* const message = out;
    for (std::size_t t = 0; t < tensors.size(); ++t) out += pack(tensors[t].tensor, from[t], member.*sent, out);
    if (i == me_) {
      arrived.push_back(message);
      continue;
    }
    const auto bytes = static_cast<std::size_t>(out - message), expected = bytes_of(tensors, member.*received);
    if (bytes > 0) sends.push_back({member.rank, message, bytes});
    if (expected > 0) receives.push_back({member.rank, in, expected});
    arrived.push_back(in);
    in += expected;
  }
  WEFT_TRY(const auto step, link.post(sends, receives));
  WEFT_CHECK(link.wait(step));
  for (std::size_t i = 0; i < members_.size(); ++i) {
    for (std::size_t t = 0; t < tensors.size(); ++t)
      arrived[i] += unpack(tensors[t].tensor, to[t], members_[i].*received, arrived[i]);
  }
  return done;
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
