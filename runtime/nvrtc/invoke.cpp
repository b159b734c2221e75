#include "runtime/nvrtc/invoke.h"

#include "runtime/nvrtc/kept_signals.h"

#include <sstream>

namespace weft::nvrtc {
namespace {

/// What NVRTC's messages call the file. It enters the bytes: the same for every kernel.
constexpr const char* kFileName = "weft_kernel.cu";

class Owner {
 public:
  Owner(const Functions& nvrtc, const std::string& text) : nvrtc_(nvrtc) {
    status_ = nvrtc.CreateProgram(&program_, text.c_str(), kFileName, 0, nullptr, nullptr);
  }
  ~Owner() {
    if (status_ == kSuccess) nvrtc_.DestroyProgram(&program_);
  }
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;

  int status() const { return status_; }
  Program* program() const { return program_; }

 private:
  const Functions& nvrtc_;
  Program* program_ = nullptr;
  int status_;
};

/// NVRTC's pairs of functions: one gives the size of a result, the other the result.
int read(Program* program, int (*size_of)(Program*, std::size_t*), int (*read_into)(Program*, char*),
         std::string& out) {
  std::size_t size = 0;
  if (const int status = size_of(program, &size); status != kSuccess) return status;
  out.assign(size, '\0');
  return size == 0 ? kSuccess : read_into(program, out.data());
}

/// Texts come with the NUL that ends them.
void end_at_nul(std::string& text) { text.resize(text.find_last_not_of('\0') + 1); }

int compile(const Functions& nvrtc, Program* program, const std::vector<std::string>& arguments, Stage stage,
            Outcome& out) {
  std::vector<const char*> raw;
  for (const std::string& argument : arguments) raw.push_back(argument.c_str());
  const int compiled = [&] {
    const KeptSignals kept(reinterpret_cast<const void*>(nvrtc.CompileProgram));
    return nvrtc.CompileProgram(program, static_cast<int>(raw.size()), raw.data());
  }();
  const int logged = read(program, nvrtc.GetProgramLogSize, nvrtc.GetProgramLog, out.log);
  end_at_nul(out.log);
  if (compiled != kSuccess) return compiled;
  if (logged != kSuccess) return logged;
  if (stage == Stage::cubin) return read(program, nvrtc.GetCUBINSize, nvrtc.GetCUBIN, out.output);
  const int status = read(program, nvrtc.GetPTXSize, nvrtc.GetPTX, out.output);
  end_at_nul(out.output);
  return status;
}

}  // namespace

std::string first_complaint(const std::string& log) {
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    if (line.find("error") != std::string::npos || line.find("fatal") != std::string::npos) return line;
  }
  return {};
}

bool says_out_of_memory(const Outcome& outcome) {
  if (outcome.status == kSuccess) return false;
  const std::string complaint = first_complaint(outcome.log);
  return outcome.status == kOutOfMemory || complaint.find("out of memory") != std::string::npos ||
         complaint.find("Memory allocation failure") != std::string::npos;
}

Outcome invoke(const Functions& nvrtc, const std::string& text, const std::vector<std::string>& arguments,
               Stage stage) {
  Outcome out;
  const Owner owner(nvrtc, text);
  out.status = owner.status();
  if (out.status == kSuccess) out.status = compile(nvrtc, owner.program(), arguments, stage, out);
  if (out.status != kSuccess) {
    out.output.clear();
    const char* word = nvrtc.GetErrorString(out.status);
    out.status_text = word == nullptr ? "unknown status" : word;
  }
  return out;
}

}  // namespace weft::nvrtc
