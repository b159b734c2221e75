#include "runtime/object/identity.h"

#include "compiler/base/digest.h"
#include "compiler/base/fork_safe.h"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <tuple>

namespace weft::object {
namespace {

constexpr std::size_t kLargestNotes = 1U << 20;

class File {
 public:
  explicit File(const std::string& path) : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool is_open() const { return fd_ >= 0; }
  int descriptor() const { return fd_; }

  /// Exactly `count` bytes from `offset`, or nothing.
  std::optional<std::string> read(std::uint64_t offset, std::size_t count) const {
    std::string out(count, '\0');
    for (std::size_t have = 0; have < count;) {
      const ssize_t got = pread(fd_, out.data() + have, count - have, static_cast<off_t>(offset + have));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return std::nullopt;
      have += static_cast<std::size_t>(got);
    }
    return out;
  }

  template <typename T>
  std::optional<T> read_record(std::uint64_t offset) const {
    const auto bytes = read(offset, sizeof(T));
    if (!bytes) return std::nullopt;
    T out;
    std::memcpy(&out, bytes->data(), sizeof(T));
    return out;
  }

 private:
  int fd_;
};

/// The GNU build-id among the notes of one segment. Notes: sizes, type, name and description, each padded to 4.
std::optional<std::string> build_id_in(std::string_view notes) {
  const auto padded = [](std::uint64_t size) { return (size + 3) & ~std::uint64_t{3}; };
  while (notes.size() >= sizeof(Elf64_Nhdr)) {
    Elf64_Nhdr note;
    std::memcpy(&note, notes.data(), sizeof(note));
    notes.remove_prefix(sizeof(note));
    const std::uint64_t name = padded(note.n_namesz);
    const std::uint64_t whole = name + padded(note.n_descsz);
    if (name > notes.size() || note.n_descsz > notes.size() - name) return std::nullopt;
    if (note.n_type == NT_GNU_BUILD_ID && notes.substr(0, note.n_namesz) == std::string_view("GNU\0", 4)) {
      std::string out;
      for (char c : notes.substr(name, note.n_descsz)) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
      return out;
    }
    notes.remove_prefix(std::min<std::uint64_t>(whole, notes.size()));
  }
  return std::nullopt;
}

std::optional<std::string> build_id(const File& file, const Elf64_Ehdr& header) {
  if (header.e_phentsize != sizeof(Elf64_Phdr)) return std::nullopt;
  // At once: a key is made for every kernel, and a call for each segment would be half of its time.
  const auto table = file.read(header.e_phoff, header.e_phnum * sizeof(Elf64_Phdr));
  if (!table) return std::nullopt;
  for (std::size_t at = 0; at < table->size(); at += sizeof(Elf64_Phdr)) {
    Elf64_Phdr segment;
    std::memcpy(&segment, table->data() + at, sizeof(segment));
    if (segment.p_type != PT_NOTE || segment.p_filesz > kLargestNotes) continue;
    const auto notes = file.read(segment.p_offset, segment.p_filesz);
    if (!notes) continue;
    if (auto id = build_id_in(*notes)) return id;
  }
  return std::nullopt;
}

std::optional<std::string> hash_of(const File& file, std::size_t size) {
  void* bytes = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
  if (bytes == MAP_FAILED) return std::nullopt;
  std::string out = hex(sha256({static_cast<const char*>(bytes), size}));
  munmap(bytes, size);
  return out;
}

using Key = std::tuple<dev_t, ino_t, off_t, time_t, long, time_t, long>;
ForkSafe<> mutex;  // of what follows
std::map<Key, std::string> hashes;

/// hash_of, remembered as long as the file looks the same.
std::optional<std::string> remembered_hash(const File& file, const struct stat& info) {
  const Key key{info.st_dev,          info.st_ino,         info.st_size,        info.st_mtim.tv_sec,
                info.st_mtim.tv_nsec, info.st_ctim.tv_sec, info.st_ctim.tv_nsec};
  const std::lock_guard lock(mutex);
  if (const auto found = hashes.find(key); found != hashes.end()) return found->second;
  auto hash = hash_of(file, static_cast<std::size_t>(info.st_size));
  if (hash) hashes.emplace(key, *hash);
  return hash;
}

/// The build-id of the module of this process that holds `address`.
struct Search {
  std::uintptr_t address;
  std::string found = {};
};

int look_at_module(dl_phdr_info* module, std::size_t, void* to) {
  auto& search = *static_cast<Search*>(to);
  const std::span segments(module->dlpi_phdr, module->dlpi_phnum);
  std::uint64_t size = 0;
  bool here = false;
  for (const auto& segment : segments) {
    if (segment.p_type != PT_LOAD) continue;
    size += segment.p_filesz;
    here = here || search.address - (module->dlpi_addr + segment.p_vaddr) < segment.p_memsz;
  }
  if (!here) return 0;
  for (const auto& segment : segments) {
    if (segment.p_type != PT_NOTE) continue;
    const auto* const notes = reinterpret_cast<const char*>(module->dlpi_addr + segment.p_vaddr);
    const auto id = build_id_in({notes, segment.p_filesz});
    if (id) search.found = fmt::format("build-id {} size {}", *id, size);
  }
  return 1;
}

}  // namespace

std::string own_build() {
  Search search{.address = reinterpret_cast<std::uintptr_t>(&own_build)};
  dl_iterate_phdr(look_at_module, &search);
  return search.found;
}

Result<std::string> library_identity(const std::string& path) {
  const File file(path);
  struct stat info {};
  if (!file.is_open() || fstat(file.descriptor(), &info) != 0) {
    return environment_error(fmt::format("{} cannot be read: {}", path, std::strerror(errno)));
  }
  const auto header = file.read_record<Elf64_Ehdr>(0);
  if (!S_ISREG(info.st_mode) || !header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB) {
    return environment_error(fmt::format("{} is not a 64-bit shared library", path));
  }
  if (const auto id = build_id(file, *header)) return fmt::format("build-id {} size {}", *id, info.st_size);
  if (const auto hash = remembered_hash(file, info)) return fmt::format("sha256 {}", *hash);
  return environment_error(fmt::format("{} cannot be read: {}", path, std::strerror(errno)));
}

}  // namespace weft::object
