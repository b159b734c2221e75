#include "runtime/cpu/sums.h"

#include <algorithm>
#include <cstring>

namespace weft::cpu {

float* PagePool::take() {
  float* page = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) {
      all_.emplace_back(static_cast<float*>(::operator new[](numbers_ * sizeof(float), std::align_val_t{64})));
      free_.reserve(all_.size());  // so that giving back cannot fail
      page = all_.back().get();
    } else {
      page = free_.back();
      free_.pop_back();
    }
  }
  std::memset(page, 0, numbers_ * sizeof(float));
  return page;
}

void PagePool::give_back(float* page) {
  const std::lock_guard lock(mutex_);
  free_.push_back(page);
}

KeySums::~KeySums() {
  for (float* page : pages_) {
    if (page != nullptr) pool_->give_back(page);
  }
  if (lost_ != nullptr) pool_->give_back(lost_);
}

void KeySums::add(KeySums& other, const codegen::cpu::MicroKernels& kernels) {
  for (std::size_t i = 0; i < pages_.size(); ++i) {
    float* const from = other.pages_[i];
    if (from == nullptr) continue;
    if (pages_[i] == nullptr) {
      std::swap(pages_[i], other.pages_[i]);
      continue;
    }
    kernels.add_sums(nullptr, nullptr, pages_[i], from, static_cast<std::int64_t>(pool_->numbers()));
  }
}

InputSums::InputSums(std::int64_t numbers)
    : numbers_(numbers),
      data_(static_cast<float*>(std::calloc(static_cast<std::size_t>(std::max<std::int64_t>(numbers, 1)), 4))) {
  if (!data_) throw std::bad_alloc();
}

void InputSums::add(InputSums& other) {
  if (other.last < other.first) return;
  for (std::int64_t i = other.first; i <= other.last; ++i) data_.get()[i] += other.data_.get()[i];
  std::fill(other.data() + other.first, other.data() + other.last + 1, 0.0F);
  first = std::min(first, other.first);
  last = std::max(last, other.last);
  other.first = INT64_MAX;
  other.last = -1;
}

}  // namespace weft::cpu
