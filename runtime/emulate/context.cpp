#include "runtime/emulate/context.h"

#include <boost/context/detail/fcontext.hpp>

// Each compiler has a way of its own to say which sanitizer it builds for.
#if defined(__has_feature)
#define WEFT_HAS_FEATURE(name) __has_feature(name)
#else
#define WEFT_HAS_FEATURE(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || WEFT_HAS_FEATURE(address_sanitizer)
#define WEFT_ASAN 1
#define WEFT_ON_THE_REAL_STACK __attribute__((no_sanitize_address))
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#elif defined(__SANITIZE_THREAD__) || WEFT_HAS_FEATURE(thread_sanitizer)
#define WEFT_TSAN 1
#include <sanitizer/tsan_interface.h>
#endif

#ifndef WEFT_ON_THE_REAL_STACK
#define WEFT_ON_THE_REAL_STACK
#endif

namespace weft::emulate {
namespace {

namespace boost_context = boost::context::detail;

/// What the side that wakes is told: who has just stopped, and who it is itself.
struct Switch {
  Context& from;
  Context& to;
};

}  // namespace

struct Context::Entry {
  static void wake(const boost_context::transfer_t& by) { static_cast<Switch*>(by.data)->from.context_ = by.fctx; }

  static void run(boost_context::transfer_t by) {
    const Switch now = *static_cast<Switch*>(by.data);
    wake(by);
#if defined(WEFT_ASAN)
    __sanitizer_finish_switch_fiber(nullptr, &now.from.bottom_, &now.from.size_);
#endif
    now.to.main_(now.to.data_);
  }
};

void Context::start(unsigned char* top, std::size_t size, void (*main)(void* data), void* data) {
  context_ = boost_context::make_fcontext(top, size, Entry::run);
  main_ = main;
  data_ = data;
  bottom_ = top - size;
  size_ = size;
#if defined(WEFT_ASAN)
  __asan_unpoison_memory_region(bottom_, size_);
#elif defined(WEFT_TSAN)
  if (shadow_ != nullptr) __tsan_destroy_fiber(shadow_);
  shadow_ = __tsan_create_fiber(0);
#endif
}

void Context::change(Context& from, Context& to) { change(from, to, false); }

void Context::leave(Context& from, Context& to) {
  change(from, to, true);
  __builtin_unreachable();
}

/// What it passes on must outlive the fake stack that it may give up.
WEFT_ON_THE_REAL_STACK void Context::change(Context& from, Context& to, [[maybe_unused]] bool for_good) {
#if defined(WEFT_ASAN)
  // Whoever never comes back must say so: else its fake stack is kept, which over a thousand launches is gigabytes.
  __sanitizer_start_switch_fiber(for_good ? nullptr : &from.fake_stack_, to.bottom_, to.size_);
#elif defined(WEFT_TSAN)
  if (from.main_ == nullptr) from.shadow_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(to.shadow_, 0);
#endif
  Switch now{from, to};
  Entry::wake(boost_context::jump_fcontext(to.context_, &now));
#if defined(WEFT_ASAN)
  __sanitizer_finish_switch_fiber(from.fake_stack_, nullptr, nullptr);
#endif
}

Context::~Context() {
#if defined(WEFT_TSAN)
  if (main_ != nullptr) __tsan_destroy_fiber(shadow_);
#endif
}

}  // namespace weft::emulate
