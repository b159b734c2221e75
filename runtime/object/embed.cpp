#include "runtime/object/embed.h"

#include "runtime/object/elf_writer.h"

#include <cstdint>

namespace weft::object {
namespace {

constexpr std::size_t kAlignment = 16;

}  // namespace

std::string embed(std::string_view bytes, const std::string& symbol) {
  const std::uint64_t size = bytes.size(), size_at = (size + kAlignment - 1) / kAlignment * kAlignment;
  std::string contents(bytes);
  contents.resize(size_at);
  contents.append(reinterpret_cast<const char*>(&size), sizeof size);

  ElfWriter out;
  Elf64_Shdr header{};
  header.sh_type = SHT_PROGBITS;
  header.sh_flags = SHF_ALLOC;
  header.sh_addralign = kAlignment;
  Elf64_Sym of_object{};
  of_object.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT);
  of_object.st_shndx = static_cast<Elf64_Section>(out.add_section(".rodata.weft_bundle", header, contents));
  of_object.st_size = size;
  out.add_symbol(symbol, of_object);
  of_object.st_value = size_at;
  of_object.st_size = sizeof size;
  out.add_symbol(symbol + "_size", of_object);
  return std::move(out).finish();
}

}  // namespace weft::object
