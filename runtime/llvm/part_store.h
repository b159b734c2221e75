#pragma once

#include "compiler/base/fork_safe.h"

#include <cstddef>
#include <deque>
#include <map>
#include <string>

namespace weft::llvm {

/// Objects of parts (parts.h) by all that they were made of, so that nothing is mistaken for anything else. The oldest
/// make room for new ones. Thread-safe.
class PartStore {
 public:
  explicit PartStore(std::size_t most_bytes) : most_bytes_(most_bytes) {}

  bool find(const std::string& made_of, std::string& object);
  void keep(std::string made_of, const std::string& object);
  std::size_t bytes();

 private:
  using Objects = std::map<std::string, std::string>;

  const std::size_t most_bytes_;
  ForkSafe<> mutex_;
  Objects objects_;
  std::deque<Objects::iterator> by_age_;
  std::size_t bytes_ = 0;
};

}  // namespace weft::llvm
