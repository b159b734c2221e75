#include "runtime/object/embed.h"

#include <elf.h>

#include <array>
#include <cstdint>
#include <cstring>

namespace weft::object {

namespace {

enum Index : std::size_t { none, data, stack, symbols, strings, names, kSections };

constexpr std::size_t kAlignment = 16;

const char* name_of(Index index) {
  switch (index) {
    case data:
      return ".rodata.weft_bundle";
    case stack:
      return ".note.GNU-stack";  // that it is there says that nothing here is executed
    case symbols:
      return ".symtab";
    case strings:
      return ".strtab";
    case names:
      return ".shstrtab";
    case none:
    case kSections:
      break;
  }
  return "";
}

template <typename Struct>
void append(std::string& out, const Struct& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void pad(std::string& out, std::size_t alignment) { out.resize((out.size() + alignment - 1) / alignment * alignment); }

Elf64_Word add_name(std::string& table, const std::string& name) {
  const auto at = static_cast<Elf64_Word>(table.size());
  table.append(name).push_back('\0');
  return at;
}

Elf64_Sym object_symbol(Elf64_Word name, std::uint64_t value, std::uint64_t size) {
  return {.st_name = name,
          .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT),
          .st_other = STV_DEFAULT,
          .st_shndx = data,
          .st_value = value,
          .st_size = size};
}

Elf64_Ehdr header_of(std::uint64_t table) {
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
  header.e_shnum = kSections;
  header.e_shstrndx = names;
  return header;
}

}  // namespace

std::string embed(std::string_view bytes, const std::string& symbol) {
  std::string contents(bytes), symbol_names(1, '\0'), section_names(1, '\0'), table;
  pad(contents, kAlignment);
  const std::uint64_t size_at = contents.size(), size = bytes.size();
  append(contents, size);
  append(table, Elf64_Sym{});
  append(table, object_symbol(add_name(symbol_names, symbol), 0, size));
  append(table, object_symbol(add_name(symbol_names, symbol + "_size"), size_at, sizeof size));

  std::array<Elf64_Word, kSections> name_at{};
  for (const auto index : {data, stack, symbols, strings, names})
    name_at[index] = add_name(section_names, name_of(index));

  std::array<Elf64_Shdr, kSections> sections{};
  std::string out(sizeof(Elf64_Ehdr), '\0');
  const auto add = [&](Index index, Elf64_Word type, std::string_view section, std::size_t alignment) {
    pad(out, alignment);
    sections[index].sh_name = name_at[index];
    sections[index].sh_type = type;
    sections[index].sh_offset = out.size();
    sections[index].sh_size = section.size();
    sections[index].sh_addralign = alignment;
    out += section;
  };
  add(data, SHT_PROGBITS, contents, kAlignment);
  sections[data].sh_flags = SHF_ALLOC;
  add(stack, SHT_PROGBITS, "", 1);
  add(symbols, SHT_SYMTAB, table, 8);
  sections[symbols].sh_link = strings;
  sections[symbols].sh_info = 1;  // the first that is not local
  sections[symbols].sh_entsize = sizeof(Elf64_Sym);
  add(strings, SHT_STRTAB, symbol_names, 1);
  add(names, SHT_STRTAB, section_names, 1);
  pad(out, 8);
  const auto header = header_of(out.size());
  std::memcpy(out.data(), &header, sizeof header);
  for (const auto& section : sections) append(out, section);
  return out;
}

}  // namespace weft::object
