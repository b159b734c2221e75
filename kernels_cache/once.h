#pragma once

#include "compiler/base/result.h"
#include "kernels_cache/store.h"

#include <chrono>
#include <functional>
#include <optional>
#include <string>

namespace weft::cache {

/// How an entry that no store has comes to be.
struct Making {
  std::function<Result<Entry>()> make;
  /// Whether a stored entry will do; all do where it is empty.
  std::function<bool(const Entry&)> usable = {};
  /// Called once after a second of waiting for another process, with a sentence about it.
  std::function<void(const std::string&)> notice = {};
  std::chrono::milliseconds longest_wait{30'000};  ///< for another process; then this one makes its own
};

struct Made {
  Entry entry;
  bool by_another = false;  ///< another process made it meanwhile: it comes from the store
  bool published = false;
  std::optional<Warning> warning = {};  ///< why it is not published
};

/// Makes and publishes an entry, once among the processes of this machine that want it at the same time. The first
/// takes the key's lock; the others wait and find the entry in the store. When the holder dies, one of them takes
/// over; when it fails or cannot publish, all go on at once; when it takes too long, they do not wait on.
/// An error is make()'s.
Result<Made> make_once(Store& store, const Key& key, const Making& making);

}  // namespace weft::cache
