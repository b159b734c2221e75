#include "dsl/help.h"

namespace weft::dsl {
namespace {

constexpr Help kHelp[] = {
#define WEFT_HELP(topic, word, written, meaning, example) {#topic, word, written, meaning, example},
#include "dsl/help.def"
};

}  // namespace

std::string example_text(const Help& row) {
  const std::string example(row.example);
  return example.starts_with("pattern ") ? example : "pattern p { " + example + " }";
}

std::span<const Help> help() { return kHelp; }

}  // namespace weft::dsl
