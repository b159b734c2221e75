#include "runtime/engine/texts.h"

#include "runtime/engine/launch_checks.h"
#include "runtime/engine/stopwatch.h"

#include <algorithm>

namespace weft {

Result<std::vector<ir::Regime>> first_texts(const Compilation& kernel, const CompileOptions& options) {
  const ir::Plan& plan = kernel.plan;
  const bool on_gpu = kernel.target.kind == TargetKind::cuda;
  if (on_gpu && options.shape) {
    WEFT_TRY(const auto shape, check_shape(*options.shape, {}));
    return texts_of_shape(kernel, shape, options.shape->sizes_at);
  }
  if (on_gpu && plan.transposed) return std::vector{ir::Regime::many_queries, ir::Regime::transposed};
  return std::vector{ir::Regime::many_queries};
}

Result<std::vector<ir::Regime>> texts_of_shape(const Compilation& kernel, const ir::Shape& shape, bool sizes_at) {
  const ir::Plan& plan = kernel.plan;
  auto out = ir::regimes_of(plan);
  if (std::none_of(out.begin(), out.end(), ir::is_of_few)) return out;
  WEFT_TRY(const auto tables, kernel.tables(shape.heads));
  const auto attending = ir::regime_of(plan, tables->alike, shape);
  const bool in_memory = sizes_at && plan.may_read_sizes();
  std::erase_if(out, [&](ir::Regime text) {
    const bool attends = in_memory ? ir::may_attend(plan, text, shape) : text == attending;
    return ir::only_attends(plan, text) && !attends && !(in_memory && ir::finds_sizes(plan, text));
  });
  std::stable_partition(out.begin(), out.end(), [&](ir::Regime text) { return text == attending; });
  return out;
}

Status make_texts(const Workers& workers, const std::vector<ir::Regime>& texts, BuildTimes* times,
                  const MakeText& make) {
  if (texts.empty()) return done;
  const Stopwatch making;
  std::vector<Status> ended(texts.size(), done);
  std::vector<BuildTimes> took(texts.size());
  workers.run(static_cast<int>(texts.size()), [&](int slot) {
    const auto i = static_cast<std::size_t>(slot);
    ended[i] = make(texts[i], took[i]);
  });
  for (const auto& one : ended) WEFT_CHECK(one);
  if (times == nullptr) return done;
  BuildTimes all;
  for (const auto& one : took) all += one;
  all.compile_ms = std::min(all.compile_ms, making.ms());
  *times += all;
  return done;
}

}  // namespace weft
