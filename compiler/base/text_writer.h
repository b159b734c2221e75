#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

namespace weft {

/// Indented lines into one string. Numbers go through fmt, so no locale can change generated text.
class TextWriter {
 public:
  explicit TextWriter(int spaces = 2) : spaces_(spaces) {}

  template <typename... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    text_.append(static_cast<std::size_t>(depth_ * spaces_), ' ');
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    text_ += '\n';
  }
  void blank() { text_ += '\n'; }
  void raw(std::string_view text) { text_ += text; }
  void indent() { ++depth_; }
  void dedent() { --depth_; }

  const std::string& text() const& { return text_; }
  std::string take() && { return std::move(text_); }

 private:
  std::string text_;
  int depth_ = 0;
  int spaces_;
};

}  // namespace weft
