#pragma once

#include <elf.h>

#include <string>
#include <string_view>
#include <vector>

namespace weft::object {

/// Writes a relocatable x86-64 object: sections and symbols in the order in which they are added. The caller keeps
/// indices below what ELF can count, and alignments sane.
class ElfWriter {
 public:
  /// Returns the section's index, from 1 on. Name, offset and, where it has bytes, size are set here.
  std::size_t add_section(std::string_view name, Elf64_Shdr header, std::string_view bytes);
  /// Returns the symbol's index, from 1 on. Local ones must come first.
  std::size_t add_symbol(std::string_view name, Elf64_Sym symbol);
  void add_relocations(std::size_t section, std::string_view section_name, const std::vector<Elf64_Rela>& entries);

  /// The file, which says that nothing needs an executable stack.
  std::string finish() &&;

 private:
  struct Section {
    Elf64_Shdr header{};
    std::string bytes;
  };
  Elf64_Word named(std::string_view text);

  std::vector<Section> sections_ = std::vector<Section>(1);
  std::vector<Elf64_Sym> symbols_ = std::vector<Elf64_Sym>(1);
  std::string names_ = std::string(1, '\0');
};

}  // namespace weft::object
