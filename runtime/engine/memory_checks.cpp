#include "runtime/engine/memory_checks.h"

#include "runtime/engine/sizes_at.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace weft {

namespace {

__extension__ using Wide = __int128;  // sums of addresses and products of two 64-bit numbers

/// A number from `least` to `most`, times `stride` bytes.
struct Term {
  std::int64_t stride = 1;
  std::int64_t least = 0, most = 0;
};

/// The dimensions of two views at most, without memory of its own: launches are checked that take microseconds.
class Terms {
 public:
  void add(const Term& term) { terms_[count_++] = term; }
  Term* begin() { return terms_.data(); }
  Term* end() { return terms_.data() + count_; }
  const Term* begin() const { return terms_.data(); }
  const Term* end() const { return terms_.data() + count_; }

 private:
  std::array<Term, 2 * (kMaxRank + 1)> terms_;
  std::size_t count_ = 0;
};

/// Which bytes some of a launch's memory has: `begin` plus one value of every term.
struct Bytes {
  std::string name;
  std::uintptr_t begin = 0;
  Terms terms = {};

  Wide size() const {
    Wide out = 1;
    for (const auto& term : terms) out += Wide{term.most} * term.stride;
    return out;
  }
};

template <typename Pointer>
Bytes bytes_of(std::string name, const View<Pointer>& view) {
  const auto size = static_cast<std::int64_t>(size_of(view.dtype));
  Bytes out{.name = std::move(name), .begin = reinterpret_cast<std::uintptr_t>(view.data)};
  out.terms.add({.stride = 1, .most = size - 1});
  for (std::size_t axis = 0; axis < static_cast<std::size_t>(view.rank); ++axis) {
    const std::int64_t most = view.extent[axis] - 1;
    std::int64_t stride = 0;
    // The stride of an axis of one element may be any number: nothing multiplies it.
    if (most == 0 || __builtin_mul_overflow(view.stride[axis], size, &stride) || stride == 0) continue;
    // Counted from the last.
    if (stride < 0) out.begin += static_cast<std::uintptr_t>(stride) * static_cast<std::uintptr_t>(most);
    out.terms.add({.stride = stride < 0 ? -stride : stride, .most = most});
  }
  return out;
}

/// Can terms add up to a sum? The largest strides come first and leave few values to try, as what follows them reaches
/// less far than one step of theirs, in every layout that anybody uses.
class Sums {
 public:
  explicit Sums(const Terms& terms) : terms_(terms) {
    std::sort(terms_.begin(), terms_.end(), [](const Term& a, const Term& b) { return a.stride > b.stride; });
  }

  /// `zeros`: also where all numbers are 0. A layout that is too involved to tell is taken to be fine.
  bool can_be(Wide sum, bool zeros) { return search(terms_.begin(), sum, zeros); }

 private:
  static Wide floor_of(Wide a, Wide b) { return a / b - (a % b != 0 && a < 0 ? 1 : 0); }

  bool search(const Term* at, Wide sum, bool any) {
    if (--tries_ < 0) return false;
    if (at == terms_.end()) return sum == 0 && any;
    Wide rest_least = 0, rest_most = 0;  // what the terms behind it add up to
    for (const Term* rest = at + 1; rest != terms_.end(); ++rest) {
      rest_least += Wide{rest->least} * rest->stride;
      rest_most += Wide{rest->most} * rest->stride;
    }
    const Wide least = std::max(Wide{at->least}, -floor_of(rest_most - sum, at->stride));
    const Wide most = std::min(Wide{at->most}, floor_of(sum - rest_least, at->stride));
    for (Wide value = least; value <= most && tries_ >= 0; ++value) {
      if (search(at + 1, sum - value * at->stride, any || value != 0)) return true;
    }
    return false;
  }

  Terms terms_;
  int tries_ = 1 << 16;
};

bool share(const Bytes& a, const Bytes& b) {
  if (a.begin + a.size() <= b.begin || b.begin + b.size() <= a.begin) return false;
  Terms terms = a.terms;
  for (const Term& term : b.terms) {
    // Terms of one stride are one: layouts that agree have few values to try.
    const auto alike = [&](const Term& other) { return other.stride == term.stride; };
    if (const auto at = std::find_if(terms.begin(), terms.end(), alike); at != terms.end()) {
      at->least -= term.most;
    } else {
      terms.add({.stride = term.stride, .least = -term.most, .most = 0});
    }
  }
  return Sums(terms).can_be(Wide{b.begin} - Wide{a.begin}, true);
}

/// Are two elements of a view in one place?
bool overlaps_itself(Terms terms) {
  Wide inner = 0;
  std::sort(terms.begin(), terms.end(), [](const Term& a, const Term& b) { return a.stride < b.stride; });
  const bool nested = std::all_of(terms.begin(), terms.end(), [&](const Term& term) {
    const bool fits = term.stride > inner;
    inner += Wide{term.most} * term.stride;
    return fits;
  });
  if (nested) return false;
  for (Term& term : terms) term.least = -term.most;  // of one element less those of another
  return Sums(terms).can_be(0, false);
}

template <typename Element>
Status has_data(std::span<Element> span, const char* name) {
  if (span.data() != nullptr || span.empty()) return done;
  return user_error(fmt::format("{} has {} entries and no data", name, span.size()));
}

}  // namespace

Status check_spans(const RunArgs& args) {
  WEFT_CHECK(has_data(args.inputs, "inputs"));
  WEFT_CHECK(has_data(args.offset, "offset"));
  WEFT_CHECK(has_data(args.cu_q, "cu_q"));
  WEFT_CHECK(has_data(args.cu_k, "cu_k"));
  WEFT_CHECK(has_data(args.kv_lengths, "kv_lengths"));
  WEFT_CHECK(has_data(args.lists, "lists"));
  WEFT_CHECK(has_data(args.d_inputs, "d_inputs"));
  WEFT_CHECK(has_data(args.workspace, "the workspace"));
  return check_threads(args.threads);
}

Status check_apart(const ir::Pattern& pattern, const Launch& launch, const RunArgs& args) {
  std::vector<Bytes> read, written;
  read.reserve(14 + launch.inputs.size());
  written.reserve(7 + launch.lists.size() + launch.d_inputs.size());
  const auto add = [](std::vector<Bytes>& to, std::string name, const auto& view) {
    if (view.data != nullptr) to.push_back(bytes_of(std::move(name), view));
  };
  auto& of_forward = launch.gradient ? read : written;
  add(of_forward, "out", args.out);
  add(of_forward, "lse", args.lse);
  add(of_forward, "branch_lse", args.branch_lse);
  add(written, "dq", args.dq);
  add(written, "dk", args.dk);
  add(written, "dv", args.dv);
  for (std::size_t i = 0; i < launch.d_inputs.size(); ++i) {
    add(written, fmt::format("the gradient of input '{}'", pattern.inputs[i].name), launch.d_inputs[i]);
  }
  for (std::size_t i = 0; i < launch.lists.size(); ++i) add(written, fmt::format("list {}", i), launch.lists[i]);
  if (!args.workspace.empty()) {
    auto& workspace = written.emplace_back();
    workspace.name = "the workspace";
    workspace.begin = reinterpret_cast<std::uintptr_t>(args.workspace.data());
    workspace.terms.add(
        {.most = static_cast<std::int64_t>(std::min<std::size_t>(args.workspace.size() - 1, INT64_MAX))});
  }
  add(read, "d_out", args.d_out);
  add(read, "d_lse", args.d_lse);
  add(read, "q", args.q);
  add(read, "k", args.k);
  add(read, "v", args.v);
  add(read, "pages", args.pages);
  if (args.dropout_seed_at != nullptr) {
    auto& seed = read.emplace_back();
    seed.name = "dropout_seed_at";
    seed.begin = reinterpret_cast<std::uintptr_t>(args.dropout_seed_at);
    seed.terms.add({.most = sizeof *args.dropout_seed_at - 1});
  }
  for (const auto& array : arrays_at(args.sizes_at)) {
    auto& sizes = read.emplace_back();
    sizes.name = array.name;
    sizes.begin = reinterpret_cast<std::uintptr_t>(array.data);
    sizes.terms.add({.most = array.bytes - 1});
  }
  for (std::size_t i = 0; i < launch.inputs.size(); ++i) {
    add(read, fmt::format("input '{}'", pattern.inputs[i].name), launch.inputs[i]);
  }
  for (auto out = written.begin(); out != written.end(); ++out) {
    if (overlaps_itself(out->terms)) {
      return user_error(
          fmt::format("{}: by its strides two elements share memory; an output cannot overlap itself", out->name));
    }
    for (const auto& other : read) {
      if (share(*out, other)) return user_error(fmt::format("{} overlaps {}, which is read", out->name, other.name));
    }
    for (auto other = written.begin(); other != out; ++other) {
      if (share(*out, *other)) return user_error(fmt::format("{} overlaps {}", out->name, other->name));
    }
  }
  return done;
}

Status check_page_numbers(const Launch& launch, const RunArgs& args) {
  const auto* const table = static_cast<const std::int32_t*>(args.pages.data);
  const std::int64_t pages = args.k.extent[0], page_size = args.k.extent[1];
  for (const auto& sequence : launch.sequences) {
    const auto needed = sequence.n_q == 0 ? 0 : (sequence.n_k + page_size - 1) / page_size;
    for (std::int64_t i = 0; i < needed; ++i) {
      const auto page = table[sequence.b * args.pages.stride[0] + i];
      if (page >= 0 && page < pages) continue;
      return user_error(fmt::format("pages[{}, {}] is {}; k has pages 0 to {}", sequence.b, i, page, pages - 1));
    }
  }
  return done;
}

}  // namespace weft
