#pragma once

#include "kernels_cache/store.h"
#include "runtime/engine/compilation.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// What a kernel store notes of a request beside its kernel: the plan, and what a text of it is called in stores, each
/// text by itself. With it the next engine plans and emits nothing, which takes ten times as long as reading a stored
/// kernel.
namespace weft {

/// Names everything that a plan and its text follow from: the request as a whole, the target with what was measured of
/// it, a tuned schedule, and this build of planner and emitters. Nothing for an empty `build`: what cannot be told from
/// another build is not believed.
std::optional<cache::Key> memo_key(std::string_view request, const ir::Pattern& pattern, const Target& target,
                                   std::string_view build);
/// What is noted of one of its texts.
cache::Key memo_of(const cache::Key& request, ir::Regime text);

/// From the first store that has a note of one of the request's texts: the plan of a pattern that is bound so, and the
/// name of that text's binary. A note that makes no sense is none.
struct Memo {
  ir::Plan plan;
  Binary binary;
};
std::optional<Memo> find_memo(const std::vector<std::shared_ptr<cache::Store>>& stores, const cache::Key& request,
                              const ir::Bind& bind);
/// The name alone, of this text's binary, where the plan is known.
std::optional<Binary> find_binary(const std::vector<std::shared_ptr<cache::Store>>& stores, const cache::Key& request,
                                  ir::Regime text);

/// Notes a kernel under the `memo` of its binary, where the plan as it will be read again gives the same text. That it
/// may fail is as with every put: the next engine plans.
void keep_memo(cache::Store& store, const Compilation& kernel, const Binary& binary);

}  // namespace weft
