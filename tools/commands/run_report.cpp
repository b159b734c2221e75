#include "tools/commands/run_report.h"

#include "tools/json.h"

#include <algorithm>
#include <cmath>

namespace weft::tools {

bool RunReport::gradients_ok() const {
  return std::all_of(gradients.begin(), gradients.end(), [](const GradientError& error) { return error.ok(); });
}

std::string list_file(const Options& options, std::size_t number) {
  return fmt::format("{}.{}.npy", options.lists, number);
}

namespace {

std::string origin_text(const Pass& pass) {
  const auto& [kernel, prepared, ms] = pass;
  if (kernel.target() == "interpreter") return "interpreted in f64, nothing is compiled";
  auto out =
      kernel.origin() == CacheOrigin::miss
          ? fmt::format("cache miss: compiled in {:.1f} ms, loaded in {:.2f} ms", kernel.compile_ms(), kernel.load_ms())
          : fmt::format("cache hit ({}): loaded in {:.2f} ms, nothing compiled", to_string(kernel.origin()),
                        kernel.load_ms());
  if (prepared.compile_ms > 0)
    out += fmt::format("; for few queries: compiled in {:.1f} ms", prepared.compile_ms);
  else if (prepared.load_ms > 0)
    out += fmt::format("; for few queries: loaded in {:.2f} ms", prepared.load_ms);
  return out;
}

void print_check(const Comparison& check, const Console& console) {
  const auto rows = check.sampled ? fmt::format(" on {} rows of each head", check.rows) : std::string();
  console.print("  check   largest error {:.2e}, bound {:.2e}{}: {}\n", check.max_error, check.bound, rows,
                check.ok ? "ok" : "WRONG");
  if (check.lse_bound > 0)
    console.print("          of the LSE    {:.2e}, bound {:.2e}\n", check.lse_max_error, check.lse_bound);
  for (const auto& strange : check.strange) console.print("          of the input: {}\n", strange);
  if (check.clamped.count > 0) {
    console.print("          {} reads beyond the end of an input or a list took the nearest element; the first: {}\n",
                  check.clamped.count, check.clamped.first);
  }
  if (check.lists > 0) {
    console.print("          of the chosen keys: {}\n", check.wrong_choice.empty() ? "ok" : check.wrong_choice);
  }
}

void print_gradient_check(const RunReport& report, const Console& console) {
  if (report.check->sampled) console.print("          of gradients by a dO that is 0 in the other rows:\n");
  for (const auto& error : report.gradients) {
    console.print("          of {:<10} {:.2e}, bound {:.2e}: {}\n", error.tensor, error.max_error, error.bound,
                  error.ok() ? "ok" : "WRONG");
  }
}

double most_of(const std::vector<RingShare>& shares, double RingShare::*member) {
  double most = 0;
  for (const auto& share : shares) most = std::max(most, share.*member);
  return most;
}

std::size_t most_received(const std::vector<RingShare>& shares) {
  std::size_t most = 0;
  for (const auto& share : shares) most = std::max(most, share.received_bytes);
  return most;
}

void print_ring(const RingRan& ring, const Console& console) {
  const auto& summary = ring.summary;
  console.print("  ring    {} ranks ({}), {}, carrier {}, bits of {}\n", summary.ranks, ring.transport, summary.layout,
                summary.carrier, summary.bits);
  console.print("          {} bytes received at most, imbalance {:.3f}, {:.3f} ms of waiting at most\n",
                most_received(ring.shares), summary.imbalance, most_of(ring.shares, &RingShare::wait_ms));
}

template <typename Member>
Json by_rank(const std::vector<RingShare>& shares, Member member) {
  auto out = Json::array();
  for (const auto& share : shares) out.push_back(share.*member);
  return out;
}

/// What differs from pass to pass.
Json shares_json(const std::vector<RingShare>& shares) {
  return {{"needed_bytes", by_rank(shares, &RingShare::needed_bytes)},
          {"received_bytes", by_rank(shares, &RingShare::received_bytes)},
          {"sent_bytes", by_rank(shares, &RingShare::sent_bytes)},
          {"messages", by_rank(shares, &RingShare::messages)},
          {"pairs", by_rank(shares, &RingShare::pairs)},
          {"wait_ms", by_rank(shares, &RingShare::wait_ms)}};
}

Json ring_json(const RingRan& ring) {
  Json out{{"ranks", ring.summary.ranks},    {"layout", ring.summary.layout}, {"carrier", ring.summary.carrier},
           {"transport", ring.transport},    {"bits", ring.summary.bits},     {"imbalance", ring.summary.imbalance},
           {"reasons", ring.summary.reasons}};
  out.update(shares_json(ring.shares));
  return out;
}

void print_text(const Job& job, const RunReport& report, const Options& options, const Console& console) {
  const auto& [kernel, prepared, ms] = report.forward;
  const auto shape = job.operands.shape();
  const auto tokens = shape.n_q == shape.n_k ? fmt::format("{} tokens", shape.n_q)
                                             : fmt::format("{} queries, {} keys", shape.n_q, shape.n_k);
  const auto rows =
      shape.is_slice() ? fmt::format(", rows {} to {}", shape.row_begin, shape.row_end() - 1) : std::string();
  console.print("{}: {}{}, {} heads, dim {}, {}, batch {}\n", job.file.pattern.name, tokens, rows, shape.heads, shape.d,
                to_string(job.operands.q.dtype), shape.batch);
  console.print("  kernel  {}\n", origin_text(report.forward));
  if (kernel.registers()) {
    console.print("          {} registers, {} bytes spilled, {} bytes of shared memory\n", *kernel.registers(),
                  kernel.spill_bytes().value_or(0), kernel.shared_bytes(shape.heads).value_or(0));
  }
  console.print("  run     {:.3f} ms on {}\n", ms, kernel.target());
  if (report.ring) print_ring(*report.ring, console);
  if (report.backward) {
    console.print("  grad    {}\n", origin_text(*report.backward));
    console.print("          {:.3f} ms on {}\n", report.backward->ms, report.backward->kernel.target());
    if (report.ring) {
      console.print("          {} bytes received at most, {:.3f} ms of waiting at most\n",
                    most_received(report.ring->backward_shares),
                    most_of(report.ring->backward_shares, &RingShare::wait_ms));
    }
  }
  for (std::size_t i = 0; i < job.lists.size() && !options.lists.empty(); ++i) {
    console.print("  list    {}, from row {} on: {}\n", job.lists[i].set, job.lists[i].first_row,
                  list_file(options, i));
  }
  if (report.check) print_check(*report.check, console);
  if (report.check && report.backward) print_gradient_check(report, console);
}

Json lists_json(const Job& job, const Options& options) {
  auto out = Json::array();
  for (std::size_t i = 0; i < job.lists.size() && !options.lists.empty(); ++i) {
    const auto& list = job.lists[i];
    out.push_back({{"set", list.set},
                   {"block", list.block},
                   {"first_row", list.first_row},
                   {"shape", list.extent},
                   {"file", list_file(options, i)}});
  }
  return out;
}

Json kernel_json(const Pass& pass) {
  const auto& [kernel, prepared, ms] = pass;
  return {
      {"cache", to_string(kernel.origin())},
      {"compile_ms", kernel.compile_ms()},
      {"load_ms", kernel.load_ms()},
      {"plan_ms", kernel.times().plan_ms},
      {"emit_ms", kernel.times().emit_ms},
      {"prepare", {{"emit_ms", prepared.emit_ms}, {"compile_ms", prepared.compile_ms}, {"load_ms", prepared.load_ms}}},
      {"registers", or_null(kernel.registers())},
      {"spill_bytes", or_null(kernel.spill_bytes())}};
}

Json number_json(double x) { return std::isfinite(x) ? Json(x) : Json(nullptr); }

Json check_json(const RunReport& report) {
  const auto& check = *report.check;
  Json out{{"ok", check.ok && report.gradients_ok()},
           {"max_error", number_json(check.max_error)},
           {"bound", check.bound},
           {"lse_max_error", number_json(check.lse_max_error)},
           {"lse_bound", check.lse_bound},
           {"rows", check.rows},
           {"sampled", check.sampled},
           {"not_finite", check.strange},
           {"lists", check.lists},
           {"clamped", check.clamped.count},
           {"first_clamped", check.clamped.count > 0 ? Json(check.clamped.first) : Json(nullptr)},
           {"wrong_choice", check.wrong_choice.empty() ? Json(nullptr) : Json(check.wrong_choice)}};
  if (!report.backward) return out;
  out["gradients"] = Json::array();
  for (const auto& error : report.gradients) {
    out["gradients"].push_back({{"tensor", error.tensor},
                                {"ok", error.ok()},
                                {"max_error", number_json(error.max_error)},
                                {"bound", number_json(error.bound)}});
  }
  return out;
}

void print_json(const Job& job, const RunReport& report, const Options& options, const Console& console) {
  const auto& [kernel, prepared, ms] = report.forward;
  const auto shape = job.operands.shape();
  Json out{{"pattern", job.file.pattern.name}, {"target", kernel.target()}};
  out.update(sizes_json(shape));
  out.update({{"dtype", to_string(job.operands.q.dtype)}, {"kernel", kernel_json(report.forward)}, {"time_ms", ms}});
  if (shape.is_slice()) out["rows"] = {shape.row_begin, shape.row_end()};
  if (report.ring) out["ring"] = ring_json(*report.ring);
  if (!options.lists.empty()) out["lists"] = lists_json(job, options);
  if (report.backward) {
    out["backward"] = {{"kernel", kernel_json(*report.backward)}, {"time_ms", report.backward->ms}};
    if (report.ring) out["backward"]["ring"] = shares_json(report.ring->backward_shares);
  }
  if (report.check) out["check"] = check_json(report);
  console.print("{}\n", json_text(out));
}

}  // namespace

void print_prepared(const Job& job, const std::vector<Pass>& passes, const Console& console) {
  auto kernels = Json::array();
  for (const auto& pass : passes) {
    kernels.push_back(kernel_json(pass));
    if (!console.json()) console.print("{}: {}\n", job.file.pattern.name, origin_text(pass));
  }
  if (console.json()) console.print("{}\n", json_text({{"pattern", job.file.pattern.name}, {"kernels", kernels}}));
}

void print_report(const Job& job, const RunReport& report, const Options& options, const Console& console) {
  if (console.json()) {
    print_json(job, report, options, console);
  } else {
    print_text(job, report, options, console);
  }
}

}  // namespace weft::tools
