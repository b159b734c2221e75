#include "runtime/emulate/races.h"

#include <algorithm>

namespace weft::emulate {
namespace {

constexpr std::uint8_t kSameWarp = 1;
constexpr std::uint8_t kOtherWarps = 2;
constexpr std::uint8_t kSharedBytes = 4;  ///< several threads, each with bytes of its own

int warp_of(int thread) { return thread / 32; }

}  // namespace

bool Races::conflicts(const Trace& before, std::uint8_t bytes, const Moment& now) {
  if (before.barrier != now.barrier || (before.bytes & bytes) == 0) return false;
  if ((before.others & kSharedBytes) != 0) return false;  // perhaps our own bytes
  if ((before.others & kOtherWarps) != 0) return true;
  if (warp_of(before.thread) != warp_of(now.thread)) return true;
  return before.sync == now.sync && (before.thread != now.thread || (before.others & kSameWarp) != 0);
}

void Races::remember(Trace& trace, std::uint8_t bytes, const void* site, const Moment& now) {
  if (trace.barrier != now.barrier) {
    trace = {now.barrier, now.sync, site, static_cast<std::uint16_t>(now.thread), bytes, 0};
    return;
  }
  const bool same_warp = warp_of(trace.thread) == warp_of(now.thread);
  const bool concurrent = !same_warp || trace.sync == now.sync;
  std::uint8_t others = concurrent ? trace.others : 0;
  if (concurrent && trace.thread != now.thread) {
    others |= same_warp ? kSameWarp : kOtherWarps;
    if ((trace.bytes & bytes) == 0) others |= kSharedBytes;
  }
  // Readers of another warp stay readers after this warp has synchronised.
  others |= trace.others & kOtherWarps;
  if (concurrent) bytes |= trace.bytes;
  trace = {now.barrier, now.sync, site, static_cast<std::uint16_t>(now.thread), bytes, others};
}

bool Races::touch(Word& word, std::uint8_t bytes, bool write, const void* site, const Moment& now, Conflict& found) {
  const Trace& store = word.write;
  const bool after_store = conflicts(store, bytes, now);
  const bool after_load = write && !after_store && conflicts(word.read, bytes, now);
  if (after_store) found = {store.thread, store.site, true};
  if (after_load) found = {word.read.thread, word.read.site, false};
  remember(write ? word.write : word.read, bytes, site, now);
  return after_store || after_load;
}

std::optional<Conflict> Races::access(std::int64_t offset, std::int64_t size, bool write, const void* site,
                                      const Moment& now) {
  Conflict found;
  bool any = false;
  for (std::int64_t at = offset; at < offset + size;) {
    const std::int64_t end = std::min(offset + size, (at | 3) + 1);
    const auto bytes = static_cast<std::uint8_t>(((1U << (end - at)) - 1) << (at & 3));
    any |= touch(words_[static_cast<std::size_t>(at / 4)], bytes, write, site, now, found);
    at = end;
  }
  return any ? std::optional(found) : std::nullopt;
}

}  // namespace weft::emulate
