#pragma once

#include <condition_variable>
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
  enum class Turn { any, first };  ///< first: whose holders may take long, waited for while nothing else is held
  void enrol(Turn turn = Turn::any);
  void withdraw();
};

/// How many forks lie between this process and the first that asked. What threads of another generation were doing or
/// holding stays that way in this one, where they do not exist.
unsigned long fork_generation();

/// A mutex that no other thread holds at the moment of a fork(), so that a child, in which those threads do not exist,
/// can use what it guards. fork() waits for whoever holds one: only for what is held shortly. May be nested. One that
/// lasts as long as the process stands at namespace scope: a child in which some thread was making a function's static
/// waits for it for ever, and to make one is to wait for a fork that is going on.
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

/// Uses of what has locks and tables of its own, which no mutex of ours guards: at the moment of a fork() none is going
/// on. fork() lets no further one begin and waits for those that have begun, so: only for what ends by itself, and in
/// a fraction of a second. Taken as a lock, side by side by any number of threads; not nested.
class EndsBeforeForks final : private HeldAcrossForks {
 public:
  EndsBeforeForks() { enrol(Turn::first); }
  ~EndsBeforeForks() { withdraw(); }
  void lock();
  void unlock();

 private:
  bool try_hold() override;
  void let_go() override;
  void renew() override;

  /// A fork may leave the mutex closed in the child, so that it is renewed there with all the rest.
  struct State {
    std::mutex mutex;
    std::condition_variable reopened;
    int going_on = 0;
    bool fork_waits = false;
  };
  State state_;
};

}  // namespace weft
