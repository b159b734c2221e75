#include "runtime/object/elf.h"

#include <fmt/format.h>

#include <cstring>
#include <optional>

namespace weft::object {
namespace {

/// `count` bytes from `offset`, or nothing when they do not lie in `bytes`. Cannot overflow.
std::optional<std::string_view> slice(std::string_view bytes, std::uint64_t offset, std::uint64_t count) {
  if (offset > bytes.size() || count > bytes.size() - offset) return std::nullopt;
  return bytes.substr(offset, count);
}

/// The `index`th fixed-size record; the caller has checked that it is there. Copied, since the file need not
/// be aligned in memory.
template <typename T>
T record(std::string_view table, std::size_t index) {
  T out;
  std::memcpy(&out, table.data() + index * sizeof(T), sizeof(T));
  return out;
}

/// A terminated string inside a string table.
std::optional<std::string_view> string_at(std::string_view table, std::uint64_t offset) {
  if (offset >= table.size()) return std::nullopt;
  const std::string_view rest = table.substr(offset);
  const std::size_t end = rest.find('\0');
  if (end == std::string_view::npos) return std::nullopt;
  return rest.substr(0, end);
}

class Reader {
 public:
  Reader(std::string_view bytes, const std::string& name) : bytes_(bytes), name_(name) {}

  Result<ElfObject> read() {
    WEFT_CHECK(read_header());
    WEFT_CHECK(read_sections());
    WEFT_CHECK(read_symbols());
    WEFT_CHECK(read_relocations());
    return std::move(out_);
  }

 private:
  template <typename... Args>
  Error broken(fmt::format_string<Args...> what, Args&&... args) const {
    return internal_error(
        fmt::format("{} is not a loadable object: {}", name_, fmt::format(what, std::forward<Args>(args)...)));
  }

  Status read_header() {
    if (bytes_.size() < sizeof(Elf64_Ehdr)) return broken("{} bytes are too few for a header", bytes_.size());
    header_ = record<Elf64_Ehdr>(bytes_, 0);
    if (std::memcmp(header_.e_ident, ELFMAG, SELFMAG) != 0) return broken("it does not start like an ELF file");
    if (header_.e_ident[EI_CLASS] != ELFCLASS64 || header_.e_ident[EI_DATA] != ELFDATA2LSB ||
        header_.e_ident[EI_VERSION] != EV_CURRENT) {
      return broken("it is not a 64-bit little-endian ELF file");
    }
    if (header_.e_type != ET_REL || header_.e_machine != EM_X86_64) {
      return broken("type {} for machine {} instead of a relocatable object for x86-64", header_.e_type,
                    header_.e_machine);
    }
    return done;
  }

  Status read_sections() {
    if (header_.e_shnum == 0 || header_.e_shentsize != sizeof(Elf64_Shdr)) return broken("it has no section table");
    const auto table = slice(bytes_, header_.e_shoff, std::uint64_t{header_.e_shnum} * sizeof(Elf64_Shdr));
    if (!table) return broken("its section table lies outside the file");
    out_.sections.reserve(header_.e_shnum);
    for (std::size_t i = 0; i < header_.e_shnum; ++i) {
      Section section{.name = {}, .header = record<Elf64_Shdr>(*table, i), .bytes = {}};
      if (section.header.sh_type != SHT_NULL && section.header.sh_type != SHT_NOBITS) {
        const auto contents = slice(bytes_, section.header.sh_offset, section.header.sh_size);
        if (!contents) return broken("section {} lies outside the file", i);
        section.bytes = *contents;
      }
      out_.sections.push_back(section);
    }
    WEFT_TRY(const std::string_view names, string_table(header_.e_shstrndx));
    for (std::size_t i = 0; i < out_.sections.size(); ++i) {
      const auto section_name = string_at(names, out_.sections[i].header.sh_name);
      if (!section_name) return broken("section {} has no proper name", i);
      out_.sections[i].name = *section_name;
    }
    return done;
  }

  Result<std::string_view> string_table(std::size_t index) const {
    if (index >= out_.sections.size() || out_.sections[index].header.sh_type != SHT_STRTAB) {
      return broken("section {} is not a string table", index);
    }
    return out_.sections[index].bytes;
  }

  Status read_symbols() {
    for (std::size_t i = 0; i < out_.sections.size(); ++i) {
      if (out_.sections[i].header.sh_type != SHT_SYMTAB) continue;
      if (symbol_table_ != 0) return broken("it has two symbol tables");
      symbol_table_ = i;
    }
    if (symbol_table_ == 0) return done;
    const Section& table = out_.sections[symbol_table_];
    if (table.header.sh_entsize != sizeof(Elf64_Sym) || table.bytes.size() % sizeof(Elf64_Sym) != 0) {
      return broken("its symbol table has entries of a wrong size");
    }
    WEFT_TRY(const std::string_view names, string_table(table.header.sh_link));
    const std::size_t count = table.bytes.size() / sizeof(Elf64_Sym);
    out_.symbols.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      Symbol symbol{.name = {}, .entry = record<Elf64_Sym>(table.bytes, i)};
      const auto symbol_name = string_at(names, symbol.entry.st_name);
      if (!symbol_name) return broken("symbol {} has no proper name", i);
      symbol.name = *symbol_name;
      if (symbol.entry.st_shndx < SHN_LORESERVE && symbol.entry.st_shndx >= out_.sections.size()) {
        return broken("symbol {} lies in section {}, which does not exist", i, symbol.entry.st_shndx);
      }
      out_.symbols.push_back(symbol);
    }
    return done;
  }

  Status read_relocations() {
    for (const Section& section : out_.sections) {
      if (section.header.sh_type == SHT_REL) return broken("it has relocations without addends");
      if (section.header.sh_type != SHT_RELA) continue;
      const std::uint64_t target = section.header.sh_info;
      if (target == 0 || target >= out_.sections.size()) return broken("relocations for section {}", target);
      if (symbol_table_ == 0 || section.header.sh_link != symbol_table_) {
        return broken("relocations against another symbol table");
      }
      if (section.header.sh_entsize != sizeof(Elf64_Rela) || section.bytes.size() % sizeof(Elf64_Rela) != 0) {
        return broken("relocations of a wrong size");
      }
      Relocations list{.section = target, .entries = {}};
      for (std::size_t i = 0; i < section.bytes.size() / sizeof(Elf64_Rela); ++i) {
        list.entries.push_back(record<Elf64_Rela>(section.bytes, i));
        if (ELF64_R_SYM(list.entries.back().r_info) >= out_.symbols.size()) {
          return broken("a relocation names a symbol that does not exist");
        }
      }
      out_.relocations.push_back(std::move(list));
    }
    return done;
  }

  std::string_view bytes_;
  const std::string& name_;
  Elf64_Ehdr header_{};
  std::size_t symbol_table_ = 0;
  ElfObject out_;
};

}  // namespace

bool is_loaded(const Section& section) {
  constexpr std::uint32_t kUnwind = 0x70000001;  // SHT_X86_64_UNWIND, which not every <elf.h> has
  return section.has(SHF_ALLOC) && section.header.sh_type != kUnwind && section.header.sh_type != SHT_NOTE &&
         section.name != ".eh_frame";
}

Result<ElfObject> read_elf_object(std::string_view bytes, const std::string& name) {
  return Reader(bytes, name).read();
}

Result<std::vector<std::string>> undefined_symbols(std::string_view bytes, const std::string& name) {
  WEFT_TRY(const ElfObject object, read_elf_object(bytes, name));
  std::vector<std::string> out;
  for (const Symbol& symbol : object.symbols) {
    if (symbol.named() && symbol.undefined()) out.emplace_back(symbol.name);
  }
  return out;
}

}  // namespace weft::object
