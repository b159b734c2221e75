#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace weft::explain {

/// Who is told what goes on meanwhile.
class Listener {
 public:
  using Hear = std::function<void(const std::string&)>;
  /// Something begins that may take a second; it has ended when what is returned is gone.
  using Begin = std::function<std::shared_ptr<void>(const std::string&)>;

  Listener() = default;
  Listener(Hear warn, Hear remark, Begin begin)
      : warn_(std::move(warn)), remark_(std::move(remark)), begin_(std::move(begin)) {}

  /// What two kernels lack, one behind the other, is said once: false the second time.
  bool warn(const std::string& text) const {
    if (text == last_warning_) return false;
    last_warning_ = text;
    if (warn_) warn_(text);
    return true;
  }
  void remark(const std::string& text) const {
    if (remark_) remark_(text);
  }
  std::shared_ptr<void> begin(const std::string& what) const { return begin_ ? begin_(what) : nullptr; }

 private:
  Hear warn_, remark_;
  Begin begin_;
  mutable std::string last_warning_ = {};
};

}  // namespace weft::explain
