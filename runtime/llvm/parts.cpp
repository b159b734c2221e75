#include "runtime/llvm/parts.h"

#include <cstddef>
#include <map>
#include <set>
#include <utility>

namespace weft::llvm {
namespace {

constexpr std::size_t kShort = 64U << 10;  // bytes: compiled before another thread has started
constexpr std::size_t kLong = 64U << 10;   // of a part; each costs 1.35 ms, whatever is in it
constexpr std::string_view kDefine = "define ", kInternal = "internal ", kDeclare = "declare ", kSection = ";; ";

/// What is called in a text.
std::set<std::string_view> names_in(std::string_view text) {
  constexpr std::string_view kOfNames = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.$-";
  std::set<std::string_view> out;
  for (auto at = text.find('@'); at != text.npos; at = text.find('@', at + 1)) {
    const auto end = text.find_first_not_of(kOfNames, at + 1);
    out.insert(text.substr(at, end == text.npos ? end : end - at));
  }
  return out;
}

/// The first of them, which in a signature is the function's own.
std::string_view name_in(std::string_view text) {
  const auto names = names_in(text.substr(0, text.find('(')));
  return names.empty() ? std::string_view() : *names.begin();
}

struct Function {
  std::string_view signature;  ///< result, name and parameters
  std::string_view rest;       ///< from there to the line that ends it
  bool internal = false;
  bool opens_section = false;
  std::string_view name() const { return name_in(signature); }
  std::size_t size() const { return signature.size() + rest.size(); }
  std::string head(std::string_view as) const {
    return std::string(as).append(internal ? "hidden " : "").append(signature);
  }
};

struct Module {
  std::vector<Function> functions;
  std::map<std::string_view, std::string> declarations;  ///< of functions here and elsewhere, by name
  std::string others;                                    ///< lines about the module
  bool has_data = false;
};

bool starts_with(std::string_view text, std::string_view with) { return text.substr(0, with.size()) == with; }

Function function_of(std::string_view text) {
  std::string_view head = text.substr(kDefine.size());
  const bool internal = starts_with(head, kInternal);
  if (internal) head.remove_prefix(kInternal.size());
  const auto end = head.substr(0, head.find('\n')).rfind(')') + 1;
  return {.signature = head.substr(0, end), .rest = head.substr(end), .internal = internal};
}

Module read(std::string_view text) {
  Module out;
  bool section = false;
  while (!text.empty()) {
    const bool is_function = starts_with(text, kDefine);
    auto size = is_function ? text.find("\n}\n") : text.find('\n');
    size = size == text.npos ? text.size() : size + (is_function ? 3 : 1);
    const auto item = text.substr(0, size);
    text.remove_prefix(size);
    if (is_function) {
      Function function = function_of(item);
      function.opens_section = std::exchange(section, false);
      out.declarations.emplace(function.name(), function.head(kDeclare) + "\n");
      out.functions.push_back(function);
    } else if (starts_with(item, kDeclare)) {
      out.declarations.emplace(name_in(item), item);
    } else if (starts_with(item, kSection)) {
      section = true;
    } else if (!starts_with(item, ";") && item != "\n") {
      out.has_data = out.has_data || starts_with(item, "@");
      out.others += item;
    }
  }
  return out;
}

}  // namespace

std::vector<std::string> split(std::string_view ir_text) {
  if (ir_text.size() < kShort) return {std::string(ir_text)};
  const Module module = read(ir_text);
  if (module.has_data) return {std::string(ir_text)};
  std::vector<std::string> out;
  for (std::size_t begin = 0, end = 0; begin < module.functions.size(); begin = end) {
    std::string functions;
    std::set<std::string_view> own, called;
    for (; end < module.functions.size(); ++end) {
      const Function& function = module.functions[end];
      const bool full = functions.size() + function.size() > kLong || function.opens_section;
      if (end > begin && full) break;
      functions.append(function.head(kDefine)).append(function.rest);
      own.insert(function.name());
      called.merge(names_in(function.rest));
    }
    std::string text = module.others;
    for (const auto name : called) {
      const auto found = module.declarations.find(name);
      if (!own.contains(name) && found != module.declarations.end()) text += found->second;
    }
    out.push_back(text + functions);
  }
  if (out.empty()) out.emplace_back(ir_text);
  return out;
}

}  // namespace weft::llvm
