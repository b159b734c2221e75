#include "kernels_cache/once.h"

#include <fmt/format.h>

namespace weft::cache {
namespace {

std::function<void(int)> spoken(const Making& making) {
  if (!making.notice) return {};
  return [&making](int process) {
    making.notice(process > 0 ? fmt::format("waiting for process {}, which compiles the same kernel", process)
                              : std::string("waiting for another process, which compiles the same kernel"));
  };
}

Result<Made> make_alone(Store& store, const Key& key, const Making& making) {
  WEFT_TRY(auto entry, making.make());
  PutResult put = store.put(key, entry);
  return Made{.entry = std::move(entry), .published = put.published, .warning = std::move(put.warning)};
}

}  // namespace

Result<Made> make_once(Store& store, const Key& key, const Making& making) {
  // Without a place to publish in, waiting for others brings nothing.
  if (!store.can_publish()) return make_alone(store, key, making);
  Lock lock = store.locks().acquire(
      {.name = store.lock_name(key.digest()), .at_most = making.longest_wait, .on_wait = spoken(making)});
  Lookup found = store.look_again(key);
  if (found.entry && (!making.usable || making.usable(*found.entry))) {
    return Made{.entry = std::move(*found.entry), .by_another = true};
  }
  auto made = make_alone(store, key, making);
  if (!made || !made->published) lock.give_up_turns();
  return made;
}

}  // namespace weft::cache
