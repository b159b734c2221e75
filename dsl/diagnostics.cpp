#include "dsl/diagnostics.h"

#include <algorithm>
#include <utility>

namespace weft::dsl {
namespace {

constexpr CodeInfo kCodes[] = {
#define WEFT_DIAGNOSTIC(name, ...) {__VA_ARGS__, Code::name},
#define WEFT_REVEALED(name, ...) {__VA_ARGS__, Code::name},
#include "dsl/diagnostics.def"
};

struct Row {
  Code code;
  std::string_view text;
};

constexpr Row kByText[] = {
#define WEFT_DIAGNOSTIC(name, code, ...) {Code::name, code},
#include "dsl/diagnostics.def"
};

constexpr Row kByValues[] = {
#define WEFT_DIAGNOSTIC(name, ...)
#define WEFT_REVEALED(name, code, ...) {Code::name, code},
#include "dsl/diagnostics.def"
};

}  // namespace

std::span<const CodeInfo> codes() { return kCodes; }

std::string_view text_of(Code code, Shown shown) {
  const auto* revealed =
      std::find_if(std::begin(kByValues), std::end(kByValues), [&](const Row& row) { return row.code == code; });
  const bool other = shown == Shown::by_values && revealed != std::end(kByValues);
  return other ? revealed->text : kByText[static_cast<std::size_t>(code)].text;
}

Diagnostic finding(Code code, SourceRange range, std::string message, std::string label, Shown shown) {
  Diagnostic d;
  d.code = std::string(text_of(code, shown));
  d.severity = d.code.front() == 'W' ? Severity::warning : Severity::error;
  d.range = range;
  d.message = std::move(message);
  d.label = std::move(label);
  return d;
}

}  // namespace weft::dsl
