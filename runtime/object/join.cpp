#include "runtime/object/join.h"

#include "runtime/object/elf.h"

#include <fmt/format.h>

#include <cstring>
#include <map>
#include <optional>

namespace weft::object {
namespace {

constexpr char kNoStack[] = ".note.GNU-stack";
constexpr std::uint64_t kLargestAlignment = 4096;

template <typename T>
std::string_view bytes_of(const T* records, std::size_t count) {
  return {reinterpret_cast<const char*>(records), count * sizeof(T)};
}

/// Unwind tables are for exceptions, which kernels throw none of.
bool is_kept(const Section& section) { return section.has(SHF_ALLOC) && section.name != ".eh_frame"; }

/// A section to be written.
struct Out {
  Elf64_Shdr header{};
  std::string bytes;
};

class Joiner {
 public:
  Joiner(const std::vector<std::string>& objects, const std::string& name) : bytes_(objects), name_(name) {}

  Result<std::string> join() {
    for (const auto& bytes : bytes_) {
      WEFT_TRY(auto object, read_elf_object(bytes, name_));
      objects_.push_back(std::move(object));
    }
    sections_.emplace_back();
    for (const ElfObject& object : objects_) WEFT_CHECK(take_sections(object));
    WEFT_CHECK(take_symbols());
    WEFT_CHECK(take_relocations());
    return written();
  }

 private:
  /// Where an object's sections and symbols went; none: nowhere.
  struct Places {
    std::vector<std::optional<std::size_t>> sections, symbols;
  };

  template <typename... Args>
  Error broken(fmt::format_string<Args...> what, Args&&... args) const {
    return internal_error(
        fmt::format("the parts of {} do not fit together: {}", name_, fmt::format(what, std::forward<Args>(args)...)));
  }

  Elf64_Word named(std::string_view text) {
    const auto at = static_cast<Elf64_Word>(names_.size());
    names_.append(text).push_back('\0');
    return at;
  }

  std::size_t add(std::string_view section_name, Elf64_Shdr header, std::string_view bytes) {
    header.sh_name = named(section_name);
    if (header.sh_type != SHT_NOBITS) header.sh_size = bytes.size();
    sections_.push_back({header, std::string(bytes)});
    return sections_.size() - 1;
  }

  Status take_sections(const ElfObject& object) {
    Places places{.sections = {}, .symbols = std::vector<std::optional<std::size_t>>(object.symbols.size())};
    for (const Section& section : object.sections) {
      std::optional<std::size_t> place;
      const auto alignment = section.header.sh_addralign;
      if (alignment > kLargestAlignment) return broken("section {} has alignment {}", section.name, alignment);
      if (is_kept(section)) place = add(section.name, section.header, section.bytes);
      places.sections.push_back(place);
    }
    places_.push_back(std::move(places));
    return done;
  }

  /// Is a symbol of use in the whole, and there?
  bool is_defined(std::size_t object, const Symbol& symbol) const {
    const auto& sections = places_[object].sections;
    return !symbol.undefined() && symbol.entry.st_shndx < sections.size() && sections[symbol.entry.st_shndx];
  }

  static bool is_local(const Symbol& symbol) {
    return ELF64_ST_BIND(symbol.entry.st_info) == STB_LOCAL || ELF64_ST_VISIBILITY(symbol.entry.st_other) == STV_HIDDEN;
  }

  void put_symbol(std::size_t object, std::size_t i) {
    const Symbol& symbol = objects_[object].symbols[i];
    Elf64_Sym out = symbol.entry;
    out.st_name = symbol.name.empty() ? 0 : named(symbol.name);
    out.st_shndx = static_cast<Elf64_Section>(*places_[object].sections[symbol.entry.st_shndx]);
    if (is_local(symbol)) {
      out.st_info = ELF64_ST_INFO(STB_LOCAL, ELF64_ST_TYPE(out.st_info));
      out.st_other = STV_DEFAULT;
    }
    places_[object].symbols[i] = symbols_.size();
    symbols_.push_back(out);
  }

  /// Local ones come first in a symbol table.
  Status take_symbols() {
    symbols_.emplace_back();
    std::map<std::string_view, std::size_t> known;  // of those that other objects may need
    for (const bool local : {true, false}) {
      for (std::size_t object = 0; object < objects_.size(); ++object) {
        for (std::size_t i = 0; i < objects_[object].symbols.size(); ++i) {
          const Symbol& symbol = objects_[object].symbols[i];
          if (is_local(symbol) != local || !is_defined(object, symbol)) continue;
          const bool shared = ELF64_ST_BIND(symbol.entry.st_info) != STB_LOCAL;
          if (shared && !known.emplace(symbol.name, symbols_.size()).second)
            return broken("`{}` is defined twice", symbol.name);
          put_symbol(object, i);
        }
      }
      if (local) first_global_ = symbols_.size();
    }
    for (std::size_t object = 0; object < objects_.size(); ++object) {
      for (std::size_t i = 1; i < objects_[object].symbols.size(); ++i) {
        const Symbol& symbol = objects_[object].symbols[i];
        if (!symbol.undefined()) continue;
        const auto found = known.find(symbol.name);
        if (found == known.end()) return broken("nothing defines `{}`", symbol.name);
        places_[object].symbols[i] = found->second;
      }
    }
    return done;
  }

  Status take_relocations() {
    const std::size_t symbol_table = sections_.size() + count_relocations() + 1;
    for (std::size_t object = 0; object < objects_.size(); ++object) {
      for (const Relocations& list : objects_[object].relocations) {
        const auto target = places_[object].sections[list.section];
        if (!target) continue;
        std::vector<Elf64_Rela> entries = list.entries;
        for (Elf64_Rela& entry : entries) {
          const auto symbol = places_[object].symbols[ELF64_R_SYM(entry.r_info)];
          if (!symbol) return broken("a relocation names a symbol that is not loaded");
          entry.r_info = ELF64_R_INFO(*symbol, ELF64_R_TYPE(entry.r_info));
        }
        Elf64_Shdr header{};
        header.sh_type = SHT_RELA;
        header.sh_flags = SHF_INFO_LINK;
        header.sh_link = static_cast<Elf64_Word>(symbol_table);
        header.sh_info = static_cast<Elf64_Word>(*target);
        header.sh_addralign = 8;
        header.sh_entsize = sizeof(Elf64_Rela);
        add(".rela" + std::string(objects_[object].sections[list.section].name), header,
            bytes_of(entries.data(), entries.size()));
      }
    }
    return done;
  }

  std::size_t count_relocations() const {
    std::size_t count = 0;
    for (std::size_t object = 0; object < objects_.size(); ++object) {
      for (const Relocations& list : objects_[object].relocations)
        count += places_[object].sections[list.section].has_value();
    }
    return count;
  }

  std::string written() {
    Elf64_Shdr header{};
    header.sh_type = SHT_PROGBITS;
    header.sh_addralign = 1;
    add(kNoStack, header, "");
    header = {};
    header.sh_type = SHT_SYMTAB;
    header.sh_link = static_cast<Elf64_Word>(sections_.size() + 1);
    header.sh_info = static_cast<Elf64_Word>(first_global_);
    header.sh_addralign = 8;
    header.sh_entsize = sizeof(Elf64_Sym);
    add(".symtab", header, bytes_of(symbols_.data(), symbols_.size()));
    header = {};
    header.sh_type = SHT_STRTAB;
    header.sh_addralign = 1;
    add(".strtab", header, "");
    sections_.back().bytes = names_;  // with its own name
    sections_.back().header.sh_size = names_.size();
    return file();
  }

  std::string file() {
    Elf64_Ehdr head{};
    std::memcpy(head.e_ident, ELFMAG, SELFMAG);
    head.e_ident[EI_CLASS] = ELFCLASS64;
    head.e_ident[EI_DATA] = ELFDATA2LSB;
    head.e_ident[EI_VERSION] = EV_CURRENT;
    head.e_type = ET_REL;
    head.e_machine = EM_X86_64;
    head.e_version = EV_CURRENT;
    head.e_ehsize = sizeof head;
    head.e_shentsize = sizeof(Elf64_Shdr);
    head.e_shnum = static_cast<Elf64_Half>(sections_.size());
    head.e_shstrndx = static_cast<Elf64_Half>(sections_.size() - 1);
    std::string out(sizeof head, '\0');
    const auto pad_to = [&](std::uint64_t alignment) {
      if (alignment > 1) out.resize((out.size() + alignment - 1) / alignment * alignment);
    };
    for (Out& section : sections_) {
      if (section.header.sh_type == SHT_NULL) continue;
      pad_to(section.header.sh_addralign);
      section.header.sh_offset = out.size();
      out += section.bytes;
    }
    pad_to(alignof(Elf64_Shdr));
    head.e_shoff = out.size();
    for (const Out& section : sections_) out += bytes_of(&section.header, 1);
    std::memcpy(out.data(), &head, sizeof head);
    return out;
  }

  const std::vector<std::string>& bytes_;
  const std::string& name_;
  std::vector<ElfObject> objects_;
  std::vector<Places> places_;  ///< of each object
  std::vector<Out> sections_;
  std::vector<Elf64_Sym> symbols_;
  std::size_t first_global_ = 0;
  std::string names_ = std::string(1, '\0');
};

}  // namespace

Result<std::string> join(const std::vector<std::string>& objects, const std::string& name) {
  return Joiner(objects, name).join();
}

}  // namespace weft::object
