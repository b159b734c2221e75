#pragma once

#include "compiler/ir/pattern.h"
#include "compiler/target/target.h"
#include "kernels_cache/store.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

/// What this machine's processor was measured to do, for choices that a table of processors would guess: measured when
/// the first kernel wants it, once for a store, which keeps it beside the kernels, and once for a process without one.
/// Kernels made ahead of time follow the table: they are the same wherever they are made.
namespace weft {

using Stores = std::vector<std::shared_ptr<cache::Store>>;

/// The target as this machine knows it, for kernels of a dtype: where it can execute them and they depend on it, what
/// its processor does stands in place of what the table says. The first of the stores is one's own.
Target as_measured(const Stores& stores, const Target& target, std::optional<ir::DType> dtype);

/// The rate that one of the stores holds of a processor (host_cpu_model); else what `measure` finds, which is kept,
/// also in place of a record that makes no sense.
std::optional<double> bf16_dot_rate(const Stores& stores, const std::string& processor,
                                    const std::function<std::optional<double>()>& measure);

/// What its key says: the processor, and which measurement it is.
cache::Key bf16_dot_key(const std::string& processor);

}  // namespace weft
