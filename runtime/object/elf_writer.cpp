#include "runtime/object/elf_writer.h"

#include <algorithm>
#include <cstring>

namespace weft::object {
namespace {

template <typename T>
std::string_view bytes_of(const T* records, std::size_t count) {
  return {reinterpret_cast<const char*>(records), count * sizeof(T)};
}

void pad(std::string& out, std::size_t alignment) {
  if (alignment > 1) out.resize((out.size() + alignment - 1) / alignment * alignment);
}

Elf64_Ehdr header_of(std::uint64_t table, std::size_t sections) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_REL;
  header.e_machine = EM_X86_64;
  header.e_version = EV_CURRENT;
  header.e_shoff = table;
  header.e_ehsize = sizeof(Elf64_Ehdr);
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = static_cast<Elf64_Half>(sections);
  header.e_shstrndx = static_cast<Elf64_Half>(sections - 1);
  return header;
}

}  // namespace

Elf64_Word ElfWriter::named(std::string_view text) {
  if (text.empty()) return 0;
  const auto at = static_cast<Elf64_Word>(names_.size());
  names_.append(text).push_back('\0');
  return at;
}

std::size_t ElfWriter::add_section(std::string_view name, Elf64_Shdr header, std::string_view bytes) {
  header.sh_name = named(name);
  if (header.sh_type != SHT_NOBITS) header.sh_size = bytes.size();
  sections_.push_back({header, std::string(bytes)});
  return sections_.size() - 1;
}

std::size_t ElfWriter::add_symbol(std::string_view name, Elf64_Sym symbol) {
  symbol.st_name = named(name);
  symbols_.push_back(symbol);
  return symbols_.size() - 1;
}

void ElfWriter::add_relocations(std::size_t section, std::string_view section_name,
                                const std::vector<Elf64_Rela>& entries) {
  Elf64_Shdr header{};
  header.sh_type = SHT_RELA;
  header.sh_flags = SHF_INFO_LINK;
  header.sh_info = static_cast<Elf64_Word>(section);
  header.sh_addralign = 8;
  header.sh_entsize = sizeof(Elf64_Rela);
  add_section(".rela" + std::string(section_name), header, bytes_of(entries.data(), entries.size()));
}

std::string ElfWriter::finish() && {
  const auto plain = [](Elf64_Word type) {
    Elf64_Shdr header{};
    header.sh_type = type;
    header.sh_addralign = 1;
    return header;
  };
  add_section(".note.GNU-stack", plain(SHT_PROGBITS), "");
  const auto is_local = [](const Elf64_Sym& symbol) { return ELF64_ST_BIND(symbol.st_info) == STB_LOCAL; };
  auto table = plain(SHT_SYMTAB);
  table.sh_link = static_cast<Elf64_Word>(sections_.size() + 1);
  table.sh_info = static_cast<Elf64_Word>(std::count_if(symbols_.begin(), symbols_.end(), is_local));
  table.sh_addralign = 8;
  table.sh_entsize = sizeof(Elf64_Sym);
  const auto symbols_at = add_section(".symtab", table, bytes_of(symbols_.data(), symbols_.size()));
  const auto names_at = add_section(".strtab", plain(SHT_STRTAB), "");  // of symbols and of sections
  sections_[names_at].bytes = names_;
  sections_[names_at].header.sh_size = names_.size();

  std::string out(sizeof(Elf64_Ehdr), '\0');
  for (Section& section : sections_) {
    if (section.header.sh_type == SHT_NULL) continue;
    if (section.header.sh_type == SHT_RELA) section.header.sh_link = static_cast<Elf64_Word>(symbols_at);
    pad(out, section.header.sh_addralign);
    section.header.sh_offset = out.size();
    out += section.bytes;
  }
  pad(out, alignof(Elf64_Shdr));
  const auto header = header_of(out.size(), sections_.size());
  for (const Section& section : sections_) out += bytes_of(&section.header, 1);
  std::memcpy(out.data(), &header, sizeof header);
  return out;
}

}  // namespace weft::object
