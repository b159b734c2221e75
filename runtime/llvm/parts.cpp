#include "runtime/llvm/parts.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace weft::llvm {
namespace {

constexpr std::size_t kShort = 64U << 10;  // bytes: compiled before another thread has started
constexpr std::string_view kDefine = "define ", kInternal = "internal ";

struct Function {
  std::string_view signature;  ///< result, name and parameters
  std::string_view rest;       ///< from there to the line that ends it
  bool internal;
  /// What it takes to compile goes by its text, whether it is optimised or left as it stands.
  std::size_t weight() const { return signature.size() + rest.size(); }
};

struct Module {
  std::vector<Function> functions;
  std::string others;  ///< lines outside of functions
  bool has_data = false;
};

bool starts_with(std::string_view text, std::string_view with) { return text.substr(0, with.size()) == with; }

Function function_of(std::string_view text) {
  std::string_view head = text.substr(kDefine.size());
  const bool internal = starts_with(head, kInternal);
  if (internal) head.remove_prefix(kInternal.size());
  const auto end = head.substr(0, head.find('\n')).rfind(')') + 1;
  return {head.substr(0, end), head.substr(end), internal};
}

Module read(std::string_view text) {
  Module out;
  while (!text.empty()) {
    const bool function = starts_with(text, kDefine);
    auto size = function ? text.find("\n}\n") : text.find('\n');
    size = size == std::string_view::npos ? text.size() : size + (function ? 3 : 1);
    const auto item = text.substr(0, size);
    out.has_data = out.has_data || starts_with(item, "@");
    function ? out.functions.push_back(function_of(item)) : void(out.others += item);
    text.remove_prefix(size);
  }
  return out;
}

/// For each function the part that it goes to: the longest first, each to the part that has least.
std::vector<int> shares(const std::vector<Function>& functions, int parts) {
  std::vector<std::size_t> order(functions.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](auto a, auto b) { return functions[a].weight() > functions[b].weight(); });
  std::vector<std::size_t> load(static_cast<std::size_t>(parts));
  std::vector<int> out(functions.size());
  for (const auto i : order) {
    const auto least = std::min_element(load.begin(), load.end());
    *least += functions[i].weight();
    out[i] = static_cast<int>(least - load.begin());
  }
  return out;
}

}  // namespace

std::vector<std::string> split(std::string_view ir_text, int parts) {
  if (parts < 2 || ir_text.size() < kShort) return {std::string(ir_text)};
  const Module module = read(ir_text);
  if (module.has_data || module.functions.size() < static_cast<std::size_t>(parts)) return {std::string(ir_text)};
  const auto part_of = shares(module.functions, parts);
  std::vector<std::string> out(static_cast<std::size_t>(parts), module.others);
  for (int part = 0; part < parts; ++part) {
    std::string& text = out[static_cast<std::size_t>(part)];
    for (std::size_t i = 0; i < module.functions.size(); ++i) {
      const Function& f = module.functions[i];
      const bool own = part_of[i] == part;
      text.append(own ? "define " : "declare ").append(f.internal ? "hidden " : "").append(f.signature);
      text.append(own ? f.rest : "\n");
    }
  }
  return out;
}

}  // namespace weft::llvm
