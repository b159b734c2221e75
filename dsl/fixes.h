#pragma once

#include "compiler/base/diagnostic.h"

#include <functional>
#include <string>
#include <vector>

namespace weft::dsl {

/// Everything wrong with a text.
using Examine = std::function<std::vector<Diagnostic>(const Source&)>;

/// Drops each fix that does not work, or takes another spelling of it that does: with it in place, and the same
/// mistake mended all over the statement, `examine` must find fewer errors of the diagnostic's code, none in the new
/// text, and none in its statement that was not there before, also with all other fixes in place. At most a few MiB are
/// examined again; fixes beyond that are dropped, too, so that hostile files stay cheap.
void keep_working_fixes(std::vector<Diagnostic>& diagnostics, const Source& source, const Examine& examine);

}  // namespace weft::dsl
