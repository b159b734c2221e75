#pragma once

#include "dsl/ast.h"

#include <string_view>
#include <vector>

namespace weft::dsl {

/// The comments of a file in order; each is taken once, by whoever writes what stands behind it.
class Comments {
 public:
  Comments(const std::vector<Comment>& list, std::string_view text) : list_(list), text_(text) {}

  /// Is the next one in front of `place`?
  bool before(std::uint32_t place) const { return next_ < list_.size() && list_[next_].range.begin < place; }
  const Comment& peek() const { return list_[next_]; }
  const Comment& take() { return list_[next_++]; }

  /// Does it share its line with something before it?
  bool trails(const Comment& comment) const {
    const std::size_t at = text_.substr(0, comment.range.begin).find_last_not_of(" \t\r");
    return at != std::string_view::npos && text_[at] != '\n';
  }

 private:
  const std::vector<Comment>& list_;
  std::string_view text_;
  std::size_t next_ = 0;
};

}  // namespace weft::dsl
