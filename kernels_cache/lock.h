#pragma once

#include "compiler/base/fork_safe.h"
#include "kernels_cache/directory.h"

#include <chrono>
#include <functional>
#include <memory>
#include <string>

/// Turns among the processes of one machine, so that they need not do the same work. Nothing is wrong without them:
/// who gets none goes on alone. `flock` only, which the system lets go of when the holder dies, on files in a
/// directory of this machine, as network file systems differ about locks.
namespace weft::cache {

/// A file that forked processes do not have: its lock ends with this process, whatever becomes of its children.
class OwnFile final : private HeldAcrossForks {
 public:
  OwnFile() { enrol(); }
  ~OwnFile() { withdraw(); }
  Descriptor file;

 private:
  bool try_hold() override { return true; }
  void let_go() override {}
  void renew() override { file = Descriptor(); }
};

/// A turn that is taken. Ends with the object; a forked process has none.
class Lock {
 public:
  Lock() = default;
  Lock(Lock&& other) noexcept = default;
  Lock& operator=(Lock&& other) noexcept;
  ~Lock() { release(); }

  explicit operator bool() const { return file_ != nullptr && file_->file; }

  /// Lets those who wait now go on at once, without turns: waiting for each other brings them nothing.
  void give_up_turns();

 private:
  friend class Locks;
  Lock(std::shared_ptr<const Descriptor> directory, std::string name, std::unique_ptr<OwnFile> file);
  void release();

  std::shared_ptr<const Descriptor> directory_;
  std::string name_;
  std::unique_ptr<OwnFile> file_;
  bool kept_ = false;
};

class Locks {
 public:
  /// In $XDG_RUNTIME_DIR/weft, else /tmp/weft-UID; made when it is first needed. One that others could write to is
  /// not used.
  Locks();

  struct Request {
    std::string name;
    std::chrono::milliseconds at_most;
    /// Called once, after a second of waiting, with the holder's process number (0 where it did not say).
    std::function<void(int)> on_wait = {};
  };
  /// Waits its turn. No lock: there is no directory, time ran out, or the holder gave up turns.
  Lock acquire(const Request& request);

  /// Removes what killed processes left behind.
  void sweep();

  const std::string& path() const { return path_; }

 private:
  std::shared_ptr<const Descriptor> directory() const;

  std::string path_;
};

}  // namespace weft::cache
