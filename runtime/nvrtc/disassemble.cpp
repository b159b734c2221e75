#include "runtime/nvrtc/disassemble.h"

#include "runtime/nvrtc/search.h"
#include "runtime/nvrtc/spawn.h"
#include "runtime/object/places.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace weft::nvrtc {
namespace {

namespace fs = std::filesystem;

/// The package whose nvdisasm reads the target: NVIDIA's own begins with 13.2, which knows nothing before the first
/// architecture with `mma`; Triton 3.3.1 carries that of CUDA 12.8.
const char* package_for(const Target& target) { return target.has_mma ? "nvidia-cuda-nvdisasm" : "triton==3.3.1"; }

/// A file in memory, which other programs open as their standard streams.
Result<Descriptor> memory_file(std::string_view contents) {
  Descriptor file(::memfd_create("weft", MFD_CLOEXEC));
  while (file.is_open() && !contents.empty()) {
    const ssize_t written = ::write(file.number(), contents.data(), contents.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) file.close();
    contents.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(written, 0)));
  }
  if (!file.is_open()) return environment_error(fmt::format("no file in memory: {}", std::strerror(errno)));
  // The program's standard input begins where the file's offset stands.
  ::lseek(file.number(), 0, SEEK_SET);
  return file;
}

std::string contents_of(const Descriptor& file) {
  std::string out(static_cast<std::size_t>(std::max<off_t>(::lseek(file.number(), 0, SEEK_END), 0)), '\0');
  for (std::size_t have = 0; have < out.size();) {
    const ssize_t got = ::pread(file.number(), out.data() + have, out.size() - have, static_cast<off_t>(have));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) out.resize(have);
    have += static_cast<std::size_t>(std::max<ssize_t>(got, 0));
  }
  return out;
}

Result<std::string> disassemble_with(const std::string& program, const std::string& cubin, Encodings encodings) {
  WEFT_TRY(const Descriptor in, memory_file(cubin));
  WEFT_TRY(const Descriptor out, memory_file({}));
  WEFT_TRY(const Descriptor err, memory_file({}));
  std::vector<std::string> words = {program, "--print-code"};
  if (encodings == Encodings::shown) words.emplace_back("--print-instruction-encoding");
  words.emplace_back("/dev/stdin");
  WEFT_TRY(const pid_t process, spawn(words, in, out, err));
  const int status = reap(process);
  if (status == 0) return contents_of(out);
  const std::string said = contents_of(err);
  return environment_error(fmt::format("{} {}: {}", program, ending(status), said.substr(0, said.find('\n'))));
}

}  // namespace

std::vector<std::string> disassemblers() {
  constexpr const char* kName = "/nvdisasm";
  if (const char* named = std::getenv("WEFT_NVDISASM"); named != nullptr && *named != '\0') return {named};
  std::vector<std::string> places = object::variable_parts("PATH");
  for (const char* name : {"CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX"}) {
    if (const char* root = std::getenv(name); root != nullptr && *root != '\0') {
      places.push_back(std::string(root) + "/bin");
    }
  }
  for (const std::string& root : object::matches("/usr/local/cuda*/bin")) places.push_back(root);
  for (const std::string& packages : python_package_folders()) {
    for (const char* folder : {"/nvidia/cu[0-9]*/bin", "/nvidia/cuda_nvdisasm/bin", "/triton/backends/nvidia/bin"}) {
      for (std::string& found : object::matches(object::as_pattern(packages) + folder)) {
        places.push_back(std::move(found));
      }
    }
  }
  for (const std::string& folder : data_folders()) places.push_back(folder + "/nvrtc");
  std::vector<std::string> out;
  for (const std::string& place : places) {
    std::error_code failure;
    const std::string real = fs::canonical(place + kName, failure).string();
    if (!failure && can_execute(real) && std::find(out.begin(), out.end(), real) == out.end()) out.push_back(real);
  }
  return out;
}

Result<std::string> disassemble(const std::string& cubin, const Target& target, Encodings encodings) {
  Error error = environment_error(
      fmt::format("showing the instructions of {} needs an nvdisasm that reads it, and there is none", target.name));
  for (const std::string& program : disassemblers()) {
    auto text = disassemble_with(program, cubin, encodings);
    if (text.ok()) return text;
    error.notes.push_back(std::move(text).error().message);
  }
  error.notes.push_back(fmt::format("to install one: pip install {}", package_for(target)));
  error.notes.push_back("or set WEFT_NVDISASM to its path; or emit --stage cubin and read that elsewhere");
  return error;
}

}  // namespace weft::nvrtc
