#include "runtime/llvm/compile.h"

#include "compiler/base/fork_safe.h"
#include "compiler/base/parallel.h"
#include "runtime/llvm/guard.h"
#include "runtime/llvm/part_store.h"
#include "runtime/llvm/parts.h"
#include "runtime/object/join.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>

namespace weft::llvm {
namespace {

constexpr char kTriple[] = "x86_64-unknown-linux-gnu";
constexpr char kBufferName[] = "kernel";  // enters the object's symbol table: the same for every kernel

/// One compilation. Its steps run under guarded(), hence raw handles; they say in `error` why one failed.
class Job {
 public:
  Job(const Functions& llvm, std::string_view ir_text, const Target& target, const Options& options, int file_type)
      : llvm_(llvm), ir_text_(ir_text), target_(target), options_(options), file_type_(file_type) {}
  ~Job() {
    if (abandoned_) return;
    if (output_ != nullptr) llvm_.DisposeMemoryBuffer(output_);
    if (machine_ != nullptr) llvm_.DisposeTargetMachine(machine_);
    if (module_ != nullptr) llvm_.DisposeModule(module_);
    if (context_ != nullptr) llvm_.ContextDispose(context_);
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  Result<std::string> run() {
    std::string fatal;
    abandoned_ = !guarded([](void* self) { static_cast<Job*>(self)->work(); }, this, fatal);
    if (abandoned_) return failure("gave up", fatal);
    if (output_ == nullptr) return failure(failed_step_, message_);
    // Some errors, such as a bad constraint of inline assembly, reach the handler and still give a buffer.
    if (!message_.empty()) return failure("reported an error", message_);
    return std::string(llvm_.GetBufferStart(output_), llvm_.GetBufferSize(output_));
  }

 private:
  void work() {
    context_ = llvm_.ContextCreate();
    llvm_.ContextSetDiagnosticHandler(context_, on_diagnostic, this);
    parse() && make_machine() && verify() && run_passes() && emit();
  }

  static void on_diagnostic(DiagnosticInfo* info, void* data) {
    auto& job = *static_cast<Job*>(data);
    if (job.llvm_.GetDiagInfoSeverity(info) != kSeverityError) return;
    job.take(job.llvm_.GetDiagInfoDescription(info));
  }

  void take(char* message) {
    if (message == nullptr) return;
    if (!message_.empty()) message_ += '\n';
    message_ += message;
    llvm_.DisposeMessage(message);
  }

  bool fail(const char* step, char* message) {
    failed_step_ = step;
    take(message);
    return false;
  }

  bool parse() {
    MemoryBuffer* buffer = llvm_.CreateMemoryBufferWithMemoryRangeCopy(ir_text_.data(), ir_text_.size(), kBufferName);
    char* message = nullptr;
    if (llvm_.ParseIRInContext(context_, buffer, &module_, &message) == 0) return true;
    module_ = nullptr;
    return fail("cannot parse the IR", message);
  }

  bool make_machine() {
    TargetInfo* info = nullptr;
    char* message = nullptr;
    if (llvm_.GetTargetFromTriple(kTriple, &info, &message) != 0) return fail("does not know x86-64", message);
    machine_ = llvm_.CreateTargetMachine(info, kTriple, target_.llvm_cpu.c_str(), target_.llvm_features.c_str(),
                                         options_.level, kRelocPic, kCodeModelSmall);
    if (machine_ == nullptr) return fail("has no such target machine", nullptr);
    TargetData* layout = llvm_.CreateTargetDataLayout(machine_);
    llvm_.SetTarget(module_, kTriple);
    llvm_.SetModuleDataLayout(module_, layout);
    llvm_.DisposeTargetData(layout);
    return true;
  }

  bool verify() {
    if (!options_.verify) return true;
    char* message = nullptr;
    const bool valid = llvm_.VerifyModule(module_, kReturnStatus, &message) == 0;
    if (!valid) return fail("rejects the IR", message);
    llvm_.DisposeMessage(message);
    return true;
  }

  bool run_passes() {
    if (options_.passes.empty()) return true;
    PassBuilderOptions* settings = llvm_.CreatePassBuilderOptions();
    ErrorValue* error = llvm_.RunPasses(module_, options_.passes.c_str(), machine_, settings);
    llvm_.DisposePassBuilderOptions(settings);
    if (error == nullptr) return true;
    char* message = llvm_.GetErrorMessage(error);
    message_ = message;
    llvm_.DisposeErrorMessage(message);
    return fail("cannot run the passes", nullptr);
  }

  bool emit() {
    char* message = nullptr;
    if (llvm_.TargetMachineEmitToMemoryBuffer(machine_, module_, file_type_, &message, &output_) == 0) return true;
    output_ = nullptr;
    return fail("cannot generate code", message);
  }

  Error failure(const char* step, const std::string& message) const {
    return internal_error(fmt::format("LLVM {} for {}: {}", step, target_.name, message));
  }

  const Functions& llvm_;
  std::string_view ir_text_;
  const Target& target_;
  const Options& options_;
  int file_type_;

  Context* context_ = nullptr;
  Module* module_ = nullptr;
  TargetMachine* machine_ = nullptr;
  MemoryBuffer* output_ = nullptr;
  bool abandoned_ = false;  ///< LLVM gave up half-way: its objects are in no state to be disposed of
  const char* failed_step_ = "";
  std::string message_;
};

/// LLVM makes tables of itself when they are first used, and has locks: a child that was forked meanwhile would wait
/// for ever for a thread that does not exist in it. Never destroyed: threads may compile while the process ends. Made
/// when the library is loaded: a child would wait as long for who was making it at its first use.
EndsBeforeForks& uses_of_llvm = *new EndsBeforeForks;

Result<std::string> run(const Library& library, std::string_view ir_text, const Target& target, const Options& options,
                        int file_type) {
  if (target.kind != TargetKind::cpu) return internal_error(target.name + " is not a target of LLVM's");
  if (options.level < 0 || options.level > 3) {
    return internal_error(fmt::format("{} is not a level of code generation", options.level));
  }
  const std::lock_guard lock(uses_of_llvm);
  return Job(library.functions(), ir_text, target, options, file_type).run();
}

/// The parts that this process has compiled, those of some twenty kernels. Never destroyed, and made with the library,
/// for the same reasons.
PartStore& part_store = *new PartStore(8U << 20);

std::atomic<std::size_t> parts_compiled{0}, parts_reused{0};

}  // namespace

std::string Options::text() const {
  return fmt::format("level={} passes={} parts={}", level, passes, in_parts ? "sections" : "one");
}

Result<std::string> compile(const Library& library, std::string_view ir_text, const Target& target,
                            const Options& options) {
  const auto parts = options.in_parts ? split(ir_text) : std::vector{std::string(ir_text)};
  if (parts.size() == 1) return run(library, ir_text, target, options, kObjectFile);
  const auto made_of =
      fmt::format("{}\n{}\n{}\n{}\n", library.path(), target.llvm_cpu, target.llvm_features, options.text());
  std::vector<std::string> objects(parts.size());
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!options.reuse || !part_store.find(made_of + parts[i], objects[i])) missing.push_back(i);
  }
  // The longest first, so that none is left for the end.
  std::stable_sort(missing.begin(), missing.end(), [&](auto a, auto b) { return parts[a].size() > parts[b].size(); });
  std::vector<Status> results(parts.size(), done);
  in_parallel(missing.size(), core_count(), [&](std::size_t next) {
    const std::size_t i = missing[next];
    auto object = run(library, parts[i], target, options, kObjectFile);
    if (!object) {
      results[i] = object.error();
      return false;
    }
    objects[i] = std::move(*object);
    return true;
  });
  for (const Status& result : results) WEFT_CHECK(result);
  for (const std::size_t i : missing) part_store.keep(made_of + parts[i], objects[i]);
  parts_compiled += missing.size();
  parts_reused += parts.size() - missing.size();
  return object::join(objects, "the kernel");
}

PartCounts part_counts() { return {.compiled = parts_compiled, .reused = parts_reused}; }

Result<std::string> assembly(const Library& library, std::string_view ir_text, const Target& target,
                             const Options& options) {
  return run(library, ir_text, target, options, kAssemblyFile);
}

}  // namespace weft::llvm
