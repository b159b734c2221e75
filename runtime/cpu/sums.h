#pragma once

#include "codegen/cpu/micro_kernels.h"
#include "compiler/base/fork_safe.h"
#include "runtime/cpu/part.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

/// What a part of a backward launch adds up for keys and inputs, apart from other parts: added to one another in a
/// fixed order, they have the same bits however many threads there were.
namespace weft::cpu {

inline constexpr std::int64_t kPageKeys = 64;

/// Pages of f32 of one size, which launches share: allocated when they are first wanted, kept until the kernel goes.
/// Throws std::bad_alloc.
class PagePool {
 public:
  explicit PagePool(std::int64_t numbers) : numbers_(static_cast<std::size_t>(numbers)) {}
  std::size_t numbers() const { return numbers_; }

  /// All 0.
  float* take();
  void give_back(float* page);

 private:
  struct Free {
    void operator()(float* page) const { ::operator delete[](page, std::align_val_t{64}); }
  };
  std::size_t numbers_;
  ForkSafe<> mutex_;
  std::vector<std::unique_ptr<float[], Free>> all_;
  std::vector<float*> free_;
};

/// Rows of dK and dV of the keys that were touched: of each key first dK's numbers, then dV's, as Layout has them.
class KeySums {
 public:
  KeySums(PagePool& pool, std::int64_t keys, std::int64_t row)
      : pool_(&pool), row_(row), pages_(static_cast<std::size_t>((keys + kPageKeys - 1) / kPageKeys)) {}
  KeySums(KeySums&& other) noexcept
      : pool_(other.pool_),
        row_(other.row_),
        pages_(std::move(other.pages_)),
        lost_(std::exchange(other.lost_, nullptr)) {}
  KeySums& operator=(KeySums&&) = delete;
  ~KeySums();

  std::size_t pages() const { return pages_.size(); }
  /// Null where none of its keys was touched.
  const float* page(std::size_t number) const { return pages_[number]; }

  float* row(std::int64_t key) {
    float*& page = pages_[static_cast<std::size_t>(key / kPageKeys)];
    if (page == nullptr) page = pool_->take();
    return page + key % kPageKeys * row_;
  }
  /// A row for what keys get that are somebody else's: it is lost.
  float* lost_row() {
    if (lost_ == nullptr) lost_ = pool_->take();
    return lost_;
  }

  /// Takes over what `other` has; its pages become these or go back.
  void add(KeySums& other, const codegen::cpu::MicroKernels& kernels);

 private:
  PagePool* pool_;
  std::int64_t row_;
  std::vector<float*> pages_;
  float* lost_ = nullptr;
};

/// The gradient of an input, row-major by its extents, of which [first, last] was touched.
class InputSums {
 public:
  /// Throws std::bad_alloc.
  explicit InputSums(std::int64_t numbers);

  float* data() const { return data_.get(); }
  std::int64_t numbers() const { return numbers_; }
  std::int64_t first = INT64_MAX, last = -1;

  /// Takes over what `other` has, which is all 0 afterwards.
  void add(InputSums& other);

 private:
  struct Free {
    void operator()(float* data) const { std::free(data); }
  };
  std::int64_t numbers_;
  std::unique_ptr<float[], Free> data_;
};

/// Both, of one part. `inputs` has one for each that is wanted, by the input's number.
struct Sums {
  KeySums keys;
  const Part* part = nullptr;  ///< null: all of it is computed here
  std::vector<std::unique_ptr<InputSums>> inputs;
};

}  // namespace weft::cpu
