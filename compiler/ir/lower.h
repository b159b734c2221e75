#pragma once

#include "compiler/base/result.h"
#include "compiler/ir/pattern.h"
#include "dsl/ast.h"

#include <map>
#include <string>
#include <variant>
#include <vector>

namespace weft::ir {

/// A `-D` value. Integers convert to reals where a parameter wants them.
using ParamValue = std::variant<std::int64_t, double, bool, std::vector<std::int64_t>, std::vector<double>>;
using Params = std::map<std::string, ParamValue>;

/// Parses the text of `-D name=value`: the language's own literals (`8k`, `[1, 2]`, `true`).
Result<std::pair<std::string, ParamValue>> parse_param(std::string_view text);

/// Binds the parameters of pattern `name` and lowers it: `let`, `use`, constants and comprehensions are evaluated,
/// `branches` becomes one branch per pair, `keep` is intersected with every branch. Errors are diagnostics with places
/// in the file: values that only bound parameters reveal (rate < 1, list lengths that differ, overflow, overlapping
/// head ranges, …), and what `check` refuses. Warnings that need values are appended to `warnings`.
Result<Pattern> lower(const dsl::File& file, const std::string& name, const Params& params,
                      std::vector<Diagnostic>* warnings = nullptr);

}  // namespace weft::ir
