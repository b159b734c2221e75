#pragma once

#include <memory>
#include <mutex>

namespace weft {

/// What fork() has to find free. Not copied or moved: fork() remembers where it is.
class HeldAcrossForks {
 public:
  HeldAcrossForks(const HeldAcrossForks&) = delete;
  HeldAcrossForks& operator=(const HeldAcrossForks&) = delete;
  virtual bool try_hold() = 0;
  virtual void let_go() = 0;
  virtual void renew() = 0;  ///< as let_go, in a child, where the holder has another thread number

 protected:
  HeldAcrossForks() = default;
  ~HeldAcrossForks() = default;
  void enrol();
  void withdraw();
};

/// A mutex that no other thread holds at the moment of a fork(), so that a child, in which those threads do not exist,
/// can use what it guards. fork() waits for whoever holds one: only for what is held shortly. May be nested.
template <typename Mutex = std::mutex>
class ForkSafe final : private HeldAcrossForks {
 public:
  ForkSafe() { enrol(); }
  ~ForkSafe() { withdraw(); }
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }
  bool try_lock() { return mutex_.try_lock(); }
  void lock_shared() { mutex_.lock_shared(); }
  void unlock_shared() { mutex_.unlock_shared(); }
  bool try_lock_shared() { return mutex_.try_lock_shared(); }

 private:
  bool try_hold() override { return mutex_.try_lock(); }
  void let_go() override { mutex_.unlock(); }
  void renew() override { std::construct_at(&mutex_); }

  Mutex mutex_;
};

}  // namespace weft
