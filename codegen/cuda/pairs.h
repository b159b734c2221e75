#pragma once

#include "compiler/base/text_writer.h"
#include "compiler/ir/few_rows.h"
#include "compiler/ir/plan.h"

#include <string_view>

/// What a plan says of single pairs, beyond its ranges: the part of a kernel that is generated, as a struct `Pairs`
/// that the device headers take as a template argument. Plans that say nothing have the headers' own `PlainPairs`.
namespace weft::codegen::cuda {

bool has_pairs(const ir::Plan& plan);
void write_pairs(TextWriter& w, const ir::Plan& plan);

/// The logit of a head's sink, where the plan has one.
/// `struct Elements`: the elements of inputs that scores read, then those of the sink, what each changes its score by,
/// and where its gradient stands.
void write_elements(TextWriter& w, const ir::Plan& plan);
void write_sink(TextWriter& w, const ir::Plan& plan);

/// Some headers stand only in kernels that use them.
bool wants_header(const ir::Plan& plan, ir::Regime regime, std::string_view name);

}  // namespace weft::codegen::cuda
