#include "runtime/engine/sizes_at.h"

#include "compiler/ir/chosen_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

namespace weft {

namespace {

constexpr std::int64_t kMostSequences = 65535;

template <typename T>
std::vector<std::int64_t> numbers_at(const T* data, std::int64_t count) {
  return data == nullptr ? std::vector<std::int64_t>() : std::vector<std::int64_t>(data, data + count);
}

/// What one size may be, from 1 to what the tensors have.
Status expect_up_to(const char* what, std::int64_t found, std::int64_t most, const char* of) {
  if (found >= 1 && found <= most) return done;
  return user_error(fmt::format("sizes_at.{} is {}; {} has 1 to {}", what, found, of, most));
}

Status check_longest(const char* what, const std::vector<std::int64_t>& lengths, std::int64_t most, const char* limit) {
  for (std::size_t b = 0; b < lengths.size(); ++b) {
    if (lengths[b] > most)
      return user_error(fmt::format("sequence {} has {} {}; sizes_at.{} is {}", b, lengths[b], what, limit, most));
  }
  return done;
}

std::vector<std::int64_t> lengths_of(const std::vector<std::int64_t>& cu) {
  std::vector<std::int64_t> out;
  for (std::size_t i = 1; i < cu.size(); ++i) out.push_back(cu[i] - cu[i - 1]);
  return out;
}

}  // namespace

Status check_sizes_at(const LaunchContract& contract, const RunArgs& args) {
  const SizesAt& at = args.sizes_at;
  if (at.sequences < 1 || at.sequences > kMostSequences)
    return user_error(fmt::format("sizes_at.sequences is {}; it must be 1 to {}", at.sequences, kMostSequences));
  for (const auto& [name, count] :
       {std::pair("cu_q", args.cu_q.size()), std::pair("cu_k", args.cu_k.size()),
        std::pair("kv_lengths", args.kv_lengths.size()), std::pair("offset", args.offset.size())}) {
    if (count > 0) return user_error(fmt::format("{} and sizes_at are given: sizes stand in one place", name));
  }
  const bool wants_inputs = std::any_of(args.d_inputs.begin(), args.d_inputs.end(),
                                        [](const NamedOutput& input) { return input.view.data != nullptr; });
  if (wants_inputs)
    return user_error("gradients of inputs are summed up over sizes that the host knows, not those of sizes_at");
  if (args.slice.of != 0 || args.head_slice.of != 0) return user_error("sizes_at is of whole sequences, not of slices");
  const auto& pattern = contract.pattern;
  if (!ir::chosen_sets(pattern).empty())
    return user_error("the lists of `random` and `top` are made for sizes that the host knows, not those of sizes_at");
  if (pattern.tokens.kind != ir::Tokens::Kind::any || !pattern.grid.empty())
    return user_error("the pattern says how many tokens there are, which nobody holds sizes_at against");
  const bool packed = at.cu_q != nullptr;
  if (contract.paged && (at.cu_k != nullptr || at.kv_lengths == nullptr))
    return user_error("K and V in pages have sizes_at.kv_lengths, not cu_k");
  if (!contract.paged && at.kv_lengths != nullptr)
    return user_error("sizes_at.kv_lengths are of K and V in pages (CompileOptions::paged)");
  if (!contract.paged && packed != (at.cu_k != nullptr)) return user_error("sizes_at.cu_q and cu_k go together");
  if (!contract.paged && !packed && at.offset == nullptr)
    return user_error("sizes_at has neither cu_q and cu_k, nor kv_lengths, nor offset");
  for (const auto& array : arrays_at(at)) {
    const std::size_t alignment = array.data == at.offset ? alignof(std::int64_t) : alignof(std::int32_t);
    if (reinterpret_cast<std::uintptr_t>(array.data) % alignment != 0)
      return user_error(fmt::format("{} is misaligned; expected a multiple of {} bytes", array.name, alignment));
  }
  const auto all_of = [](const char* what, std::int64_t found, std::int64_t rows, const char* tensor) -> Status {
    if (found == 0 || found == rows) return done;
    return user_error(fmt::format("sizes_at.{} is {}; {} has {} rows of every sequence", what, found, tensor, rows));
  };
  if (packed) WEFT_CHECK(expect_up_to("most_q", at.most_q, args.q.extent[1], "q"));
  if (!packed) WEFT_CHECK(all_of("most_q", at.most_q, args.q.extent[1], "q"));
  if (!packed && !contract.paged) return all_of("most_k", at.most_k, args.k.extent[1], "k");
  std::int64_t room = args.k.extent[1];
  if (contract.paged && __builtin_mul_overflow(room, args.pages.extent[1], &room))
    room = std::numeric_limits<std::int32_t>::max();
  return expect_up_to("most_k", at.most_k, room, contract.paged ? "a row of pages" : "k");
}

std::vector<ArrayAt> arrays_at(const SizesAt& at) {
  constexpr auto kInt = static_cast<std::int64_t>(sizeof(std::int32_t));
  const ArrayAt all[] = {{"sizes_at.cu_q", at.cu_q, (at.sequences + 1) * kInt},
                         {"sizes_at.cu_k", at.cu_k, (at.sequences + 1) * kInt},
                         {"sizes_at.kv_lengths", at.kv_lengths, at.sequences * kInt},
                         {"sizes_at.offset", at.offset, at.sequences * 2 * kInt}};
  std::vector<ArrayAt> out;
  for (const auto& array : all) {
    if (array.data != nullptr) out.push_back(array);
  }
  return out;
}

Result<LaunchOnHost> LaunchOnHost::read(const LaunchContract& contract, const RunArgs& args) {
  WEFT_CHECK(check_sizes_at(contract, args));
  const SizesAt& at = args.sizes_at;
  LaunchOnHost out;
  out.args_ = args;
  out.args_.sizes_at = {};
  out.cu_q_ = numbers_at(at.cu_q, at.sequences + 1);
  out.cu_k_ = numbers_at(at.cu_k, at.sequences + 1);
  out.kv_lengths_ = numbers_at(at.kv_lengths, at.sequences);
  out.offset_ = numbers_at(at.offset, at.sequences);
  WEFT_CHECK(check_longest("queries", lengths_of(out.cu_q_), at.most_q, "most_q"));
  WEFT_CHECK(check_longest("keys", lengths_of(out.cu_k_), at.most_k, "most_k"));
  WEFT_CHECK(check_longest("keys", out.kv_lengths_, at.most_k, "most_k"));
  return out;
}

RunArgs LaunchOnHost::args() const {
  RunArgs out = args_;
  out.cu_q = cu_q_;
  out.cu_k = cu_k_;
  out.kv_lengths = kv_lengths_;
  out.offset = offset_;
  return out;
}

}  // namespace weft
