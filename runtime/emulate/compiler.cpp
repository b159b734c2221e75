#include "runtime/emulate/compiler.h"

#include "compiler/base/digest.h"
#include "runtime/emulate/embedded.h"
#include "runtime/emulate/process.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <vector>

namespace weft::emulate {
namespace {

namespace fs = std::filesystem;

bool is_program(const fs::path& path) {
  std::error_code failure;
  return fs::is_regular_file(path, failure) && access(path.c_str(), X_OK) == 0;
}

/// A name with a slash is a path, as for a shell. Empty where there is none.
std::string on_path(const std::string& name) {
  if (name.find('/') != std::string::npos) return is_program(name) ? fs::absolute(name).string() : std::string();
  const char* variable = std::getenv("PATH");
  std::istringstream places(variable != nullptr ? variable : "/usr/local/bin:/usr/bin:/bin");
  for (std::string place; std::getline(places, place, ':');) {
    if (is_program(fs::path(place) / name)) return fs::absolute(fs::path(place) / name).string();
  }
  return {};
}

Result<std::string> locate(const std::string& option) {
  const char* variable = std::getenv("WEFT_CXX");
  const std::string wanted = !option.empty() ? option : variable != nullptr ? variable : "";
  if (!wanted.empty()) {
    if (std::string path = on_path(wanted); !path.empty()) return path;
    Error error = environment_error(fmt::format("there is no C++ compiler `{}`", wanted));
    error.notes = {"WEFT_CXX names the compiler that emulation uses; without it, g++ or clang++ on PATH"};
    return error;
  }
  for (const char* name : {"g++", "clang++"}) {
    if (std::string path = on_path(name); !path.empty()) return path;
  }
  Error error = environment_error("emulation compiles the CUDA text with a C++ compiler, and none is on PATH");
  error.notes = {"install one: apt-get install g++", "or set WEFT_CXX to one"};
  return error;
}

Result<Compiler> examine(const std::string& path) {
  Compiler out{.path = path};
  std::string log = (fs::temp_directory_path() / "weft-compiler-XXXXXX").string();
  const int file = mkstemp(log.data());
  if (file < 0) return environment_error(fmt::format("no file can be made in {}", fs::temp_directory_path().string()));
  close(file);
  auto finished = run({path, "--version"}, log);
  unlink(log.c_str());
  WEFT_TRY(const Finished said, std::move(finished));
  if (said.status != 0) return environment_error(fmt::format("{} --version fails: {}", path, said.output));
  out.version = said.output.substr(0, said.output.find('\n'));
  out.clang = said.output.find("clang") != std::string::npos;
  return out;
}

/// Arithmetic as written: contraction and vectors of the host would differ from machine to machine.
std::vector<std::string> flags(const Compiler& compiler, const Request& request) {
  std::vector<std::string> out = {"-x",
                                  "c++",
                                  "-std=c++17",
                                  "-O1",
                                  "-w",
                                  "-fPIC",
                                  "-shared",
                                  "-fvisibility=hidden",
                                  "-fno-exceptions",
                                  "-fno-rtti",
                                  "-fno-strict-aliasing",
                                  "-fno-optimize-sibling-calls",
                                  "-ffp-contract=off"};
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

Status write(const fs::path& path, std::string_view text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (!out) return environment_error(fmt::format("{} cannot be written", path.string()));
  return done;
}

/// Only the text itself has its own line numbers: faults are reported with them.
std::string unit(const Request& request) {
  return fmt::format(
      "#include <cstdint>\n{}\n{}\n#line 1 \"kernel.cu\"\n{}\n#line 1 \"weft_entry\"\n"
      "extern \"C\" __attribute__((visibility(\"default\"))) void {}(const void* args) {{\n"
      "  weft_emulated::call(&{}, args);\n}}\n"
      "extern \"C\" __attribute__((visibility(\"default\"))) const unsigned long long {} =\n"
      "    weft_emulated::args_size(&{});\n",
      kHooksText, kPreludeText, request.text, kEntry, request.symbol, kArgsBytes, request.symbol);
}

/// The head of a compiler's output; the rest follows from it.
std::string first_lines(const std::string& log) {
  constexpr int kMostLines = 20;
  std::size_t end = 0;
  for (int line = 0; line < kMostLines && end != std::string::npos; ++line) end = log.find('\n', end + 1);
  return log.substr(0, end);
}

}  // namespace

Result<Compiler> find_compiler(const std::string& option) {
  static std::mutex mutex;
  static std::map<std::string, Compiler> known;
  WEFT_TRY(const std::string path, locate(option));
  const std::lock_guard lock(mutex);
  auto found = known.find(path);
  if (found == known.end()) {
    WEFT_TRY(Compiler compiler, examine(path));
    found = known.emplace(path, std::move(compiler)).first;
  }
  return found->second;
}

std::string Request::digest(const Compiler& compiler) const {
  std::string all = compiler.path + '\n' + compiler.version + '\n';
  for (const std::string& flag : flags(compiler, *this)) all += flag + '\n';
  return hex(sha256(all + unit(*this)));
}

Status compile(const Compiler& compiler, const Request& request, const std::string& folder, const std::string& object) {
  const fs::path source = fs::path(folder) / "kernel.cpp";
  WEFT_CHECK(write(source, unit(request)));
  std::vector<std::string> words = flags(compiler, request);
  words.insert(words.begin(), compiler.path);
  words.insert(words.end(), {"-o", object, source.string(), "-lm"});
  WEFT_TRY(const Finished finished, run(words, (fs::path(folder) / "log").string()));
  if (finished.status == 0) return done;
  Error error = internal_error(fmt::format("{} refuses the emitted text", compiler.path));
  error.notes = {first_lines(finished.output)};
  return error;
}

}  // namespace weft::emulate
