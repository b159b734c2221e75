#include "runtime/ring/mpi/plugin.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

namespace weft::mpi {

namespace {

namespace fs = std::filesystem;

constexpr int kVersion = 2;

Error unusable(std::string message) {
  auto error = environment_error(std::move(message));
  error.code = ErrorCode::ring_start;
  error.notes.emplace_back(
      "mpicc -shared -fPIC -O2 -o weft-mpi.so weft_mpi.c makes one of the file that comes with Weft; WEFT_MPI names "
      "it");
  return error;
}

/// Beside the program, beside the library that this is part of, or in the lib next to a bin.
std::vector<fs::path> places() {
  std::vector<fs::path> out;
  std::error_code ignored;
  const auto program = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  out = {program / "weft-mpi.so", program.parent_path() / "lib" / "weft-mpi.so"};
  Dl_info info;
  if (dladdr(reinterpret_cast<const void*>(&open_plugin), &info) != 0 && info.dli_fname != nullptr)
    out.push_back(fs::path(info.dli_fname).parent_path() / "weft-mpi.so");
  return out;
}

Result<std::string> find() {
  if (const char* named = std::getenv("WEFT_MPI"); named != nullptr && *named != '\0') return std::string(named);
  std::error_code ignored;
  for (const auto& place : places()) {
    if (fs::exists(place, ignored)) return place.string();
  }
  return unusable("no weft-mpi.so was found, by which a ring uses MPI");
}

Result<Plugin> load() {
  WEFT_TRY(const auto path, find());
  // MPI opens libraries of its own, which look for its names.
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) return unusable(fmt::format("{} cannot be opened: {}", path, dlerror()));
  Plugin out{.path = path};
#define WEFT_MPI_FUNCTION(result, name, parameters)                        \
  out.name = reinterpret_cast<result(*) parameters>(dlsym(handle, #name)); \
  if (out.name == nullptr) return unusable(fmt::format("{} has no {}", path, #name));
#include "runtime/ring/mpi/functions.def"
  if (out.weft_mpi_version() != kVersion)
    return unusable(fmt::format("{} is of version {}; expected {}", path, out.weft_mpi_version(), kVersion));
  return out;
}

}  // namespace

Result<const Plugin*> open_plugin() {
  static std::mutex mutex;
  static Plugin plugin;
  static bool opened = false;
  const std::lock_guard lock(mutex);
  if (!opened) {
    WEFT_TRY(plugin, load());
    opened = true;
  }
  return &plugin;
}

}  // namespace weft::mpi
