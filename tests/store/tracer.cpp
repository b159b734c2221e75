#include "tracer.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace weft::store_test {
namespace {

/// What marks the beginning and the end of the work: a call that nothing else makes.
constexpr long kMark = SYS_getppid;

std::string memory_of(pid_t process, std::uint64_t address, std::size_t size) {
  std::string out(size, '\0');
  iovec here{out.data(), size};
  iovec there{reinterpret_cast<void*>(address), size};
  const ssize_t got = ::process_vm_readv(process, &here, 1, &there, 1, 0);
  out.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
  return out;
}

std::string text_of(pid_t process, std::uint64_t address) {
  std::string out;
  while (out.size() < 8192) {
    // Not over the end of a page, behind which there may be nothing.
    const std::string part = memory_of(process, address + out.size(), 256 - (address + out.size()) % 256);
    const std::size_t end = part.find('\0');
    out += part.substr(0, end);
    if (part.empty() || end != std::string::npos) break;
  }
  return out;
}

Call call_of(pid_t process, const __ptrace_syscall_info& info) {
  Call out{.number = info.entry.nr};
  std::copy_n(info.entry.args, out.arguments.size(), out.arguments.begin());
  switch (static_cast<long>(out.number)) {
    case SYS_openat:
    case SYS_newfstatat:
    case SYS_mkdirat:
    case SYS_unlinkat:
    case SYS_utimensat:
    case SYS_faccessat2:
      out.path = text_of(process, out.arguments[1]);
      break;
    case SYS_mkdir:
      out.path = text_of(process, out.arguments[0]);
      break;
    case SYS_rename:
      out.path = text_of(process, out.arguments[0]);
      out.second_path = text_of(process, out.arguments[1]);
      break;
    case SYS_renameat:
    case SYS_renameat2:
      out.path = text_of(process, out.arguments[1]);
      out.second_path = text_of(process, out.arguments[3]);
      break;
    case SYS_write:
    case SYS_pwrite64:
      out.data = memory_of(process, out.arguments[1], out.arguments[2]);
      break;
    default:
      break;
  }
  return out;
}

void set_register(pid_t process, std::size_t offset, std::int64_t value) {
  ::ptrace(PTRACE_POKEUSER, process, reinterpret_cast<void*>(offset), reinterpret_cast<void*>(value));
}

/// A process between its stops.
class Tracer {
 public:
  Tracer(pid_t process, const Decide& decide) : process_(process), decide_(decide) {}

  Ended run() {
    int status = 0;
    ::waitpid(process_, &status, 0);
    ::ptrace(PTRACE_SETOPTIONS, process_, nullptr,
             reinterpret_cast<void*>(std::uintptr_t{PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL}));
    for (long passed_on = 0;;) {
      ::ptrace(PTRACE_SYSCALL, process_, nullptr, reinterpret_cast<void*>(passed_on));
      passed_on = 0;
      if (::waitpid(process_, &status, 0) != process_) std::abort();
      if (WIFEXITED(status) || WIFSIGNALED(status)) break;
      if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
        at_call();
      } else if (WSTOPSIG(status) != SIGSTOP && WSTOPSIG(status) != SIGTRAP) {
        passed_on = WSTOPSIG(status);
      }
    }
    ended_.killed = WIFSIGNALED(status);
    if (WIFEXITED(status)) ended_.status = WEXITSTATUS(status);
    return std::move(ended_);
  }

 private:
  void at_call() {
    __ptrace_syscall_info info{};
    ::ptrace(PTRACE_GET_SYSCALL_INFO, process_, sizeof info, &info);
    if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
      if (info.entry.nr == static_cast<std::uint64_t>(kMark)) {
        ++marks_;
      } else if (marks_ == 1) {
        enter(call_of(process_, info));
      }
    } else if (info.op == PTRACE_SYSCALL_INFO_EXIT && inside_) {
      leave(info.exit.rval);
    }
  }

  void enter(Call call) {
    refusal_ = decide_ ? decide_(call, ended_.calls.size()) : 0;
    ended_.calls.push_back(std::move(call));
    inside_ = true;
    if (refusal_ == kKill) {
      ::kill(process_, SIGKILL);
    } else if (refusal_ != 0) {
      set_register(process_, offsetof(user_regs_struct, orig_rax), -1);  // no call at all
    }
  }

  void leave(std::int64_t result) {
    inside_ = false;
    if (refusal_ > 0) {
      result = -refusal_;
      set_register(process_, offsetof(user_regs_struct, rax), result);
    }
    ended_.calls.back().result = result;
  }

  pid_t process_;
  const Decide& decide_;
  Ended ended_;
  int marks_ = 0;
  bool inside_ = false;
  int refusal_ = 0;
};

}  // namespace

Ended traced(const std::function<int()>& work, const Decide& decide) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child < 0) std::abort();
  if (child == 0) {
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(255);
    ::raise(SIGSTOP);
    ::syscall(kMark);
    const int status = work();
    ::syscall(kMark);
    ::_exit(status);
  }
  return Tracer(child, decide).run();
}

std::string cannot_trace() {
  const Ended tried = traced([] { return ::syscall(SYS_getuid) < 0 ? errno : 0; },
                             [](const Call& call, std::size_t) { return call.number == SYS_getuid ? EIO : 0; });
  return tried.status == EIO ? "" : "processes cannot be traced here";
}

bool is_about_files(const Call& call) {
  static const std::vector<long> kNumbers = {
      SYS_openat, SYS_newfstatat, SYS_fstat, SYS_read,      SYS_pread64,   SYS_write,     SYS_pwrite64,
      SYS_fsync,  SYS_renameat,   SYS_mkdir, SYS_renameat2, SYS_mkdirat,   SYS_unlinkat,  SYS_getdents64,
      SYS_flock,  SYS_faccessat2, SYS_close, SYS_ftruncate, SYS_getrandom, SYS_utimensat, SYS_fcntl,
      SYS_unlink, SYS_rename,     SYS_rmdir, SYS_access,    SYS_lseek,     SYS_faccessat, SYS_statx};
  return std::find(kNumbers.begin(), kNumbers.end(), static_cast<long>(call.number)) != kNumbers.end();
}

}  // namespace weft::store_test
