#include "codegen/cpu/emit.h"
#include "dsl/parse.h"
#include "runtime/llvm/compile.h"
#include "runtime/llvm/library.h"
#include "tools/commands/commands.h"
#include "tools/files.h"
#include "tools/json.h"
#include "tools/pattern_file.h"

#include <unistd.h>

namespace weft::tools {

namespace {

bool is_cuda(const std::string& stage) {
  return stage == "cuda" || stage == "ptx" || stage == "cubin" || stage == "sass";
}

/// From a plan to the stages behind it.
Result<std::string> emit_plan(const ir::Plan& plan, const Target& target, const Options& options) {
  if (options.stage == "plan") return ir::print(plan);
  auto source = codegen::cpu::emit(plan, target);
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
  WEFT_TRY(const auto target, find_target(options.target.empty() ? "cpu" : options.target));
  if (target.kind != TargetKind::cpu)
    return environment_error("plans become code for CPU targets only in this version");
  return emit_plan(plan, target, options);
}

Result<std::string> emit_file(const PatternFile& file, const Options& options, const Console& console) {
  if (options.stage == "ast") {
    WEFT_TRY(const auto tree, dsl::parse(file.source));
    return dsl::print(tree);
  }
  if (options.stage == "pattern") return ir::print(file.pattern);
  WEFT_TRY(const auto planned, plan_file(file, options, console));
  return emit_plan(planned.plan, planned.target, options);
}

int deliver(const std::string& bytes, const Options& options, const Console& console) {
  if (!options.output.empty()) {
    const auto written = write_file(options.output, bytes);
    return written ? kDone : console.fail(written.error());
  }
  if (options.stage == "object" && ::isatty(STDOUT_FILENO) != 0) {
    return console.usage("an object is not for a terminal: add -o X.o, or send it elsewhere");
  }
  if (console.json()) {
    if (options.stage == "object") return console.usage("--json holds text: write an object with -o X.o");
    console.print("{}\n",
                  Json{{"stage", options.stage}, {"text", bytes}}.dump(2, ' ', false, Json::error_handler_t::replace));
  } else {
    console.write(bytes);
    if (options.stage != "object" && !bytes.ends_with('\n')) console.write("\n");
  }
  return kDone;
}

}  // namespace

int command_emit(const Options& options, const Console& console) {
  if (options.stage.empty()) return console.usage("--stage is missing: ast, pattern, plan, llvm, asm or object");
  if (is_cuda(options.stage)) {
    return console.fail(
        environment_error("this version has no CUDA backend: its last stages are llvm, asm and object"));
  }
  if (!options.from.empty()) {
    if (options.stage == "ast" || options.stage == "pattern")
      return console.usage("--from starts at the plan: nothing before it can be emitted");
    const auto bytes = emit_from(options);
    return bytes ? deliver(*bytes, options, console) : console.fail(bytes.error());
  }
  const auto [file, status] = open_pattern(options, console);
  if (!file) return status;
  const auto bytes = emit_file(*file, options, console);
  return bytes ? deliver(*bytes, options, console) : console.fail(bytes.error(), &file->source);
}

}  // namespace weft::tools
