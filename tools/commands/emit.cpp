#include "codegen/cpu/emit.h"
#include "codegen/cuda/emit.h"
#include "codegen/cuda/readable.h"
#include "compiler/ir/check.h"
#include "dsl/parse.h"
#include "runtime/engine/compilers.h"
#include "runtime/engine/destination.h"
#include "runtime/llvm/compile.h"
#include "runtime/llvm/library.h"
#include "runtime/nvrtc/compile.h"
#include "runtime/nvrtc/disassemble.h"
#include "runtime/nvrtc/search.h"
#include "tools/commands/commands.h"
#include "tools/files.h"
#include "tools/json.h"
#include "tools/pattern_file.h"
#include "tools/progress.h"

#include <unistd.h>

namespace weft::tools {

namespace {

bool is_cuda(const std::string& stage) {
  return stage == "cuda" || stage == "ptx" || stage == "cubin" || stage == "sass";
}
bool is_cpu(const std::string& stage) { return stage == "llvm" || stage == "asm" || stage == "object"; }
bool is_bytes(const std::string& stage) { return stage == "object" || stage == "cubin"; }

/// The stages of a GPU need a GPU's target: that of this machine's, else the one everybody can read about.
std::string default_target(const std::string& stage) {
  if (!is_cuda(stage)) return "cpu";
  return has_usable_gpu() ? "cuda" : "sm_61";
}

Status fits(const std::string& stage, const Target& target) {
  if (is_cuda(stage) && target.kind != TargetKind::cuda) {
    return user_error(fmt::format("{} has no stage {}; its stages are plan, llvm, asm, object", target.name, stage));
  }
  if (target.is_ptx && (stage == "cubin" || stage == "sass")) {
    return user_error(
        fmt::format("{} has no stage {}: a driver makes it when the kernel is loaded; its stages are plan, cuda, ptx",
                    target.name, stage));
  }
  if (is_cpu(stage) && target.kind != TargetKind::cpu) {
    return user_error(
        fmt::format("{} has no stage {}; its stages are plan, cuda, ptx, cubin, sass", target.name, stage));
  }
  return done;
}

/// The pattern as its author wrote it, and the sets of its branches.
struct Quoted {
  std::string_view text = {};
  std::vector<std::string> branches = {};
};

Result<std::string> emit_cuda(const ir::Plan& plan, const Target& target, ir::Regime regime, const Options& options,
                              const Quoted& quoted) {
  auto source = codegen::cuda::emit(plan, target, regime);
  if (options.stage == "cuda" && options.whole) return std::move(source.text);
  if (options.stage == "cuda")
    return codegen::cuda::readable(source, ir::plan_of(plan, regime), quoted.text, quoted.branches);
  WEFT_TRY(const auto library, nvrtc::locate(target, options.nvrtc));
  const auto told = nvrtc_options(engine_options(options), plan.name);
  if (options.stage == "ptx") return nvrtc::ptx(*library, source.text, target, told);
  WEFT_TRY(auto binary, nvrtc::compile(*library, source.text, target, told));
  if (options.stage == "cubin") return std::move(binary.cubin);
  return nvrtc::disassemble(binary.cubin, target);
}

/// From a plan to the stages behind it; the CUDA text quotes the pattern.
Result<std::string> emit_plan(const ir::Plan& plan, const Target& target, const Options& options,
                              const Quoted& quoted = {}) {
  if (options.stage == "plan") return ir::print(plan);
  WEFT_CHECK(fits(options.stage, target));
  if (options.transposed && !plan.transposed)
    return user_error("--transposed: it is of gradients on GPUs; with them there is a pass of dK and dV");
  if (options.few && !ir::has_few_queries(plan)) {
    const auto where = plan.bind.gradient ? "forward passes alone have"
                                          : fmt::format("only where head dims are multiples of {}", plan.choices.sub_q);
    return user_error(fmt::format("--few: {} has no text of its own for few queries, {}", plan.name, where));
  }
  if (options.decoding && !plan.decoding) {
    return user_error(
        fmt::format("--decoding: {} has no text of its own for it: those of matrix instructions have, forward, without "
                    "lists, dropout, phases or classes of rows",
                    plan.name));
  }
  const auto regime = options.decoding ? ir::Regime::decoding
                      : options.few    ? ir::Regime::few_queries
                                       : ir::Regime::many_queries;
  if (is_cuda(options.stage))
    return emit_cuda(options.transposed ? *plan.transposed : plan, target, regime, options, quoted);
  auto source = codegen::cpu::emit(plan, target, regime);
  if (options.stage == "llvm") return std::move(source.text);
  WEFT_TRY(const auto library, llvm::Library::open(options.llvm));
  if (options.stage == "asm") return llvm::assembly(*library, source.text, target);
  return llvm::compile(*library, source.text, target);
}

Result<std::string> emit_from(const Options& options) {
  WEFT_TRY(const auto text, read_text(options.from));
  WEFT_TRY(const auto plan, ir::parse_plan(text));
  if (const auto wrong = ir::verify(plan); !wrong.empty()) {
    auto error = user_error(fmt::format("{}: the plan is not sound: {}", options.from, wrong.front()));
    error.notes.assign(wrong.begin() + 1, wrong.end());
    return error;
  }
  WEFT_TRY(const auto destination, find_destination(options.target));
  const bool for_cpu = plan.choices.kernel_class == ir::KernelClass::vector;
  if (options.stage != "plan" && for_cpu != (destination.target.kind == TargetKind::cpu)) {
    return user_error(fmt::format("{}: the plan was made for {}, which {} does not run", options.from, plan.target,
                                  destination.target.name));
  }
  if (options.stage != "plan" && plan.choices.products > 1 && !destination.target.has_bf16_dot()) {
    return user_error(fmt::format("{}: the plan multiplies pairs of bf16, for which {} has no instruction",
                                  options.from, destination.target.name));
  }
  return emit_plan(plan, destination.target, options);
}

Quoted quote(const PatternFile& file, const dsl::File& tree) {
  Quoted out;
  if (const auto* def = tree.find(file.pattern.name); def != nullptr) {
    out.text = std::string_view(file.source.text).substr(def->range.begin, def->range.end - def->range.begin);
  }
  std::vector<std::string> inputs;
  for (const auto& input : file.pattern.inputs) inputs.push_back(input.name);
  for (const auto& branch : file.pattern.branches) out.branches.push_back(ir::print(*branch.set, inputs));
  return out;
}

Result<std::string> emit_file(const PatternFile& file, const Options& options, const Console& console) {
  WEFT_TRY(const auto tree, dsl::parse(file.source, ir::examine));
  if (options.stage == "ast") return dsl::print(tree);
  if (options.stage == "pattern") return ir::print(file.pattern);
  WEFT_TRY(const auto planned, plan_file(file, options, console));
  return emit_plan(planned.plan, planned.target, options, quote(file, tree));
}

int deliver(const std::string& bytes, const Options& options, const Console& console) {
  if (!options.output.empty()) {
    const auto written = write_file(options.output, bytes);
    return written ? kDone : console.fail(written.error());
  }
  if (is_bytes(options.stage) && ::isatty(STDOUT_FILENO) != 0) {
    return console.usage("stage " + options.stage + " is not for a terminal: add -o FILE, or send it elsewhere");
  }
  if (console.json()) {
    if (is_bytes(options.stage))
      return console.usage("--json holds text: write stage " + options.stage + " with -o FILE");
    console.print("{}\n", json_text(Json{{"stage", options.stage}, {"text", bytes}}));
  } else {
    console.write(bytes);
    if (!is_bytes(options.stage) && !bytes.ends_with('\n')) console.write("\n");
  }
  return kDone;
}

}  // namespace

int command_emit(const Options& given, const Console& console) {
  if (given.whole && given.stage != "cuda") return console.usage("--whole goes with --stage cuda");
  if (given.few && !is_cpu(given.stage) && !is_cuda(given.stage) && !given.stage.empty())
    return console.usage("--few goes with the stages behind the plan: llvm, asm, object, cuda, ptx, cubin or sass");
  if (given.decoding && !is_cuda(given.stage) && !given.stage.empty())
    return console.usage("--decoding goes with --stage cuda, ptx, cubin or sass");
  if (int{given.decoding} + int{given.few} + int{given.transposed} > 1)
    return console.usage("--decoding, --few and --transposed are texts of their own: give one");
  if (given.transposed && !is_cuda(given.stage) && !given.stage.empty())
    return console.usage("--transposed goes with --stage cuda, ptx, cubin or sass");
  if (given.stage.empty()) {
    return console.usage("--stage is missing: ast, pattern, plan, llvm, asm, object, cuda, ptx, cubin or sass");
  }
  if (given.gradient && (given.stage == "ast" || given.stage == "pattern"))
    return console.usage("--grad starts at the plan: before it both passes are the same text");
  if (given.gradient && !given.from.empty())
    return console.usage("--grad does not go with --from: the plan says which pass it is of");
  Options options = given;
  if (options.target.empty()) options.target = default_target(options.stage);
  if (!options.from.empty()) {
    if (options.stage == "ast" || options.stage == "pattern")
      return console.usage("--from starts at the plan: nothing before it can be emitted");
    const auto bytes = [&] {
      const Progress progress(console, "compiling " + options.from);
      return emit_from(options);
    }();
    return bytes ? deliver(*bytes, options, console) : console.fail(bytes.error());
  }
  const auto [file, status] = open_pattern(options, console);
  if (!file) return status;
  const auto bytes = [&] {
    const Progress progress(console, fmt::format("compiling {} for {}", file->pattern.name, options.target));
    return emit_file(*file, options, console);
  }();
  return bytes ? deliver(*bytes, options, console) : console.fail(bytes.error(), &file->source);
}

}  // namespace weft::tools
