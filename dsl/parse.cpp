#include "dsl/parse.h"

#include "dsl/build.h"
#include "dsl/fixes.h"
#include "dsl/read.h"
#include "dsl/scan.h"

#include <algorithm>
#include <utility>

namespace weft::dsl {

Read read(const Source& source) {
  Scan scanned = scan(source);
  Read result;
  result.problems = std::move(scanned.problems);
  result.file.comments = std::move(scanned.comments);
  result.file.text = source.text;
  if (!result.problems.empty()) return result;
  Builder builder(scanned.text);
  run_grammar(scanned.text, builder, result.file);
  result.problems = std::move(builder).take_problems();
  std::stable_sort(result.problems.begin(), result.problems.end(),
                   [](const Diagnostic& a, const Diagnostic& b) { return a.range.begin < b.range.begin; });
  return result;
}

Result<File> parse(const Source& source, const Examine& examine) {
  Read result = read(source);
  if (result.problems.empty()) return std::move(result.file);
  const Examine read_only = [](const Source& text) { return read(text).problems; };
  keep_working_fixes(result.problems, source, examine ? examine : read_only);
  return user_error(std::move(result.problems));
}

}  // namespace weft::dsl
