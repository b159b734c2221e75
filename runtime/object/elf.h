#pragma once

#include "compiler/base/result.h"

#include <elf.h>

#include <string>
#include <string_view>
#include <vector>

/// Reading ELF without trusting it: every offset, size and index is checked before it is used.
namespace weft::object {

struct Section {
  std::string_view name;
  Elf64_Shdr header;
  std::string_view bytes;  ///< empty where the section occupies no file bytes (.bss)
  bool has(std::uint64_t flag) const { return (header.sh_flags & flag) != 0; }
};

struct Symbol {
  std::string_view name;
  Elf64_Sym entry;
  bool undefined() const { return entry.st_shndx == SHN_UNDEF; }
  bool named() const {
    const unsigned type = ELF64_ST_TYPE(entry.st_info);
    return !name.empty() && type != STT_FILE && type != STT_SECTION;
  }
};

/// Is it text or data of the kernel? Unwind tables would have to be registered to be of use, and kernels throw nothing;
/// notes are for linkers.
bool is_loaded(const Section& section);

/// The relocations of one section.
struct Relocations {
  std::size_t section;  ///< index of the section they patch
  std::vector<Elf64_Rela> entries;
};

/// A relocatable x86-64 object. Views into the bytes it was read from, which must outlive it.
///
/// After read() succeeds: every section's bytes lie in the file, every name is terminated inside its string
/// table, every relocation names an existing section and symbol, and a symbol's section index is either one
/// of `sections` or a reserved one. Offsets of relocations and values of symbols are the loader's to check.
struct ElfObject {
  std::vector<Section> sections;
  std::vector<Symbol> symbols;
  std::vector<Relocations> relocations;
};

/// Error: internal, naming the object as `name`.
Result<ElfObject> read_elf_object(std::string_view bytes, const std::string& name);

/// Names an object expects others to define, in the order of its symbol table. Weft's kernels have none.
Result<std::vector<std::string>> undefined_symbols(std::string_view bytes, const std::string& name = "object");

}  // namespace weft::object
