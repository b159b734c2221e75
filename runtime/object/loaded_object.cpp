#include "runtime/object/loaded_object.h"

#include "runtime/object/elf.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <optional>

namespace weft::object {
namespace {

constexpr std::uint64_t kLargestImage = 64U << 20;
constexpr std::uint64_t kLargestAlignment = 4096;
#if defined(MAP_32BIT)
constexpr int kLowMemory = MAP_32BIT;
#else
constexpr int kLowMemory = 0;  // not x86-64: nothing is loaded there
#endif
constexpr unsigned char kTrap = 0xCC;  // int3, so that a stray jump between functions stops at once

/// Sections of one protection lie together, so that a page has one.
enum Group : std::size_t { text, constants, data, kGroups };

constexpr std::array<int, kGroups> kProtection = {PROT_READ | PROT_EXEC, PROT_READ, PROT_READ | PROT_WRITE};

std::uint64_t align_up(std::uint64_t value, std::uint64_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}

Group group_of(const Section& section) {
  if (section.has(SHF_EXECINSTR)) return text;
  return section.has(SHF_WRITE) ? data : constants;
}

std::size_t relocation_width(std::uint64_t type) { return type == R_X86_64_64 ? 8 : 4; }

bool is_absolute_32(std::uint64_t type) { return type == R_X86_64_32 || type == R_X86_64_32S; }

template <typename Narrow>
bool fits(std::int64_t value) {
  return value >= std::numeric_limits<Narrow>::min() && value <= std::numeric_limits<Narrow>::max();
}

}  // namespace

/// One load, step by step; a friend, so that a LoadedObject is complete before anyone sees it.
class Loader {
 public:
  Loader(const ElfObject& object, const std::string& name)
      : object_(object), name_(name), offsets_(object.sections.size()), out_(new LoadedObject) {}

  Result<std::shared_ptr<const LoadedObject>> load() {
    WEFT_CHECK(lay_out());
    WEFT_CHECK(map());
    copy();
    for (const Relocations& list : object_.relocations) WEFT_CHECK(relocate(list));
    WEFT_CHECK(collect_symbols());
    WEFT_CHECK(protect());
    return std::shared_ptr<const LoadedObject>(std::move(out_));
  }

 private:
  template <typename... Args>
  Error broken(fmt::format_string<Args...> what, Args&&... args) const {
    return internal_error(
        fmt::format("{} cannot be loaded: {}", name_, fmt::format(what, std::forward<Args>(args)...)));
  }
  Error refused(const char* what) const {
    return environment_error(fmt::format("{} cannot be loaded: {}: {}", name_, what, std::strerror(errno)));
  }

  Status check_section(const Section& section) const {
    const Elf64_Shdr& header = section.header;
    if (header.sh_type != SHT_PROGBITS && header.sh_type != SHT_NOBITS) {
      return broken("section {} has type {}", section.name, header.sh_type);
    }
    if (section.name.substr(0, 6) == ".ctors") return broken("it has constructors, which nobody would call");
    if (section.has(SHF_TLS)) return broken("section {} is thread-local", section.name);
    if (section.has(SHF_WRITE) && section.has(SHF_EXECINSTR)) {
      return broken("section {} is both writable and executable", section.name);
    }
    const std::uint64_t alignment = header.sh_addralign;
    if (alignment > kLargestAlignment || (alignment & (alignment - 1)) != 0) {
      return broken("section {} has alignment {}", section.name, alignment);
    }
    if (header.sh_size > kLargestImage) return broken("section {} has {} bytes", section.name, header.sh_size);
    return done;
  }

  Status lay_out() {
    const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    std::uint64_t end = 0;
    for (std::size_t group = 0; group < kGroups; ++group) {
      group_begin_[group] = end = align_up(end, page);
      for (std::size_t i = 0; i < object_.sections.size(); ++i) {
        const Section& section = object_.sections[i];
        if (!is_loaded(section) || group_of(section) != group) continue;
        WEFT_CHECK(check_section(section));
        end = align_up(end, std::max<std::uint64_t>(1, section.header.sh_addralign));
        offsets_[i] = end;
        end += section.header.sh_size;
        if (end > kLargestImage) return broken("it needs more than {} MiB", kLargestImage >> 20);
      }
    }
    out_->size_ = align_up(std::max<std::uint64_t>(end, 1), page);
    return done;
  }

  Status map() {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE;
    for (const Relocations& list : object_.relocations) {
      const bool low = std::any_of(list.entries.begin(), list.entries.end(),
                                   [](const Elf64_Rela& entry) { return is_absolute_32(ELF64_R_TYPE(entry.r_info)); });
      if (low && offsets_[list.section]) flags |= kLowMemory;
    }
    void* image = mmap(nullptr, out_->size_, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (image == MAP_FAILED) return refused("no memory for it");
    out_->image_ = static_cast<unsigned char*>(image);
    return done;
  }

  void copy() {
    std::memset(out_->image_ + group_begin_[text], kTrap, group_begin_[constants] - group_begin_[text]);
    for (std::size_t i = 0; i < offsets_.size(); ++i) {
      const Section& section = object_.sections[i];
      if (!offsets_[i]) continue;
      if (!section.bytes.empty()) std::memcpy(out_->image_ + *offsets_[i], section.bytes.data(), section.bytes.size());
    }
  }

  /// Offset of a defined symbol in the image.
  Result<std::uint64_t> place(const Symbol& symbol) const {
    if (symbol.undefined()) return broken("it needs the symbol `{}`, which it does not define", symbol.name);
    const std::size_t index = symbol.entry.st_shndx;
    if (index >= offsets_.size() || !offsets_[index]) return broken("`{}` lies in no loaded section", symbol.name);
    if (symbol.entry.st_value > object_.sections[index].header.sh_size) {
      return broken("`{}` lies outside its section", symbol.name);
    }
    return *offsets_[index] + symbol.entry.st_value;
  }

  Status relocate(const Relocations& list) {
    if (!offsets_[list.section]) return done;
    const Section& section = object_.sections[list.section];
    for (const Elf64_Rela& entry : list.entries) {
      const std::uint64_t type = ELF64_R_TYPE(entry.r_info);
      const std::size_t width = relocation_width(type);
      if (width > section.bytes.size() || entry.r_offset > section.bytes.size() - width) {
        return broken("a relocation lies outside section {}", section.name);
      }
      WEFT_TRY(const std::uint64_t target, place(object_.symbols[ELF64_R_SYM(entry.r_info)]));
      WEFT_CHECK(patch(type, *offsets_[list.section] + entry.r_offset, target, entry.r_addend));
    }
    return done;
  }

  /// Names of the psABI: S the symbol's address, A the addend, P the place patched. Sums wrap, as there.
  Status patch(std::uint64_t type, std::uint64_t at, std::uint64_t target, std::int64_t addend) {
    const auto base = reinterpret_cast<std::uintptr_t>(out_->image_);
    const std::uint64_t absolute = base + target + static_cast<std::uint64_t>(addend);  // S + A
    const auto relative = static_cast<std::int64_t>(absolute - (base + at));            // S + A - P
    bool reaches = true;
    std::uint64_t value = absolute;
    switch (type) {
      case R_X86_64_64:
        break;
      case R_X86_64_PC32:
      case R_X86_64_PLT32:
        value = static_cast<std::uint64_t>(relative);
        reaches = fits<std::int32_t>(relative);
        break;
      case R_X86_64_32:
        reaches = absolute <= std::numeric_limits<std::uint32_t>::max();
        break;
      case R_X86_64_32S:
        reaches = fits<std::int32_t>(static_cast<std::int64_t>(absolute));
        break;
      default:
        return broken("relocation type {} is none that kernels need (a global without private linkage?)", type);
    }
    if (!reaches) return broken("a relocation of type {} does not reach its target", type);
    std::memcpy(out_->image_ + at, &value, relocation_width(type));  // little-endian: the low bytes
    return done;
  }

  Status collect_symbols() {
    for (const Symbol& symbol : object_.symbols) {
      if (!symbol.named() || ELF64_ST_BIND(symbol.entry.st_info) != STB_GLOBAL) continue;
      WEFT_TRY(const std::uint64_t offset, place(symbol));
      out_->symbols_.emplace(symbol.name, offset);
    }
    return done;
  }

  Status protect() {
    for (std::size_t group = 0; group < kGroups; ++group) {
      const std::uint64_t begin = group_begin_[group];
      const std::uint64_t end = group + 1 < kGroups ? group_begin_[group + 1] : out_->size_;
      if (begin == end) continue;
      if (mprotect(out_->image_ + begin, end - begin, kProtection[group]) != 0) {
        return refused("the system refuses to protect its memory");
      }
    }
    return done;
  }

  const ElfObject& object_;
  const std::string& name_;
  std::vector<std::optional<std::uint64_t>> offsets_;  ///< of each section in the image; none: not loaded
  std::array<std::uint64_t, kGroups> group_begin_{};
  std::unique_ptr<LoadedObject> out_;
};

Result<std::shared_ptr<const LoadedObject>> LoadedObject::load(std::string_view bytes, const std::string& name) {
#if defined(__x86_64__)
  WEFT_TRY(const ElfObject object, read_elf_object(bytes, name));
  return Loader(object, name).load();
#else
  return environment_error(name + " cannot be loaded: this machine is not x86-64");
#endif
}

void* LoadedObject::symbol(std::string_view name) const {
  const auto found = symbols_.find(name);
  return found == symbols_.end() ? nullptr : image_ + found->second;
}

LoadedObject::~LoadedObject() {
  if (image_ != nullptr) munmap(image_, size_);
}

}  // namespace weft::object
