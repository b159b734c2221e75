#include "runtime/engine/destination.h"
#include "runtime/engine/measured.h"
#include "runtime/engine/tuned.h"
#include "tools/commands/commands.h"
#include "tools/gradient_operands.h"
#include "tools/json.h"
#include "tools/operands.h"
#include "tools/pattern_file.h"
#include "tools/progress.h"
#include "tools/samples.h"

#include <algorithm>
#include <chrono>
#include <thread>

/// weft tune: measures the schedules that the planner is free to choose, on the user's sizes, and keeps the best.
namespace weft::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRounds = 9, kFewestRounds = 3;
constexpr double kSeconds = 20;       ///< of rounds for one pattern
constexpr double kSampleMs = 5;       ///< a sample is as many launches as take so long
constexpr double kHopeless = 1.15;    ///< after the fewest rounds: slower than the best by this is not tried on
constexpr double kWorthwhile = 1.01;  ///< less is noise: the planner's own choice stays

struct Candidate {
  std::vector<ir::ScheduleHint> schedule;  ///< empty: the planner's choice
  std::string text;                        ///< of the schedule, for people
  std::optional<Kernel> kernel = {};
  int launches = 1;
  std::vector<double> ms = {};
  double median() const { return tools::median(ms); }
};

ir::ScheduleHint tried(const char* key, int value) { return {.key = key, .value = value, .range = {}, .tuned = true}; }

/// Every pair of tile sizes that a plan for the target may have; and bf16 in the other form, where there are two.
std::vector<Candidate> candidates_for(const Planned& planned) {
  const ir::Choices& usual = planned.plan.choices;
  std::vector<Candidate> out = {{.schedule = {}, .text = "the planner's choice"}};
  for (int tile_q : {usual.sub_q * usual.micro_q, 64, 128}) {
    for (int tile_k : {32, 64, 96, 128, 192, 256}) {
      if (tile_q % (usual.sub_q * usual.micro_q) != 0) continue;
      if (tile_q == usual.tile_q && tile_k == usual.tile_k) continue;
      Candidate one{.schedule = {tried("tile_q", tile_q), tried("tile_k", tile_k)},
                    .text = fmt::format("tile_q {}, tile_k {}", tile_q, tile_k)};
      const auto known = [&](const Candidate& other) { return other.text == one.text; };
      if (std::none_of(out.begin(), out.end(), known)) out.push_back(std::move(one));
    }
  }
  // Backward passes widen bf16, always.
  if (planned.bind.dtype == ir::DType::bf16 && planned.target.has_bf16_dot() && !planned.bind.gradient) {
    const int other = usual.products == 2 ? 1 : 2;
    out.push_back({.schedule = {tried("products", other)}, .text = fmt::format("products {}", other)});
  }
  return out;
}

Result<double> launch(const Candidate& one, const RunArgs& args) {
  const auto start = Clock::now();
  for (int i = 0; i < one.launches; ++i) WEFT_CHECK(one.kernel->run(args));
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count() / one.launches;
}

/// Candidates take turns, so that clocks and neighbours disturb all alike.
Status measure(std::vector<Candidate>& candidates, const RunArgs& args, const std::string& what,
               const Console& console) {
  Progress progress(console, what);
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    auto& one = candidates[i];
    WEFT_CHECK(one.kernel->run(args));  // pages, caches
    WEFT_TRY(const double ms, launch(one, args));
    one.launches = std::max(1, static_cast<int>(kSampleMs / std::max(ms, 1e-3)));
    progress.update(i, candidates.size() * (kRounds + 1));
  }
  const auto begin = Clock::now();
  std::vector<Candidate*> running;
  for (auto& one : candidates) running.push_back(&one);
  for (int round = 0; round < kRounds; ++round) {
    if (round >= kFewestRounds && std::chrono::duration<double>(Clock::now() - begin).count() > kSeconds) break;
    for (auto* one : running) {
      WEFT_TRY(const double ms, launch(*one, args));
      one->ms.push_back(ms);
    }
    progress.update(candidates.size() * static_cast<std::size_t>(round + 2), candidates.size() * (kRounds + 1));
    if (round + 1 != kFewestRounds) continue;
    const auto best = (*std::min_element(running.begin(), running.end(), [](const auto* a, const auto* b) {
                        return a->median() < b->median();
                      }))->median();
    const auto* usual = &candidates.front();
    std::erase_if(running, [&](const auto* one) { return one != usual && one->median() > kHopeless * best; });
  }
  return done;
}

/// The fastest of many is often the luckiest: it must win most of the rounds against the planner's choice once more.
Result<bool> wins(Candidate& best, Candidate& usual, const RunArgs& args) {
  int won = 0;
  best.ms.clear();
  usual.ms.clear();
  for (int round = 0; round < kRounds; ++round) {
    for (auto* one : {&usual, &best}) {
      WEFT_TRY(const double ms, launch(*one, args));
      one->ms.push_back(ms);
    }
    won += best.ms.back() < usual.ms.back() ? 1 : 0;
  }
  return 4 * won >= 3 * kRounds && usual.median() >= kWorthwhile * best.median();
}

struct Tuning {
  std::string pattern, path;
  std::vector<Candidate> candidates;
  const Candidate* best = nullptr;
  bool backward = false;
  bool kept = false;
  bool noisy = false;  ///< the machine was too busy to tell which is the fastest
  bool won() const { return best != &candidates.front(); }
};

Result<Tuning> tune(const PatternFile& file, const Options& options, const Target& target, const Console& console) {
  const auto sizes = default_sizes(options, file.pattern, console);
  const auto tokens = options.tokens.empty() ? std::int64_t{4096} : options.tokens.front();
  if (options.tokens.empty()) console.remark("{}: tuning at {} tokens", file.pattern.name, tokens);
  WEFT_TRY(auto operands, random_operands(options, sizes, tokens, options.keys.value_or(tokens)));
  WEFT_CHECK(add_inputs(operands, options, file.pattern));
  WEFT_CHECK(add_offset(operands, options));
  auto compile = with_sizes(file.options, sizes);
  compile.target = target.name;
  WEFT_TRY(auto front, read_pattern(file.source, compile));
  if (!front.pattern.schedule.empty())
    return user_error(fmt::format("pattern {} has a schedule of its own, which nothing found here would replace",
                                  front.pattern.name));
  const auto store = open_store(options);
  WEFT_TRY(const auto planned, plan_pattern(front, compile, as_measured({store}, target, front.pattern.dtype)));

  Tuning out{
      .pattern = front.pattern.name, .path = {}, .candidates = candidates_for(planned), .backward = compile.gradient};
  auto engine_of = engine_options(options);
  engine_of.no_cache = true;  // most of them are never asked for again
  engine_of.threads = static_cast<int>(options.threads.value_or(0));
  const Engine engine(engine_of);
  {
    Progress progress(console, fmt::format("compiling {}", out.pattern));
    for (std::size_t i = 0; i < out.candidates.size(); ++i) {
      auto& one = out.candidates[i];
      auto pattern = front.pattern;
      pattern.schedule = one.schedule;
      const CompileOptions asked{.gradient = compile.gradient, .target = target.name, .source_name = file.source.name};
      WEFT_TRY(one.kernel, engine.compile(ir::print(pattern), asked));
      progress.update(i + 1, out.candidates.size());
    }
  }
  std::optional<GradientOperands> gradients;
  if (out.backward) {
    WEFT_TRY(gradients, gradients_after_forward(engine, file, compile, operands, options));
  }
  Views views;
  auto args = operands.args(options, views);
  if (gradients) args = gradients->args(args, operands);
  args.threads = static_cast<int>(options.threads.value_or(0));
  WEFT_CHECK(measure(out.candidates, args, fmt::format("tuning {}", out.pattern), console));

  auto& usual = out.candidates.front();
  auto& fastest = *std::min_element(out.candidates.begin(), out.candidates.end(),
                                    [](const auto& a, const auto& b) { return a.median() < b.median(); });
  out.best = &usual;
  if (&fastest != &usual) {
    WEFT_TRY(const bool better, wins(fastest, usual, args));
    if (better) out.best = &fastest;
  }
  out.noisy = spread(usual.ms) > kNoisy || spread(fastest.ms) > kNoisy;
  if (out.noisy) {
    console.warn(
        "{}: the machine is too busy to tell schedules apart: half of the samples differ by {:.0f} % of their "
        "median; nothing is kept",
        out.pattern, 100 * std::max(spread(usual.ms), spread(fastest.ms)));
    out.best = &usual;
  }
  // The planner's own choice needs no note, but one that was kept before may have lost by now.
  const auto key = tuned_key(front.pattern, planned.bind, target);
  if (!out.noisy && (out.won() || find_tuned(*store, key))) {
    const auto measured = fmt::format("{} at {} tokens: {:.4g} ms, {:.4g} ms by the planner's choice", out.best->text,
                                      tokens, out.best->median(), usual.median());
    const auto kept = keep_tuned(*store, key, {.schedule = out.best->schedule, .measured = measured});
    if (kept.warning) console.warn("{}", kept.warning->message);
    out.kept = kept.published && out.won();
  }
  out.path = store->path();
  return out;
}

void print(const Tuning& tuning, const Console& console) {
  const auto usual = tuning.candidates.front().median();
  console.print("{}{}\n", tuning.backward ? "backward pass of " : "", tuning.pattern);
  for (const auto& one : tuning.candidates) {
    console.print("  {:<24} {:>10.3f} ms  {:.2f} times as fast{}\n", one.text, one.median(), usual / one.median(),
                  &one == tuning.best ? "  <- best" : "");
  }
  if (tuning.kept)
    console.print("  kept in {}\n", tuning.path);
  else
    console.print("  nothing kept: {}\n", tuning.noisy   ? "the machine was too busy to tell"
                                          : tuning.won() ? "there is no store"
                                                         : "nothing is faster than the planner's choice");
}

Json to_json(const std::vector<ir::ScheduleHint>& schedule) {
  Json out = Json::object();
  for (const auto& hint : schedule) out[hint.key] = hint.value;
  return out;
}

Json to_json(const Tuning& tuning) {
  Json tried = Json::array();
  for (const auto& one : tuning.candidates) {
    tried.push_back({{"schedule", to_json(one.schedule)}, {"median_ms", one.median()}, {"samples", one.ms.size()}});
  }
  const auto& best = *tuning.best;
  return {{"pattern", tuning.pattern},
          {"pass", tuning.backward ? "backward" : "forward"},
          {"tried", tried},
          {"best", to_json(best.schedule)},
          {"median_ms", best.median()},
          {"planner_ms", tuning.candidates.front().median()},
          {"speedup", tuning.candidates.front().median() / best.median()},
          {"noisy", tuning.noisy},
          {"kept", tuning.kept}};
}

}  // namespace

int command_tune(const Options& options, const Console& console) {
  const auto destination = find_destination(options.target.empty() ? "cpu" : options.target);
  if (!destination) return console.fail(destination.error());
  if (destination->kind != Destination::Kind::cpu)
    return console.fail(environment_error("tune measures CPU kernels only in this version"));
  if (options.tokens.size() > 1) return console.usage("tune takes one length: --tokens 16k");
  Json results = Json::array();
  for (const auto& path : options.files) {
    Options one = options;
    one.files = {path};
    const auto [file, status] = open_pattern(one, console);
    if (!file) return status;
    const auto tuning = tune(*file, one, destination->target, console);
    if (!tuning) return console.fail(tuning.error(), &file->source);
    if (console.json())
      results.push_back(to_json(*tuning));
    else
      print(*tuning, console);
    finish(kDone);
  }
  if (console.json())
    console.print("{}\n", json_text(Json{{"target", destination->target.name}, {"results", results}}));
  return kDone;
}

}  // namespace weft::tools
