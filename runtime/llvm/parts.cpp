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
  double weight;  ///< of the time that it takes
};

struct Module {
  std::vector<Function> functions;
  std::string others;  ///< lines outside of functions
  bool has_data = false;
};

bool starts_with(std::string_view text, std::string_view with) { return text.substr(0, with.size()) == with; }

/// Numbers of attributes that leave a function as it stands, with a space in front: ` #1 {`.
std::vector<std::string> unoptimized(std::string_view text) {
  std::vector<std::string> out;
  for (auto at = text.rfind("\nattributes #"); at != std::string_view::npos && at > 0;
       at = text.rfind("\nattributes #", at - 1)) {
    const auto line = text.substr(at + 1, text.find('\n', at + 1) - at - 1);
    if (line.find("optnone") == std::string_view::npos) continue;
    const auto number = line.substr(line.find('#'));
    out.push_back(" " + std::string(number.substr(0, number.find(' '))) + " {");
  }
  return out;
}

Function function_of(std::string_view text, const std::vector<std::string>& quick) {
  constexpr double kQuick = 0.3;  // of the time that others take: measured with LLVM 22
  std::string_view head = text.substr(kDefine.size());
  const bool internal = starts_with(head, kInternal);
  if (internal) head.remove_prefix(kInternal.size());
  const auto line = head.substr(0, head.find('\n'));
  const auto end = line.rfind(')') + 1;
  const auto is_quick = [&](const std::string& mark) { return line.find(mark) != std::string_view::npos; };
  const bool kept = std::any_of(quick.begin(), quick.end(), is_quick);
  return {head.substr(0, end), head.substr(end), internal, static_cast<double>(text.size()) * (kept ? kQuick : 1)};
}

Module read(std::string_view text) {
  Module out;
  const auto quick = unoptimized(text);
  while (!text.empty()) {
    const bool function = starts_with(text, kDefine);
    auto size = function ? text.find("\n}\n") : text.find('\n');
    size = size == std::string_view::npos ? text.size() : size + (function ? 3 : 1);
    const auto item = text.substr(0, size);
    out.has_data = out.has_data || starts_with(item, "@");
    function ? out.functions.push_back(function_of(item, quick)) : void(out.others += item);
    text.remove_prefix(size);
  }
  return out;
}

/// For each function the part that it goes to: the longest first, each to the part that has least.
std::vector<int> shares(const std::vector<Function>& functions, int parts) {
  std::vector<std::size_t> order(functions.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](auto a, auto b) { return functions[a].weight > functions[b].weight; });
  std::vector<double> load(static_cast<std::size_t>(parts));
  std::vector<int> out(functions.size());
  for (const auto i : order) {
    const auto least = std::min_element(load.begin(), load.end());
    *least += functions[i].weight;
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
