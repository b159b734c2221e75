#include "tests/programs/checks.h"
#include "compiler/ir/check.h"

#include "compiler/ir/plan_interpreter.h"
#include "compiler/planner/planner.h"
#include "dsl/parse.h"
#include "dsl/printer.h"
#include "tests/codegen/any_kernel.h"
#include "tests/support/coverage.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace weft::test {
namespace {

const Finding kFine = {};

/// A program as far as it is understood.
struct Problem {
  const Program& program;
  ir::Pattern pattern;
  ir::InputValues inputs;
  Tensors tensors;
  ir::Outcome meant = {};
  double max_abs_v = 0;

  ir::Bind bind() const {
    const auto& s = program.shape;
    return {.d = s.d, .d_v = s.d_v, .dtype = program.dtype, .branch_lse = program.branch_lse};
  }
  /// Plans are walked with any dims; those of kernels may be fewer.
  ir::Bind any_bind() const {
    ir::Bind any = bind();
    any.d = (any.d + 7) / 8 * 8;
    any.d_v = (any.d_v + 7) / 8 * 8;
    return any;
  }
  ir::Bounds bounds(ir::DType dtype) const {
    return ir::error_bounds(pattern, dtype, program.shape.n_k, max_abs_v, meant.max_abs_score, meant.largest_sum);
  }
};

std::string refusal(const Error& error) {
  return error.diagnostics.empty() ? error.message : error.diagnostics.front().code;
}

std::string all_of(const Error& error) {
  std::string out = error.message;
  for (const auto& note : error.notes) out += "\n  " + note;
  return out;
}

// ---------------------------------------------------------------- text

Finding check_text(const Program& program) {
  const Source source{"program.weft", program.text};
  const auto file = dsl::parse(source);
  if (!file.ok()) return {"parse", render(file.error().diagnostics.at(0), source)};
  const std::string once = dsl::format(*file, source);
  const Source formatted{"formatted.weft", once};
  const auto again = dsl::parse(formatted);
  if (!again.ok()) return {"format", "what fmt wrote does not parse:\n" + once};
  if (print_tree(*again, dsl::Places::hidden) != print_tree(*file, dsl::Places::hidden)) {
    return {"format", "fmt changes the tree:\n" + once};
  }
  if (dsl::format(*again, formatted) != once) return {"format", "fmt is not idempotent:\n" + once};
  for (const Diagnostic& d : ir::check(*file, source)) {
    if (d.code.empty() || d.message.empty()) return {"check", "a finding without code or message"};
    if (d.range.end > program.text.size() || d.range.begin > d.range.end) return {"check", d.code + " points outside"};
  }
  return kFine;
}

/// `--stage pattern` is a program that means the same.
Finding check_print(const Problem& p) {
  const std::string text = ir::print(p.pattern);
  Program twin{.text = text, .pattern = p.program.pattern};
  const auto again = lowered(twin);
  if (!again.ok()) return {"print", fmt::format("the printed pattern is refused: {}\n{}", again.error().message, text)};
  if (!same(p.pattern, *again)) return {"print", "the printed pattern is another one:\n" + text};
  return kFine;
}

// ---------------------------------------------------------------- values

/// Infinite values must be the same; NaN never is.
std::string difference(const char* what, const ir::Tensor& found, const ir::Tensor& meant, double bound) {
  if (found.shape != meant.shape) return fmt::format("{} has another shape", what);
  for (std::size_t i = 0; i < meant.data.size(); ++i) {
    const double a = found.data[i], b = meant.data[i];
    if (a == b || (std::isfinite(b) && std::fabs(a - b) <= bound)) continue;
    return fmt::format("{}[{}] is {}, meant {}: off by {}, bound {}", what, i, a, b, std::fabs(a - b), bound);
  }
  return "";
}

std::string difference(const ir::Outcome& found, const ir::Outcome& meant, const ir::Bounds& bounds) {
  if (auto d = difference("O", found.o, meant.o, bounds.o); !d.empty()) return d;
  if (!found.lse.data.empty()) {
    if (auto d = difference("LSE", found.lse, meant.lse, bounds.lse); !d.empty()) return d;
  }
  if (found.branch_lse.data.empty()) return "";
  return difference("branch LSE", found.branch_lse, meant.branch_lse, bounds.lse);
}

Finding interpret(Problem& p) {
  const auto& t = p.tensors;
  auto meant = ir::interpret(p.pattern, p.program.shape, t.q, t.k, t.v, p.inputs);
  if (!meant.ok()) return {"interpret", meant.error().message};
  p.meant = std::move(*meant);
  const auto is_nan = [](double x) { return std::isnan(x); };
  if (std::any_of(p.meant.o.data.begin(), p.meant.o.data.end(), is_nan)) return {"interpret", "NaN in O"};
  if (std::any_of(p.meant.lse.data.begin(), p.meant.lse.data.end(), is_nan)) return {"interpret", "NaN in LSE"};
  for (const double v : t.v.data) p.max_abs_v = std::max(p.max_abs_v, std::fabs(v));
  return kFine;
}

/// Does q in f32 already decide otherwise than q in f64? A jump of the score at a value that q k comes close to.
bool unstable(const Problem& p) {
  ir::Tensor q = p.tensors.q;
  for (auto& value : q.data) value *= 1 + 3e-7;
  const auto moved = ir::interpret(p.pattern, p.program.shape, q, p.tensors.k, p.tensors.v, p.inputs);
  const ir::Bounds bounds = p.bounds(ir::DType::f32);
  return !moved.ok() || !difference(*moved, p.meant, {bounds.o / 2, bounds.lse / 2}).empty();
}

// ---------------------------------------------------------------- plans and kernels

Finding check_plan(const Problem& p, const ir::Plan& plan) {
  if (const auto wrong = ir::verify(plan); !wrong.empty()) return {"plan", wrong.front()};
  const std::string text = ir::print(plan);
  const auto again = ir::parse_plan(text);
  if (!again.ok()) return {"text", "the plan's text does not parse: " + again.error().message};
  if (ir::print(*again) != text) return {"text", "the plan's text changes when it is printed again"};
  Coverage coverage(p.pattern, p.program.shape);
  if (auto wrong = coverage.add(plan, p.inputs, &p.tensors.q, &p.tensors.k); !wrong.empty()) return {"pairs", wrong};
  auto wrong = coverage.difference(p.pattern, p.inputs, &p.tensors.q, &p.tensors.k);
  if (!wrong.empty()) return {"pairs", wrong};
  const auto& t = p.tensors;
  ir::Plan exact = plan;
  exact.bind = p.bind();  // which the scale is made from
  if (!ir::verify(exact).empty()) return kFine;
  const auto found = ir::interpret_plan(exact, p.program.shape, t.q, t.k, t.v, p.inputs);
  if (!found.ok()) return {"values", found.error().message};
  wrong = difference(*found, p.meant, p.bounds(ir::DType::f32));
  return wrong.empty() ? kFine : Finding{"values", wrong};
}

/// Layouts and cuts of the work vary with the seed.
testing::RunOptions options_of(std::uint64_t seed) {
  return {.layout = {.head_major = seed % 2 == 0, .row_gap = static_cast<std::int64_t>(seed % 3)},
          .tiles_per_call = static_cast<std::int64_t>(seed % 4)};
}

Finding check_kernel(const Problem& p, const ir::Pattern& planned, const Target& target, Reached& reached) {
  const auto kernel = testing::AnyKernel::make(planned, p.bind(), target);
  if (!kernel.ok()) {
    if (kernel.error().diagnostics.empty()) return {target.name, all_of(kernel.error())};
    ++reached.codes[refusal(kernel.error())];
    return kFine;
  }
  const auto& t = p.tensors;
  const auto found = kernel->run(p.program.shape, t.q, t.k, t.v, p.inputs, options_of(p.program.seed));
  if (!found.ok()) return {target.name, all_of(found.error())};
  ++reached.kernels[target.name];
  const auto wrong = difference(*found, p.meant, p.bounds(p.program.dtype));
  return wrong.empty() ? kFine : Finding{target.name, wrong};
}

Finding check_elsewhere(const Problem& p, const ir::Pattern& planned, const Elsewhere& elsewhere, Reached& reached) {
  const auto bind = p.bind();
  const auto options = options_of(p.program.seed);
  const auto found = elsewhere.run({planned, bind, p.program.shape, p.tensors, p.inputs, options});
  if (!found.ok() && !found.error().diagnostics.empty()) {
    ++reached.codes[refusal(found.error())];
    return kFine;
  }
  if (!found.ok()) return {elsewhere.name, all_of(found.error())};
  ++reached.kernels[elsewhere.name];
  const auto wrong = difference(*found, p.meant, p.bounds(p.program.dtype));
  return wrong.empty() ? kFine : Finding{elsewhere.name, wrong};
}

/// Multiplications that the emulator does in a second or so.
constexpr double kMostEmulated = 3e6;

double work_of(const ir::Shape& s) {
  return static_cast<double>(s.batch * s.heads * s.n_q) * static_cast<double>(s.n_k * (s.d + s.d_v));
}

Finding check_backends(const Problem& p, const Checks& checks, Reached& reached) {
  const ir::Pattern planned = checks.twist ? checks.twist(p.pattern) : p.pattern;
  const auto plan = planner::plan(planned, p.any_bind(), host_target(), {.for_kernels = false});
  if (!plan.ok()) {
    if (plan.error().diagnostics.empty()) return {"plan", all_of(plan.error())};
    ++reached.codes[refusal(plan.error())];
    return kFine;
  }
  ++reached.planned;
  if (const Finding f = check_plan(p, *plan); !f.ok()) return f;
  if (checks.targets.empty() && !checks.elsewhere.run) return kFine;
  if (unstable(p)) {
    ++reached.unstable;
    return kFine;
  }
  for (const auto& name : checks.targets) {
    const Target target = find_target(name).value();
    if (target.kind == TargetKind::cuda && work_of(p.program.shape) > kMostEmulated) continue;
    if (const Finding f = check_kernel(p, planned, target, reached); !f.ok()) return f;
  }
  return checks.elsewhere.run ? check_elsewhere(p, planned, checks.elsewhere, reached) : kFine;
}

}  // namespace

Finding examine(const Program& program, const Checks& checks, Reached& reached) {
  ++reached.programs;
  if (const Finding f = check_text(program); !f.ok()) return f;
  auto pattern = lowered(program);
  if (!pattern.ok()) {
    if (pattern.error().kind != ErrorKind::user) return {"lower", pattern.error().message};
    ++reached.refused;
    ++reached.codes[refusal(pattern.error())];
    return kFine;
  }
  Problem p{program, std::move(*pattern), {}, draw_tensors(program.shape, program.dtype, program.seed)};
  p.inputs = draw_inputs(p.pattern, program.shape, program.seed);
  if (const Finding f = check_print(p); !f.ok()) return f;
  if (const auto fits = ir::check_shapes(p.pattern, program.shape, p.inputs); !fits.ok()) {
    ++reached.refused;
    ++reached.codes["shapes"];
    return kFine;
  }
  if (const Finding f = interpret(p); !f.ok()) return f;
  ++reached.interpreted;
  return check_backends(p, checks, reached);
}

}  // namespace weft::test
