#pragma once

#include "compiler/base/result.h"
#include "compiler/ir/few_rows.h"
#include "runtime/engine/compilation.h"
#include "runtime/engine/workers.h"

#include <weft/weft.h>

#include <functional>
#include <vector>

/// Which of a kernel's texts are made when.
namespace weft {

/// Those that Engine::compile makes; `registers` and `origin` of the kernel are the first one's.
Result<std::vector<ir::Regime>> first_texts(const Compilation& kernel, const CompileOptions& options);

/// Those that launches of a shape need, on a GPU; first the one that attends them. Where sizes stand in the GPU's
/// memory, what they choose is chosen there.
Result<std::vector<ir::Regime>> texts_of_shape(const Compilation& kernel, const ir::Shape& shape, bool sizes_at);

/// make(text, what it took) for each, as many at once as there are threads: the first error of them. `times` grows by
/// what that took, where it is not null; compilers that ran side by side count once.
using MakeText = std::function<Status(ir::Regime, BuildTimes&)>;
Status make_texts(const Workers& workers, const std::vector<ir::Regime>& texts, BuildTimes* times,
                  const MakeText& make);

}  // namespace weft
