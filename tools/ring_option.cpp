#include "tools/ring_option.h"

#include "compiler/ring/owners.h"
#include "dsl/words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

namespace weft::tools {

namespace {

std::string layout_of(const std::string& text) {
  const auto colon = text.find(':');
  return colon == std::string::npos ? std::string() : text.substr(colon + 1);
}

/// What stands before the layout: a number, `mpi` or `nccl`.
std::string ranks_word(const Options& options) { return options.ring.substr(0, options.ring.find(':')); }

std::optional<std::int64_t> ranks_of(const Options& options) { return parse_count(ranks_word(options)); }

}  // namespace

bool is_mpi_ring(const Options& options) { return ranks_word(options) == "mpi" || is_nccl_ring(options); }

bool is_nccl_ring(const Options& options) { return ranks_word(options) == "nccl"; }

Options with_ranks(Options options, std::int64_t ranks) {
  const auto layout = layout_of(options.ring);
  options.ring = layout.empty() ? std::to_string(ranks) : fmt::format("{}:{}", ranks, layout);
  return options;
}

std::string wrong_ring(const Options& options) {
  const auto& text = options.ring;
  if (text.empty() && options.ring_memory)
    return "--ring-memory says what a rank of a ring has, and there is no --ring";
  if (text.empty()) return options.ring_by.empty() ? "" : "--ring-by says how a ring travels, and there is no --ring";
  const bool mpi = is_mpi_ring(options);
  if (mpi && options.command != Command::run)
    return fmt::format("--ring {}: only `run` can be a job of MPI's; give a number of ranks", text);
  if (is_nccl_ring(options) && !options.target.starts_with("cuda"))
    return fmt::format("--ring {}: NCCL moves what lies on GPUs; --target cuda computes there", text);
  const auto ranks = mpi ? 1 : ranks_of(options);
  if (!ranks || *ranks < 1 || *ranks > ring::kMostRanks)
    return fmt::format("--ring {}: expected a number of ranks from 1 to {}, and after a colon a layout if one is meant",
                       text, ring::kMostRanks);
  if (text.find(':') == std::string::npos) return {};
  const auto& layouts = dsl::words_of(dsl::WordKind::layout);
  if (std::find(layouts.begin(), layouts.end(), layout_of(text)) != layouts.end()) return {};
  return fmt::format("--ring {}: '{}' is not a layout; expected one of {}", text, layout_of(text),
                     fmt::join(layouts, ", "));
}

Result<std::optional<RingOf>> ring_of(const Options& options, const ir::Pattern& pattern) {
  if (options.ring.empty()) return std::optional<RingOf>();
  WEFT_TRY(auto ring, explain::ring_of(ranks_of(options).value_or(1), layout_of(options.ring), options.ring_by, pattern,
                                       "--ring"));
  ring.memory = static_cast<std::size_t>(options.ring_memory.value_or(0));
  return std::optional(ring);
}

}  // namespace weft::tools
