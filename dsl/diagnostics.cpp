#include "dsl/diagnostics.h"

#include <utility>

namespace weft::dsl {
namespace {

constexpr CodeInfo kCodes[] = {
#define WEFT_DIAGNOSTIC(name, code, title) {Code::name, code, title},
#include "dsl/diagnostics.def"
};

}  // namespace

std::span<const CodeInfo> codes() { return kCodes; }

std::string_view text_of(Code code) { return kCodes[static_cast<std::size_t>(code)].text; }

Diagnostic finding(Code code, SourceRange range, std::string message, std::string label) {
  const CodeInfo& info = kCodes[static_cast<std::size_t>(code)];
  Diagnostic d;
  d.severity = info.text.front() == 'W' ? Severity::warning : Severity::error;
  d.code = std::string(info.text);
  d.range = range;
  d.message = std::move(message);
  d.label = std::move(label);
  return d;
}

}  // namespace weft::dsl
