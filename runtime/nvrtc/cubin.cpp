#include "runtime/nvrtc/cubin.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <optional>

namespace weft::nvrtc {

namespace {

template <typename T>
std::optional<T> read(std::string_view bytes, std::uint64_t at) {
  T out;
  if (at > bytes.size() || bytes.size() - at < sizeof out) return std::nullopt;
  std::memcpy(&out, bytes.data() + at, sizeof out);
  return out;
}

}  // namespace

std::int64_t code_bytes(std::string_view cubin) {
  const auto header = read<Elf64_Ehdr>(cubin, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return 0;
  std::int64_t longest = 0;
  for (std::uint64_t i = 0; i < header->e_shnum; ++i) {
    const auto section = read<Elf64_Shdr>(cubin, header->e_shoff + i * sizeof(Elf64_Shdr));
    if (!section) return 0;
    if ((section->sh_flags & SHF_EXECINSTR) != 0)
      longest = std::max(longest, static_cast<std::int64_t>(section->sh_size));
  }
  return longest;
}

}  // namespace weft::nvrtc
