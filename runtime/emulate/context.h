#pragma once

#include <cstddef>

namespace weft::emulate {

/// A point where execution has stopped, on a stack of its own. The one place that knows Boost.Context, and what
/// sanitizers must be told of stacks that they did not make.
class Context {
 public:
  Context() = default;  ///< of a thread of the host: has a stack and is first switched *from*
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  /// The first switch here runs `main(data)`, which does not return, on the `size` bytes below `top`. What was on
  /// that stack is abandoned: no destructor runs.
  void start(unsigned char* top, std::size_t size, void (*main)(void* data), void* data);

  /// Stops here, with its state in `from`, and goes on with `to` until somebody switches back.
  static void change(Context& from, Context& to);

  /// The same where nobody will: `from` may only be started afresh.
  [[noreturn]] static void leave(Context& from, Context& to);

 private:
  struct Entry;
  static void change(Context& from, Context& to, bool for_good);

  void* context_ = nullptr;
  void (*main_)(void*) = nullptr;
  void* data_ = nullptr;
  const void* bottom_ = nullptr;  ///< of the stack
  std::size_t size_ = 0;
  void* fake_stack_ = nullptr;  ///< AddressSanitizer's
  void* shadow_ = nullptr;      ///< ThreadSanitizer's
};

}  // namespace weft::emulate
