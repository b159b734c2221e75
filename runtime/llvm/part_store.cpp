#include "runtime/llvm/part_store.h"

#include <mutex>
#include <utility>

namespace weft::llvm {

bool PartStore::find(const std::string& made_of, std::string& object) {
  const std::lock_guard lock(mutex_);
  const auto found = objects_.find(made_of);
  if (found == objects_.end()) return false;
  object = found->second;
  return true;
}

void PartStore::keep(std::string made_of, const std::string& object) {
  const std::lock_guard lock(mutex_);
  const auto [place, is_new] = objects_.emplace(std::move(made_of), object);
  if (!is_new) return;
  by_age_.push_back(place);
  bytes_ += place->first.size() + object.size();
  while (bytes_ > most_bytes_) {
    const auto oldest = by_age_.front();
    by_age_.pop_front();
    bytes_ -= oldest->first.size() + oldest->second.size();
    objects_.erase(oldest);
  }
}

std::size_t PartStore::bytes() {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace weft::llvm
