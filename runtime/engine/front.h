#pragma once

#include "compiler/base/result.h"
#include "compiler/ir/pattern.h"
#include "compiler/ir/plan.h"
#include "compiler/target/target.h"
#include "dsl/ast.h"

#include <weft/weft.h>

#include <string>
#include <vector>

/// The first half of the machine, text to `Pattern`, as every user of it wants it: one pattern chosen, its
/// parameters bound, and what the file leaves open filled in from the caller's options.
namespace weft {

struct Front {
  ir::Pattern pattern;
  std::vector<Diagnostic> warnings;
};

/// A text that was read and checked, so that several of its patterns can be taken from it.
struct CheckedText {
  dsl::File file;
  std::vector<Diagnostic> warnings;
};
Result<CheckedText> check_text(const Source& source);
/// One pattern of it; `text` is what check_text made of `source`. Warnings are those of this pattern alone.
Result<Front> read_pattern(const CheckedText& text, const Source& source, const CompileOptions& options);

/// User errors carry diagnostics into `source` where the text is involved. A text with several patterns and no
/// name in `options` is an error that lists the names; an option that contradicts the text shows the text.
Result<Front> read_pattern(const Source& source, const CompileOptions& options);

/// May the LSE of each branch be asked for? User error that says what of the pattern forbids it.
Status check_branch_lse(const ir::Pattern& pattern);

/// What is compiled in. User error where neither the text nor the options say dim or dtype.
Result<ir::Bind> bind_of(const ir::Pattern& pattern, const CompileOptions& options);

/// The second half: every decision, for the target that the options name.
struct Planned : Front {
  ir::Bind bind;
  Target target;
  ir::Plan plan;
};
Result<Planned> plan_pattern(Front front, const CompileOptions& options, const Target& target);

ir::DType to_ir(DType type);  ///< f32, f16, bf16 only
DType from_ir(ir::DType type);
DType from_ir(ir::InputType type);

}  // namespace weft
