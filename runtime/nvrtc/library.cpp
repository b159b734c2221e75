#include "runtime/nvrtc/library.h"

#include "compiler/base/fork_safe.h"
#include "runtime/object/identity.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <filesystem>
#include <map>

namespace weft::nvrtc {
namespace {

/// The first architecture-specific target, `sm_90a`, came with this release.
constexpr Version kFirstWithSpecificTargets = {12, 0};

/// The first function of the table that the library lacks, or null.
const char* resolve(void* handle, Functions& functions) {
#define WEFT_NVRTC_FUNCTION(name, parameters)                                         \
  functions.name = reinterpret_cast<int(*) parameters>(dlsym(handle, "nvrtc" #name)); \
  if (functions.name == nullptr) return "nvrtc" #name;
#include "runtime/nvrtc/functions.def"
  functions.GetErrorString = reinterpret_cast<const char* (*)(int)>(dlsym(handle, "nvrtcGetErrorString"));
  return functions.GetErrorString == nullptr ? "nvrtcGetErrorString" : nullptr;
}

Error unusable(const std::string& path, const std::string& why) {
  return environment_error(fmt::format("{} cannot serve as NVRTC: {}", path, why));
}

std::string loader_message() {
  const char* why = dlerror();
  return why == nullptr ? "it cannot be opened" : why;
}

std::string path_of(void* handle) {
  link_map* map = nullptr;
  return dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr ? map->l_name : "";
}

/// NVRTC opens its builtins by name when it first compiles, and 13.x does not look beside itself. One that is
/// loaded already is found by name: hence it is loaded here. Gives the path of those that will be used, which
/// are another program's where it was faster; empty where there are none.
std::string load_builtins(const std::string& library, const Version& version) {
  const std::string name = "libnvrtc-builtins.so." + version.text();
  const std::string beside = (std::filesystem::path(library).parent_path() / name).string();
  void* ours = dlopen(beside.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (ours == nullptr) ours = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (ours == nullptr) return {};
  void* used = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  return path_of(used == nullptr ? ours : used);
}

Result<std::vector<int>> ask_architectures(const Functions& nvrtc, const std::string& path) {
  int count = 0;
  if (nvrtc.GetNumSupportedArchs(&count) != kSuccess || count < 1) return unusable(path, "it names no architecture");
  std::vector<int> out(static_cast<std::size_t>(count));
  if (nvrtc.GetSupportedArchs(out.data()) != kSuccess) return unusable(path, "it names no architecture");
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

std::string Version::text() const { return fmt::format("{}.{}", major, minor); }

namespace {

ForkSafe<> mutex;  // of what follows
std::map<std::string, std::shared_ptr<const Library>> opened;

}  // namespace

Result<std::shared_ptr<const Library>> Library::load(const std::string& path) {
  const std::lock_guard lock(mutex);
  if (const auto found = opened.find(path); found != opened.end()) return found->second;

  // Read before opening: whatever happens to the file in between makes a key that nobody else has.
  WEFT_TRY(std::string identity, object::library_identity(path));
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return unusable(path, loader_message());
  const auto library = std::make_shared<Library>();
  library->path_ = path;
  // From here on the handle stays open even in failure: NVRTC starts threads of its own, and is not made to be closed.
  if (const char* lacking = resolve(handle, library->functions_); lacking != nullptr) {
    return unusable(path, fmt::format("it has no function {}", lacking));
  }
  const Functions& nvrtc = library->functions_;
  if (nvrtc.Version(&library->version_.major, &library->version_.minor) != kSuccess) {
    return unusable(path, "it tells no version");
  }
  WEFT_TRY(library->architectures_, ask_architectures(nvrtc, path));
  library->builtins_ = load_builtins(path, library->version_);
  if (library->builtins_.empty()) {
    return unusable(path, fmt::format("there is no libnvrtc-builtins.so.{} beside it", library->version_.text()));
  }
  WEFT_TRY(const std::string builtins, object::library_identity(library->builtins_));
  library->identity_ = fmt::format("{}, builtins {}", identity, builtins);
  opened.emplace(path, library);
  return std::shared_ptr<const Library>(library);
}

bool Library::knows(const Target& target) const {
  const bool specific = target.has_wgmma;  // such instructions exist for the architecture-specific target only
  return target.kind == TargetKind::cuda && (!specific || version_ >= kFirstWithSpecificTargets) &&
         std::binary_search(architectures_.begin(), architectures_.end(), target.sm);
}

std::string Library::architectures_text() const {
  return fmt::format("sm_{} to sm_{}", architectures_.front(), architectures_.back());
}

}  // namespace weft::nvrtc
