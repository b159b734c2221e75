#include "compiler/base/diagnostic.h"
#include "compiler/base/guarded.h"

#include <weft/weft.h>

#include <fmt/format.h>

namespace weft {

std::string report(const Error& error, const Source& source) {
  auto text = guarded([&]() -> Result<std::string> {
    std::string out;
    for (const auto& found : error.diagnostics) {
      out += source.text.empty() ? fmt::format("error[{}]: {}\n", found.code, found.message) : render(found, source);
    }
    if (out.empty())
      out = fmt::format("{}error: {}\n", error.kind == ErrorKind::internal ? "internal " : "", error.message);
    for (const auto& note : error.notes) out += fmt::format("  = note: {}\n", note);
    return out;
  });
  // Not by ?:, whose two sides would be copied to be of one type.
  if (text) return std::move(*text);
  return text.error().message;  // short: it says that memory is out
}

}  // namespace weft
