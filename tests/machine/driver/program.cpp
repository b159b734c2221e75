#include "tests/machine/driver/program.h"

#include "compiler/target/target.h"
#include "laboratory/sass/listing.h"
#include "runtime/nvrtc/disassemble.h"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>

namespace weft::machine {
namespace {

/// The driver made the cubins that come here: they are trusted.
template <typename T>
T read(std::string_view bytes, std::uint64_t at) {
  T out;
  std::memcpy(&out, bytes.data() + at, sizeof out);
  return out;
}

struct Section {
  std::string name;
  Elf64_Shdr header;
};

std::vector<Section> sections_of(std::string_view cubin) {
  const auto file = read<Elf64_Ehdr>(cubin, 0);
  const auto header = [&](std::uint64_t i) { return read<Elf64_Shdr>(cubin, file.e_shoff + i * sizeof(Elf64_Shdr)); };
  const auto names = header(file.e_shstrndx).sh_offset;
  std::vector<Section> out;
  for (std::uint64_t i = 0; i < file.e_shnum; ++i) {
    out.push_back({cubin.data() + names + header(i).sh_name, header(i)});
  }
  return out;
}

/// `.nv.constant2.name` belongs to one kernel, `.nv.constant3` to all.
void add_constants(Program& program, const Section& section, std::string_view cubin) {
  constexpr std::string_view kPrefix = ".nv.constant";
  std::string_view name = section.name;
  if (!name.starts_with(kPrefix) || name.size() == kPrefix.size()) return;
  const auto bank = static_cast<std::size_t>(name[kPrefix.size()] - '0');
  name.remove_prefix(kPrefix.size() + 1);
  if (bank >= kBanks || !(name.empty() || name.substr(1) == program.code.name)) return;
  program.constants[bank] = cubin.substr(section.header.sh_offset, section.header.sh_size);
}

/// Branches of Maxwell and Pascal may name the control word before an instruction.
std::map<int, int> addresses_of(const sass::Code& code) {
  constexpr int kGroupBytes = 32, kWordBytes = 8;
  std::map<int, int> out;
  for (std::size_t i = 0; i < code.instructions.size(); ++i) {
    const int address = code.instructions[i].address;
    out[address] = static_cast<int>(i);
    if (!code.wide && address % kGroupBytes == kWordBytes) out[address - kWordBytes] = static_cast<int>(i);
  }
  return out;
}

}  // namespace

std::size_t cubin_bytes(const void* image) {
  Elf64_Ehdr file;
  std::memcpy(&file, image, sizeof file);
  if (std::memcmp(file.e_ident, ELFMAG, SELFMAG) != 0) return 0;
  const auto* const bytes = static_cast<const char*>(image);
  auto end = std::max(file.e_shoff + std::uint64_t{file.e_shnum} * file.e_shentsize,
                      file.e_phoff + std::uint64_t{file.e_phnum} * file.e_phentsize);
  for (std::uint64_t i = 0; i < file.e_shnum; ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, bytes + file.e_shoff + i * sizeof section, sizeof section);
    if (section.sh_type != SHT_NOBITS) end = std::max(end, section.sh_offset + section.sh_size);
  }
  return end;
}

Result<Programs> read_cubin(const std::string& cubin) {
  const auto file = read<Elf64_Ehdr>(cubin, 0);
  // The flags' lowest byte on cubins of CUDA 12, the next one on CUDA 13's.
  const int low = static_cast<int>(file.e_flags & 0xff), high = static_cast<int>(file.e_flags >> 8 & 0xff);
  const int sm = low >= 30 ? low : high;
  const auto target = find_target(fmt::format("sm_{}", sm));
  if (!target) return user_error(fmt::format("no machine of architecture {} is known here", sm));
  WEFT_TRY(const std::string listing, nvrtc::disassemble(cubin, *target, nvrtc::Encodings::shown));
  WEFT_TRY(std::vector<sass::Code> codes, sass::parse_listing(listing));
  const auto sections = sections_of(cubin);
  Programs out;
  for (sass::Code& code : codes) {
    auto program = std::make_unique<Program>();
    program->code = std::move(code);
    program->at = addresses_of(program->code);
    program->sm = sm;
    program->executed.resize(program->code.instructions.size());
    for (const Section& section : sections) {
      add_constants(*program, section, cubin);
      if (section.name == ".nv.shared." + program->code.name) {
        program->shared_bytes = static_cast<int>(section.header.sh_size);
      }
    }
    auto name = program->code.name;
    out.emplace(std::move(name), std::move(program));
  }
  return out;
}

}  // namespace weft::machine
