#include "runtime/nvrtc/compile.h"

#include "compiler/base/fork_safe.h"
#include "runtime/nvrtc/defect.h"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <mutex>

namespace weft::nvrtc {
namespace {

/// What NVRTC measured for straight-line code (Options::largest_text).
constexpr double kBytesOfOneSecond = 18'000;

/// From here on NVRTC keeps what it compiled where there is a driver. What comes from there has no log: registers and
/// spills would be unknown, the time that compiling takes as well, and a second cache would stand behind ours.
constexpr Version kFirstWithCache{12, 9};

/// No fast-math: the emitter spells approximate operations where it wants them. No line info: it holds names of
/// places. Verbose: registers and spills come in the log.
std::vector<std::string> arguments(const Options& options) {
  return {"--std=c++17", "-default-device", fmt::format("--fmad={}", options.contract), "--ptxas-options=--verbose"};
}

std::string subject(const Target& target, const Options& options) {
  return fmt::format("{} for {}", options.pattern.empty() ? "a kernel" : "pattern '" + options.pattern + "'",
                     target.name);
}

/// Bounds and impossible requests, before anything expensive begins.
Status check(const Library& library, const std::string& text, const Target& target, const Options& options) {
  if (target.kind != TargetKind::cuda) return internal_error(target.name + " is not a target of NVRTC's");
  if (!library.knows(target)) {
    return environment_error(fmt::format("{} ({}) does not know {}: it knows {}", library.path(),
                                         library.version().text(), target.name, library.architectures_text()));
  }
  if (text.size() > options.largest_text) {
    const double share = static_cast<double>(text.size()) / kBytesOfOneSecond;
    return internal_error(
        fmt::format("the text of {} has {} bytes, more than the {} that are compiled: NVRTC would take up to {:.0f} s",
                    subject(target, options), text.size(), options.largest_text, share * share));
  }
  if (text.find('\0') != std::string::npos) {
    return internal_error(fmt::format("the text of {} holds a NUL", subject(target, options)));
  }
  return done;
}

/// What goes on in NVRTC. Never destroyed: threads may compile while the process ends.
struct Uses {
  ForkSafe<> mutex;
  unsigned long generation = fork_generation();
  int running = 0;
  bool stuck = false;
};
Uses& uses = *new Uses;

/// A use of NVRTC in this process. There is none where the process was forked while another thread was compiling: NVRTC
/// holds locks meanwhile, and that thread does not exist here to let go of them.
class InProcess {
 public:
  InProcess() {
    const std::lock_guard lock(uses.mutex);
    if (uses.generation != fork_generation()) {
      uses.stuck = uses.stuck || uses.running > 0;
      uses.running = 0;
      uses.generation = fork_generation();
    }
    possible_ = !uses.stuck;
    ++uses.running;
  }
  ~InProcess() {
    const std::lock_guard lock(uses.mutex);
    --uses.running;
  }
  InProcess(const InProcess&) = delete;
  InProcess& operator=(const InProcess&) = delete;
  explicit operator bool() const { return possible_; }

 private:
  bool possible_ = false;
};

Result<Outcome> run(const Library& library, const std::string& text, const Target& target, const Options& options,
                    Stage stage) {
  WEFT_CHECK(check(library, text, target, options));
  std::vector<std::string> list = arguments(options);
  // The assembler is asked for a real architecture only: then a text without a cubin still has its PTX.
  const std::string architecture =
      stage == Stage::ptx ? fmt::format("compute_{}", target.architecture.substr(target.architecture.find('_') + 1))
                          : target.architecture;
  list.push_back("--gpu-architecture=" + architecture);
  if (library.version() >= kFirstWithCache) list.push_back("--no-cache");
  if (!options.limits.any()) {
    if (const InProcess here; here) return invoke(library.functions(), text, list, stage);
  }
  return invoke_in_worker(library, text, list, stage, options.limits);
}

/// run(), with what NVRTC refused as errors that say which kernel it was and where its text is.
Result<Outcome> run_checked(const Library& library, const std::string& text, const Target& target,
                            const Options& options, Stage stage) {
  auto outcome = run(library, text, target, options, stage);
  if (!outcome.ok()) {
    Error error = std::move(outcome).error();
    if (options.limits.any() && error.kind == ErrorKind::environment) {
      error.message = fmt::format("compiling {}: {}", subject(target, options), error.message);
      error.notes.push_back(keep_defect(text, error.message));
    }
    return error;
  }
  if (outcome->status == kSuccess) return outcome;
  const bool memory = says_out_of_memory(*outcome);
  const std::string complaint = first_complaint(outcome->log);
  Error error{.kind = memory ? ErrorKind::environment : ErrorKind::internal,
              .message = fmt::format("NVRTC {} {} the text of {}: {}", library.version().text(),
                                     memory ? "has no memory for" : "rejects", subject(target, options),
                                     complaint.empty() ? outcome->status_text : complaint)};
  error.notes.push_back(keep_defect(text, outcome->log));
  return error;
}

/// NVIDIA's machine number in ELF headers.
constexpr std::uint16_t kMachineCuda = 190;

bool is_cubin(const std::string& bytes) {
  Elf64_Ehdr header;
  if (bytes.size() < sizeof header) return false;
  std::memcpy(&header, bytes.data(), sizeof header);
  return std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_machine == kMachineCuda;
}

}  // namespace

std::string Options::text() const {
  std::string out;
  for (const std::string& argument : arguments(*this)) out += (out.empty() ? "" : " ") + argument;
  return out;
}

int Binary::registers() const {
  int most = 0;
  for (const KernelUse& kernel : kernels) most = std::max(most, kernel.registers);
  return most;
}

int Binary::spill_bytes() const {
  int sum = 0;
  for (const KernelUse& kernel : kernels) sum += kernel.spill_bytes;
  return sum;
}

int Binary::shared_bytes() const {
  int most = 0;
  for (const KernelUse& kernel : kernels) most = std::max(most, kernel.shared_bytes);
  return most;
}

Result<Binary> compile(const Library& library, const std::string& text, const Target& target, const Options& options) {
  if (target.is_ptx) {
    WEFT_TRY(std::string assembly, ptx(library, text, target, options));
    return Binary{.cubin = std::move(assembly), .log = {}, .kernels = {}};
  }
  WEFT_TRY(Outcome outcome, run_checked(library, text, target, options, Stage::cubin));
  if (!is_cubin(outcome.output)) {
    return internal_error(
        fmt::format("NVRTC {} gave no cubin for {}", library.version().text(), subject(target, options)));
  }
  Binary out;
  out.cubin = std::move(outcome.output);
  out.kernels = read_ptxas_log(outcome.log);
  out.log = std::move(outcome.log);
  return out;
}

Result<std::string> ptx(const Library& library, const std::string& text, const Target& target, const Options& options) {
  WEFT_TRY(Outcome outcome, run_checked(library, text, target, options, Stage::ptx));
  return std::move(outcome.output);
}

}  // namespace weft::nvrtc
