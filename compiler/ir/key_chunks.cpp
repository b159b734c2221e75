#include "compiler/ir/key_chunks.h"

#include "compiler/ir/tables.h"
#include "compiler/walk/chunks.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft::ir {
namespace {

struct WordOfTables {
  std::int64_t operator()(const std::int64_t* at) const { return *at; }
  std::int64_t floor_to(std::int64_t x, std::int64_t w) const { return walk::floor_div(x, w) * w; }
};

}  // namespace

Status check_key_cuts(const Plan& plan) {
  if (plan.choices.kernel_class == KernelClass::vector || plan.may_cut_keys()) return done;
  return user_error(
      fmt::format("{}: GPU kernels do not cut the keys of a row where one softmax takes several launches, or where "
                  "there are more than {}; here are {} launches and {}",
                  plan.name, kMostShares / 2, plan.phases.size(), plan.phases.front().passes.size()));
}

KeyChunks key_chunks(const Plan& plan, const Shape& shape, std::int64_t b) {
  if (plan.cuts.empty()) return {.count = 1, .first = 0, .keys = shape.n_k};
  return walk::chunks::of_rows(WordOfTables(), words_of_cuts(plan).data(), {shape.offset_of(b), shape.n_q, shape.n_k});
}

std::int64_t most_key_chunks(const Plan& plan, std::int64_t n_q, std::int64_t n_k) {
  if (plan.cuts.empty()) return 1;
  return walk::chunks::most_of(WordOfTables(), words_of_cuts(plan, false).data(), n_q, n_k);
}

std::int64_t most_key_chunks_up_to(const Plan& plan, std::int64_t n_q, std::int64_t n_k) {
  std::int64_t most = most_key_chunks(plan, n_q, n_k);
  for (const Cut& cut : plan.cuts) most = std::max(most, most_key_chunks(plan, std::min(cut.rows, n_q), n_k));
  return most;
}

std::int64_t shares_of_tile(const Plan& plan, std::int64_t chunks) {
  return chunks > 1 ? chunks * std::ssize(plan.phases.front().passes) : 1;
}

}  // namespace weft::ir
