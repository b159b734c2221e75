#include "dsl/words.h"

#include "compiler/base/ops.h"

#include <algorithm>
#include <array>
#include <unordered_set>

namespace weft::dsl {
namespace {

constexpr Parameter parameter(std::string_view name, ArgType type) { return {.name = name, .type = type}; }
constexpr Parameter integer(std::string_view name) { return parameter(name, ArgType::integer); }
constexpr Parameter flag(std::string_view name) { return parameter(name, ArgType::boolean); }
constexpr Parameter per_axis(std::string_view name) { return parameter(name, ArgType::per_axis); }
constexpr Parameter flag_per_axis(std::string_view name) { return parameter(name, ArgType::flag_per_axis); }
constexpr Parameter phase(std::string_view name) {
  return parameter(name, ArgType::phase).at_least(0, Code::negative_phase);
}
constexpr Parameter set(std::string_view name) { return parameter(name, ArgType::set); }
constexpr Parameter condition(std::string_view name) { return parameter(name, ArgType::condition); }
constexpr Parameter queries(std::string_view name) { return parameter(name, ArgType::queries); }
constexpr Parameter scorer(std::string_view name) { return parameter(name, ArgType::scorer); }
constexpr Parameter document_input(std::string_view name) { return parameter(name, ArgType::document_input); }
constexpr Parameter lengths_input(std::string_view name) { return parameter(name, ArgType::lengths_input); }
constexpr Parameter table_input(std::string_view name) { return parameter(name, ArgType::table_input); }

const std::vector<SetWord>& sets() {
  static const std::vector<SetWord> table = {
#define WEFT_SET(kind, make, print, nothing, apart, ...) {#kind, {__VA_ARGS__}},
#include "dsl/sets.def"
  };
  return table;
}

FunctionRule rule_of(Signature signature) {
  if (signature == Signature::choice) return FunctionRule::choice;
  if (signature == Signature::of_integer) return FunctionRule::slope;
  if (signature == Signature::of_real) return FunctionRule::rounding;
  return signature == Signature::reals ? FunctionRule::real : FunctionRule::join;
}

const std::vector<FunctionWord>& functions() {
  static const auto table = [] {
    std::vector<FunctionWord> rows = {
#define WEFT_FUNCTION(name, rule, arguments) {#name, FunctionRule::rule, arguments, arguments},
#include "dsl/words.def"
    };
    constexpr std::size_t kMost = 1024;
    for (const OpFacts& op : all_ops()) {
      if (op.form != Form::call && op.form != Form::chain) continue;
      rows.push_back({op.sign, rule_of(op.signature), op.arity, op.form == Form::chain ? kMost : op.arity});
    }
    return rows;
  }();
  return table;
}

template <typename Row>
const Row* find(const std::vector<Row>& table, std::string_view name) {
  const auto row = std::find_if(table.begin(), table.end(), [&](const Row& r) { return r.name == name; });
  return row == table.end() ? nullptr : &*row;
}

template <typename Row>
std::vector<std::string> names_of(const std::vector<Row>& table) {
  std::vector<std::string> names;
  for (const Row& row : table) names.emplace_back(row.name);
  return names;
}

std::unordered_set<std::string_view> reserved_words() {
  std::unordered_set<std::string_view> words;
  for (const auto& row : sets()) words.insert(row.name);
  for (const auto& row : functions()) words.insert(row.name);
  for (const auto& row : statement_words()) words.insert(row.name);
  for (const auto& row : variable_words()) {
    if (row.place != Place::own && row.place != Place::branches) words.insert(row.name);
  }
#define WEFT_WORD(name, kind) words.insert(#name);
#include "dsl/words.def"
  return words;
}

}  // namespace

const std::vector<StatementWord>& statement_words() {
  constexpr bool once = true;
  constexpr bool often = false;
  static const std::vector<StatementWord> table = {
#define WEFT_STATEMENT(kind, times) {StatementKind::kind, #kind, times},
#include "dsl/words.def"
  };
  return table;
}

const std::vector<VariableWord>& variable_words() {
  static const std::vector<VariableWord> table = {
#define WEFT_VARIABLE(name, where) {#name, Place::where},
#include "dsl/words.def"
  };
  return table;
}

const std::vector<KeyWord>& schedule_keys() {
  static const std::vector<KeyWord> table = {
#define WEFT_KEY(name, least) {#name, least},
#include "dsl/words.def"
  };
  return table;
}

const std::vector<std::string>& words_of(WordKind kind) {
  static const auto table = [] {
    std::array<std::vector<std::string>, static_cast<std::size_t>(WordKind::scorer) + 1> lists;
#define WEFT_WORD(name, kind) lists[static_cast<std::size_t>(WordKind::kind)].push_back(#name);
#include "dsl/words.def"
    return lists;
  }();
  return table[static_cast<std::size_t>(kind)];
}

const std::vector<Parameter>& branches_parameters() {
  static const std::vector<Parameter> table = {
      parameter("segments", ArgType::integers).at_least(1, Code::small_segment),
      parameter("rates", ArgType::integers).at_least(1, Code::small_segment),
      parameter("phase", ArgType::branches_phase).at_least(0, Code::negative_phase).optional(),
      parameter("heads", ArgType::policy).optional(),
      queries("queries").optional(),
  };
  return table;
}

const SetWord* find_set(std::string_view name) { return find(sets(), name); }
const FunctionWord* find_function(std::string_view name) { return find(functions(), name); }
const VariableWord* find_variable(std::string_view name) { return find(variable_words(), name); }

std::string_view spelling(StatementKind kind) {
  for (const StatementWord& row : statement_words()) {
    if (row.kind == kind) return row.name;
  }
  return {};
}

bool is_one_of(WordKind kind, std::string_view word) {
  const auto& words = words_of(kind);
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool is_reserved(std::string_view word) {
  static const std::unordered_set<std::string_view> words = reserved_words();
  return words.contains(word);
}

std::string_view word_elsewhere(std::string_view name) {
  struct Pair {
    std::string_view theirs, ours;
  };
  static constexpr Pair kPairs[] = {{"q_idx", "q"},      {"kv_idx", "k"},     {"k_idx", "k"},
                                    {"score", "s"},      {"head", "h"},       {"batch", "b"},
                                    {"q_len", "n_q"},    {"kv_len", "n_k"},   {"seq_len", "n_k"},
                                    {"num_heads", "H"},  {"True", "true"},    {"False", "false"},
                                    {"infinity", "inf"}, {"Infinity", "inf"}, {"INFINITY", "inf"},
                                    {"maximum", "max"},  {"minimum", "min"},  {"sliding_window", "window"},
                                    {"local", "window"}, {"fabs", "abs"},     {"exponential", "exp"},
                                    {"full", "all"},     {"dense", "all"},    {"bigbird", "blocks"},
                                    {"clamp", "min"}};
  for (const Pair& pair : kPairs) {
    if (pair.theirs == name) return pair.ours;
  }
  return {};
}

std::string_view word_elsewhere(std::string_view name, WordKind kind) {
  struct Pair {
    std::string_view theirs, ours;
  };
  static constexpr Pair kPairs[] = {
      {"float16", "f16"}, {"fp16", "f16"},      {"half", "f16"},    {"bfloat16", "bf16"}, {"float32", "f32"},
      {"fp32", "f32"},    {"float", "f32"},     {"float", "real"},  {"double", "real"},   {"int32", "i32"},
      {"int", "i32"},     {"uint8", "u8"},      {"byte", "u8"},     {"bool", "u8"},       {"boolean", "bool"},
      {"integer", "int"}, {"long", "int"},      {"number", "real"}, {"seq", "tokens"},    {"sequence", "tokens"},
      {"head", "heads"},  {"query", "queries"}, {"key", "keys"},    {"average", "mean"},  {"add", "sum"}};
  for (const Pair& pair : kPairs) {
    if (pair.theirs == name && is_one_of(kind, pair.ours)) return pair.ours;
  }
  return {};
}

std::vector<std::string> set_names() { return names_of(sets()); }
std::vector<std::string> function_names() { return names_of(functions()); }

}  // namespace weft::dsl
