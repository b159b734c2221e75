#include "faults.h"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>

extern "C" char __executable_start, etext;  // NOLINT: the linker's names

namespace weft::test {
namespace {

constexpr long kNever = -1;
std::atomic<long> left{kNever};
std::atomic<bool> refused{false};
std::atomic<bool> only_weft{false};
std::atomic<bool> no_threads{false};
std::atomic<int> refused_threads{0};

bool is_in_program(const void* address) {
  const auto* const at = static_cast<const char*>(address);
  return at >= &__executable_start && at < &etext;
}

bool is_in_strings(const void* address) {
  Dl_info info{};
  return ::dladdr(address, &info) != 0 && info.dli_fname != nullptr &&
         std::strstr(info.dli_fname, "libstdc++") != nullptr;
}

bool is_refused(const void* caller) {
  if (left.load(std::memory_order_relaxed) == kNever) return false;
  if (!is_in_program(caller) && (only_weft || !is_in_strings(caller))) return false;
  long seen = left;
  while (seen != kNever && !left.compare_exchange_weak(seen, seen - 1)) {
  }
  if (seen != 0) return false;  // once: below it there is kNever
  refused = true;
  return true;
}

void* allocate(std::size_t size, std::size_t alignment, const void* caller) {
  if (is_refused(caller)) return nullptr;
  if (size == 0) size = 1;
  if (alignment <= alignof(std::max_align_t)) return std::malloc(size);
  return std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

void* or_throw(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void refuse_memory_after(long count, Asking who) {
  refused = false;
  only_weft = who == Asking::weft;
  left = count;
}

bool give_memory() {
  left = kNever;
  return refused;
}

NoThreads::NoThreads() {
  refused_threads = 0;
  no_threads = true;
}
NoThreads::~NoThreads() { no_threads = false; }
int threads_refused() { return refused_threads; }

}  // namespace weft::test

extern "C" __attribute__((visibility("default"))) int pthread_create(pthread_t* thread,
                                                                     const pthread_attr_t* attributes,
                                                                     void* (*start)(void*), void* argument) {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  if (weft::test::no_threads) {
    ++weft::test::refused_threads;
    return EAGAIN;
  }
  static const auto real = reinterpret_cast<Create>(::dlsym(RTLD_NEXT, "pthread_create"));
  return real(thread, attributes, start, argument);
}

using weft::test::allocate;
using weft::test::or_throw;
#define WEFT_CALLER __builtin_return_address(0)

void* operator new(std::size_t size) { return or_throw(allocate(size, 0, WEFT_CALLER)); }
void* operator new[](std::size_t size) { return or_throw(allocate(size, 0, WEFT_CALLER)); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return allocate(size, 0, WEFT_CALLER); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return allocate(size, 0, WEFT_CALLER); }
void* operator new(std::size_t size, std::align_val_t to) {
  return or_throw(allocate(size, static_cast<std::size_t>(to), WEFT_CALLER));
}
void* operator new[](std::size_t size, std::align_val_t to) {
  return or_throw(allocate(size, static_cast<std::size_t>(to), WEFT_CALLER));
}
void* operator new(std::size_t size, std::align_val_t to, const std::nothrow_t&) noexcept {
  return allocate(size, static_cast<std::size_t>(to), WEFT_CALLER);
}
void* operator new[](std::size_t size, std::align_val_t to, const std::nothrow_t&) noexcept {
  return allocate(size, static_cast<std::size_t>(to), WEFT_CALLER);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t, const std::nothrow_t&) noexcept { std::free(memory); }

#if defined(__SANITIZE_ADDRESS__)
/// Memory that is refused is an error of the call under the sanitizer, too, not the end of the process.
extern "C" __attribute__((visibility("default"))) const char* __asan_default_options() {
  return "allocator_may_return_null=1";
}
#endif
