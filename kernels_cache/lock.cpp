#include "kernels_cache/lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <optional>
#include <thread>

namespace weft::cache {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kShortestPause{1}, kLongestPause{20};
constexpr std::chrono::seconds kSilence{1};
constexpr std::string_view kPrefix = "weft-";

/// What the holder of a lock writes into its file: its process number, or that turns are given up.
constexpr std::string_view kNoTurns = "go on\n";

std::string choose_directory() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && *runtime == '/') return std::string(runtime) + "/weft";
  return fmt::format("/tmp/weft-{}", ::geteuid());
}

/// How many names the file has: with none, nobody who opens the name waits for this lock. Nothing: it cannot be told.
std::optional<unsigned long> names_of(const Descriptor& file) {
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return std::nullopt;
  return info.st_nlink;
}

int holder_of(const std::string& note) {
  int out = 0;
  std::from_chars(note.data(), note.data() + note.size(), out);
  return out;
}

}  // namespace

Lock::Lock(std::shared_ptr<const Descriptor> directory, std::string name, std::unique_ptr<OwnFile> file)
    : directory_(std::move(directory)), name_(std::move(name)), file_(std::move(file)) {
  write_note(file_->file, fmt::format("{}\n", ::getpid()));
}

Lock& Lock::operator=(Lock&& other) noexcept {
  std::swap(directory_, other.directory_);
  std::swap(name_, other.name_);
  std::swap(file_, other.file_);
  std::swap(kept_, other.kept_);
  return *this;
}

void Lock::give_up_turns() {
  if (!*this) return;
  write_note(file_->file, kNoTurns);
  kept_ = true;
}

void Lock::release() {
  if (!*this) return;
  // The name goes first: who waits for this file finds it nameless and turns to the next.
  if (!kept_) (void)remove_in(*directory_, name_);
  unlock(file_->file);
}

Locks::Locks() : path_(choose_directory()) {}

std::shared_ptr<const Descriptor> Locks::directory() const {
  Descriptor opened;
  struct stat info {};
  // Somebody else may have put a link there, /tmp being open to all.
  const Descriptor here(AT_FDCWD);
  if (make_path(path_) != 0 || open_directory(here, path_, opened, info) != 0) return nullptr;
  if (!unsafe_because(info).empty()) return nullptr;
  return std::make_shared<const Descriptor>(std::move(opened));
}

Lock Locks::acquire(const Request& request) {
  const auto at = directory();
  if (at == nullptr) return {};
  const std::string name = std::string(kPrefix) + request.name;
  const auto start = Clock::now();
  auto pause = kShortestPause;
  bool waited = false, told = !request.on_wait;
  for (auto own = std::make_unique<OwnFile>();;) {
    Descriptor& file = own->file;
    if (!file && open_note(*at, name, file) != 0) return {};
    switch (try_lock(file)) {
      case 0: {
        const auto names = names_of(file);
        const bool no_turns = waited && read_note(file) == kNoTurns;
        if (names > 0U && !no_turns) return {at, name, std::move(own)};
        unlock(file);
        if (!names || no_turns || Clock::now() - start >= request.at_most) return {};
        file = Descriptor();
        continue;
      }
      case EWOULDBLOCK:
        break;
      default:
        return {};
    }
    waited = true;
    const auto time = Clock::now() - start;
    if (time >= request.at_most) return {};
    if (!told && time >= kSilence) {
      request.on_wait(holder_of(read_note(file)));
      told = true;
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kLongestPause);
  }
}

void Locks::sweep() {
  const auto at = directory();
  std::vector<Listed> files;
  if (at == nullptr || list(*at, files) != 0) return;
  for (const Listed& file : files) {
    Descriptor opened;
    if (!file.name.starts_with(kPrefix) || !S_ISREG(file.info.st_mode) || open_note(*at, file.name, opened) != 0)
      continue;
    if (try_lock(opened) != 0) continue;
    if (names_of(opened) > 0U) (void)remove_in(*at, file.name);
    unlock(opened);
  }
}

}  // namespace weft::cache
