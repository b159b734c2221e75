#include "dsl/help.h"

namespace weft::dsl {
namespace {

constexpr Help kHelp[] = {
#define WEFT_HELP(topic, word, written, meaning, example) {#topic, word, written, meaning, example},
#include "dsl/help.def"
};

constexpr Explanation kExplanations[] = {
#define WEFT_EXPLANATION(code, meaning, wrong, right) {code, meaning, wrong, right},
#include "dsl/explanations.def"
};

}  // namespace

std::string example_text(const Help& row) {
  const std::string example(row.example);
  return example.starts_with("pattern ") ? example : "pattern p { " + example + " }";
}

std::span<const Help> help() { return kHelp; }
std::span<const Explanation> explanations() { return kExplanations; }

}  // namespace weft::dsl
