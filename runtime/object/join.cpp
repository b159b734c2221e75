#include "runtime/object/join.h"

#include "runtime/object/elf.h"
#include "runtime/object/elf_writer.h"

#include <fmt/format.h>

#include <map>
#include <optional>

namespace weft::object {
namespace {

constexpr std::uint64_t kLargestAlignment = 4096;

class Joiner {
 public:
  Joiner(const std::vector<std::string>& objects, const std::string& name) : bytes_(objects), name_(name) {}

  Result<std::string> join() {
    for (const auto& bytes : bytes_) {
      WEFT_TRY(auto object, read_elf_object(bytes, name_));
      objects_.push_back(std::move(object));
    }
    for (const ElfObject& object : objects_) WEFT_CHECK(take_sections(object));
    WEFT_CHECK(take_symbols());
    WEFT_CHECK(take_relocations());
    return std::move(out_).finish();
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

  Status take_sections(const ElfObject& object) {
    Places places{.sections = {}, .symbols = std::vector<std::optional<std::size_t>>(object.symbols.size())};
    for (const Section& section : object.sections) {
      std::optional<std::size_t> place;
      const auto alignment = section.header.sh_addralign;
      if (alignment > kLargestAlignment) return broken("section {} has alignment {}", section.name, alignment);
      if (is_loaded(section)) place = out_.add_section(section.name, section.header, section.bytes);
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
    out.st_shndx = static_cast<Elf64_Section>(*places_[object].sections[symbol.entry.st_shndx]);
    if (is_local(symbol)) {
      out.st_info = ELF64_ST_INFO(STB_LOCAL, ELF64_ST_TYPE(out.st_info));
      out.st_other = STV_DEFAULT;
    }
    places_[object].symbols[i] = out_.add_symbol(symbol.name, out);
  }

  /// Local ones come first in a symbol table.
  Status take_symbols() {
    std::map<std::string_view, std::size_t> known;  // of those that other objects may need
    for (const bool local : {true, false}) {
      for (std::size_t object = 0; object < objects_.size(); ++object) {
        for (std::size_t i = 0; i < objects_[object].symbols.size(); ++i) {
          const Symbol& symbol = objects_[object].symbols[i];
          if (is_local(symbol) != local || !is_defined(object, symbol)) continue;
          const bool shared = ELF64_ST_BIND(symbol.entry.st_info) != STB_LOCAL;
          put_symbol(object, i);
          if (shared && !known.emplace(symbol.name, *places_[object].symbols[i]).second)
            return broken("`{}` is defined twice", symbol.name);
        }
      }
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
        out_.add_relocations(*target, objects_[object].sections[list.section].name, entries);
      }
    }
    return done;
  }

  const std::vector<std::string>& bytes_;
  const std::string& name_;
  std::vector<ElfObject> objects_;
  std::vector<Places> places_;  ///< of each object
  ElfWriter out_;
};

}  // namespace

Result<std::string> join(const std::vector<std::string>& objects, const std::string& name) {
  return Joiner(objects, name).join();
}

}  // namespace weft::object
