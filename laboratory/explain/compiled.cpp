#include "laboratory/explain/compiled.h"

#include "codegen/cuda/emit.h"
#include "compiler/planner/cost.h"
#include "laboratory/explain/prediction.h"
#include "laboratory/sass/listing.h"
#include "runtime/engine/arguments.h"
#include "runtime/engine/binaries.h"
#include "runtime/nvrtc/disassemble.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft::explain {

namespace {

constexpr int kWarp = 32;

/// FMAs of a thread for one block of keys: what every pair of the plan's work counts as, padding left out.
double products_of(const ir::Plan& plan) {
  const auto& choices = plan.choices;
  const double pairs = static_cast<double>(choices.tile_q) * choices.tile_k;
  return pairs * static_cast<double>(planner::multiplications(plan)) / plan.choices.threads;
}

Result<sass::Report> read_machine_code(const std::string& cubin, const ir::Plan& plan, const Target& target,
                                       const Compiled& compiled) {
  WEFT_TRY(const auto text, nvrtc::disassemble(cubin, target, nvrtc::Encodings::shown));
  WEFT_TRY(const auto codes, sass::parse_listing(text));
  sass::Question question{.launch = launch_of(plan, compiled), .products = products_of(plan)};
  question.machine.schedulers = std::max(1, target.f32_lanes_per_sm / kWarp);
  return sass::report_on(codes, question);
}

void warn_of(const std::string& what, const Error& error, const Listener& listener) {
  if (!listener.warn(fmt::format("{}: {}", what, error.message))) return;
  for (const auto& note : error.notes) listener.remark("  " + note);
}

}  // namespace

sass::Launch launch_of(const ir::Plan& plan, const Compiled& compiled) {
  return {.blocks = std::max(1, compiled.blocks_per_sm), .warps = std::max(1, plan.choices.threads / kWarp)};
}

Result<Compiled> compile_for_gpu(const Planned& planned, ir::Regime regime, std::int64_t heads,
                                 const Binaries& binaries, const Listener& listener) {
  const ir::Plan& plan = ir::plan_of(planned.plan, regime);
  const auto found = [&] {
    const auto running = listener.begin(fmt::format("compiling {} for {}", planned.plan.name, planned.target.name));
    const Compilation kernel(planned);
    return binaries.find_or_compile(kernel, binary_of(kernel, regime));
  }();
  if (!found && found.error().kind != ErrorKind::environment) return found.error();
  if (!found) {
    listener.warn("registers and spills are not known: " + found.error().message);
    return Compiled{};
  }
  const auto& entry = found->entry;
  Compiled out;
  if (entry.registers) out.registers = static_cast<int>(*entry.registers);
  if (entry.spill_bytes) out.spill_bytes = static_cast<int>(*entry.spill_bytes);
  WEFT_TRY(const auto tables, make_head_tables(plan, heads));
  out.shared_bytes = codegen::cuda::shared_memory(planned.plan, regime).with_terms(tables.tables.most_terms);
  if (out.registers) {
    out.blocks_per_sm = blocks_per_sm(planned.target, plan.choices.threads, *out.registers, *out.shared_bytes);
  }
  if (planned.target.is_ptx) return out;  // there is no machine code before a driver has made it
  auto report = read_machine_code(entry.binary, plan, planned.target, out);
  if (report) {
    out.machine_code = *std::move(report);
  } else {
    warn_of("the machine code was not looked at", report.error(), listener);
  }
  return out;
}

namespace {

Json to_json(const sass::Mix& mix) {
  Json units = Json::object();
  for (std::size_t i = 0; i < sass::kUnits; ++i) {
    const auto unit = static_cast<sass::Unit>(i);
    if (mix.of(unit) > 0) units[sass::to_string(unit)] = mix.of(unit);
  }
  return units;
}

Json to_json(const sass::LoopReport& loop) {
  const auto of_run = [&](auto read) { return loop.simulation ? Json(read(*loop.simulation)) : Json(nullptr); };
  return {{"begin", loop.begin},
          {"end", loop.end},
          {"depth", loop.depth},
          {"rounds", loop.rounds},
          {"guessed", loop.guessed},
          {"instructions", loop.mix.instructions},
          {"units", to_json(loop.mix)},
          {"products", loop.mix.products},
          {"tensor_share", loop.mix.products > 0 ? loop.mix.tensor_products / loop.mix.products : 0},
          {"bank_conflicts", loop.mix.bank_conflicts},
          {"clocks", of_run([](const sass::Simulation& run) { return run.clocks_per_round; })},
          {"product_slots", of_run([](const sass::Simulation& run) { return run.product_share; })}};
}

}  // namespace

Json to_json(const std::optional<sass::Report>& report) {
  if (!report) return nullptr;
  Json loops = Json::array();
  for (const auto& loop : report->loops) loops.push_back(to_json(loop));
  return {{"clocks_per_block", report->share_of_peak ? Json(report->clocks_per_block) : Json(nullptr)},
          {"share_of_peak", or_null(report->share_of_peak)},
          {"trusted", report->trusted},
          {"assumed", report->assumed},
          {"loops", std::move(loops)}};
}

}  // namespace weft::explain
