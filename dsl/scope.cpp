#include "dsl/scope.h"

#include <algorithm>
#include <utility>

namespace weft::dsl {

Variables bit_of(std::string_view variable) {
  const auto& table = variable_words();
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (table[i].name == variable) return Variables{1} << i;
  }
  return 0;
}

Variables variables_at(Place place) {
  Variables bits = 0;
  for (const VariableWord& row : variable_words()) {
    const bool everywhere = row.place == Place::phase && place != Place::constant;
    const bool pairwise = row.place == Place::pair && (place == Place::pair || place == Place::score);
    const bool own = row.place == Place::own && (place == Place::own || place == Place::branches);
    const bool branch = row.place == Place::branches && place == Place::branches;
    const bool score = row.place == Place::score && place == Place::score;
    if (everywhere || pairwise || own || branch || score) bits |= bit_of(row.name);
  }
  return bits;
}

Symbol* Scope::find(const std::string& name) {
  Symbol* symbol = find_here(name);
  return symbol || !outer_ ? symbol : outer_->find(name);
}

Symbol* Scope::find_here(const std::string& name) {
  const auto found = symbols_.find(name);
  return found == symbols_.end() ? nullptr : &found->second;
}

Symbol& Scope::define(const std::string& name, Symbol symbol) {
  return symbols_.insert_or_assign(name, std::move(symbol)).first->second;
}

std::vector<std::string> Scope::names() const {
  constexpr std::size_t kEnough = 1000;
  std::vector<std::string> list;
  for (const Scope* scope = this; scope; scope = scope->outer_) {
    for (const auto& [name, symbol] : scope->symbols_) {
      if (list.size() < kEnough) list.push_back(name);
    }
  }
  std::sort(list.begin(), list.end());  // The order of a hash table is nobody's business.
  return list;
}

}  // namespace weft::dsl
