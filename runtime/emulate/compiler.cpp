#include "runtime/emulate/compiler.h"

#include "compiler/base/digest.h"
#include "compiler/base/fork_safe.h"
#include "runtime/emulate/embedded.h"
#include "runtime/emulate/process.h"
#include "runtime/emulate/scratch.h"

#include <fmt/format.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

namespace weft::emulate {
namespace {

Result<std::string> locate(const std::string& option) {
  const char* variable = std::getenv("WEFT_CXX");
  const std::string wanted = !option.empty() ? option : variable != nullptr ? variable : "";
  if (!wanted.empty()) {
    if (std::string path = find_program(wanted); !path.empty()) return path;
    Error error = environment_error(fmt::format("there is no C++ compiler `{}`", wanted));
    error.notes = {"WEFT_CXX names the compiler that emulation uses; without it, g++ or clang++ on PATH"};
    return error;
  }
  for (const char* name : {"g++", "clang++"}) {
    if (std::string path = find_program(name); !path.empty()) return path;
  }
  Error error = environment_error("emulation compiles the CUDA text with a C++ compiler, and none is on PATH");
  error.notes = {"install one: apt-get install g++", "or set WEFT_CXX to one"};
  return error;
}

Result<Compiler> examine(const std::string& path) {
  Compiler out{.path = path};
  WEFT_TRY(const ScratchFolder scratch, ScratchFolder::make());
  WEFT_TRY(const Finished said, run({path, "--version"}, scratch.file("log")));
  if (said.status != 0) return environment_error(fmt::format("{} --version fails: {}", path, said.output));
  out.version = said.output.substr(0, said.output.find('\n'));
  out.clang = said.output.find("clang") != std::string::npos;
  return out;
}

/// Arithmetic as written: contraction and vectors of the host would differ from machine to machine.
std::vector<std::string> flags(const Compiler& compiler, const Request& request) {
  std::vector<std::string> out = {"-x", "c++", "-std=c++17",
                                  // Compiling costs more than running: of g++ a third less than -O1, for a fifth more.
                                  "-Og", "-finline-small-functions",
                                  "-g1",  // costs nothing, and tells which inlined call a fault is in
                                  "-w", "-fPIC", "-shared", "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti",
                                  "-fno-strict-aliasing", "-fno-optimize-sibling-calls", "-ffp-contract=off"};
  if (!compiler.clang) out.insert(out.end(), {"-finline-functions-called-once", "-ftree-sra"});
#if defined(__x86_64__)
  // Else each fused multiply-add is a call into libm.
  if (__builtin_cpu_supports("fma")) out.push_back("-mfma");
#endif
  if (request.count) out.push_back("-DWEFT_COUNT");
  if (!request.check_plain) return out;
  out.insert(out.end(), {"-DWEFT_CHECK_PLAIN", "-fsanitize=kernel-address"});
  const std::string option = compiler.clang ? "-mllvm" : "--param";
  const std::string prefix = compiler.clang ? "-" : "";
  for (const char* setting : {"asan-instrumentation-with-call-threshold=0", "asan-stack=0", "asan-globals=0"}) {
    out.insert(out.end(), {option, prefix + setting});
  }
  return out;
}

std::string entry(std::size_t kernel, const std::string& symbol) {
  return fmt::format(
      "extern \"C\" __attribute__((visibility(\"default\"))) void {}(const void* args) {{\n"
      "  weft_emulated::call(&{}, args);\n}}\n"
      "extern \"C\" __attribute__((visibility(\"default\"))) const unsigned long long {} =\n"
      "    weft_emulated::args_size(&{});\n",
      entry_name(kernel), symbol, args_bytes_name(kernel), symbol);
}

/// Only the text itself has its own line numbers: faults are reported with them.
std::string unit(const Request& request) {
  std::string out = fmt::format("#include <cstdint>\n{}\n{}\n{}\n#line 1 \"{}\"\n{}\n#line 1 \"weft_entry\"\n",
                                kHooksText, kPreludeText, kMatricesText, kTextName, request.text);
  for (std::size_t i = 0; i < request.symbols.size(); ++i) out += entry(i, request.symbols[i]);
  return out;
}

/// The head of a compiler's output; the rest follows from it.
std::string first_lines(const std::string& log) {
  constexpr int kMostLines = 20;
  std::size_t end = 0;
  for (int line = 0; line < kMostLines && end != std::string::npos; ++line) end = log.find('\n', end + 1);
  return log.substr(0, end);
}

ForkSafe<> mutex;  // of what follows
std::map<std::string, Compiler> known;

}  // namespace

Result<Compiler> find_compiler(const std::string& option) {
  WEFT_TRY(const std::string path, locate(option));
  const std::lock_guard lock(mutex);
  auto found = known.find(path);
  if (found == known.end()) {
    WEFT_TRY(Compiler compiler, examine(path));
    found = known.emplace(path, std::move(compiler)).first;
  }
  return found->second;
}

std::string entry_name(std::size_t kernel) { return fmt::format("weft_emulated_entry_{}", kernel); }
std::string args_bytes_name(std::size_t kernel) { return fmt::format("weft_emulated_args_bytes_{}", kernel); }

std::string Request::digest(const Compiler& compiler) const {
  std::string all = compiler.path + '\n' + compiler.version + '\n';
  for (const std::string& flag : flags(compiler, *this)) all += flag + '\n';
  return hex(sha256(all + unit(*this)));
}

Status compile(const Compiler& compiler, const Request& request, const std::string& folder, const std::string& object) {
  const std::string source = folder + "/kernel.cpp";
  WEFT_CHECK(write_file(source, unit(request)));
  std::vector<std::string> words = flags(compiler, request);
  words.insert(words.begin(), compiler.path);
  words.insert(words.end(), {"-o", object, source, "-lm"});
  WEFT_TRY(const Finished finished, run(words, folder + "/log"));
  if (finished.status == 0) return done;
  Error error = internal_error(fmt::format("{} refuses the emitted text", compiler.path));
  error.notes = {first_lines(finished.output)};
  return error;
}

}  // namespace weft::emulate
