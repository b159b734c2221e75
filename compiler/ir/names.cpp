#include "compiler/ir/names.h"

#include <algorithm>
#include <utility>

namespace weft::ir {

Variables bit_of(std::string_view variable) {
  const auto& table = dsl::variable_words();
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (table[i].name == variable) return Variables{1} << i;
  }
  return 0;
}

Variables variables_at(dsl::Place place) {
  Variables bits = 0;
  for (const dsl::VariableWord& row : dsl::variable_words()) {
    const bool everywhere = row.place == dsl::Place::phase && place != dsl::Place::constant;
    const bool pairwise = row.place == dsl::Place::pair && (place == dsl::Place::pair || place == dsl::Place::score);
    const bool own = row.place == dsl::Place::own && (place == dsl::Place::own || place == dsl::Place::branches);
    const bool branch = row.place == dsl::Place::branches && place == dsl::Place::branches;
    const bool score = row.place == dsl::Place::score && place == dsl::Place::score;
    if (everywhere || pairwise || own || branch || score) bits |= bit_of(row.name);
  }
  return bits;
}

void Effects::merge(const Effects& other) {
  variables |= other.variables;
  mixed |= other.mixed;
  inputs |= other.inputs;
  rounds |= other.rounds;
  needs_blocks |= other.needs_blocks;
  uses.insert(other.uses.begin(), other.uses.end());
}

Symbol* Names::find(const std::string& name) {
  Symbol* symbol = find_here(name);
  return symbol || !outer_ ? symbol : outer_->find(name);
}

Symbol* Names::find_here(const std::string& name) {
  const auto found = symbols_.find(name);
  return found == symbols_.end() ? nullptr : &found->second;
}

Symbol& Names::define(const std::string& name, Symbol symbol) {
  return symbols_.insert_or_assign(name, std::move(symbol)).first->second;
}

std::vector<std::string> Names::list() const {
  constexpr std::size_t kEnough = 1000;
  std::vector<std::string> list;
  for (const Names* names = this; names; names = names->outer_) {
    for (const auto& [name, symbol] : names->symbols_) {
      if (list.size() < kEnough) list.push_back(name);
    }
  }
  std::sort(list.begin(), list.end());  // The order of a hash table is nobody's business.
  return list;
}

}  // namespace weft::ir
