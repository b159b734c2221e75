#include "runtime/ring/nccl/library.h"

#include "compiler/base/fork_safe.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>

namespace weft::nccl {

namespace {

constexpr const char* kLibrary = "libnccl.so.2";
constexpr int kOldest = 21400;

Error unusable(std::string message) {
  auto error = environment_error(std::move(message));
  error.code = ErrorCode::ring_start;
  error.notes.emplace_back(
      "NCCL comes with PyTorch, with `pip install nvidia-nccl-cu12`, and in NVIDIA's package libnccl2; WEFT_NCCL names "
      "the library");
  return error;
}

Result<std::unique_ptr<Library>> load(const std::string& path) {
  // It stays open: NCCL has threads of its own.
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return unusable(fmt::format("NCCL cannot be opened: {}", dlerror()));
  auto out = std::make_unique<Library>();
  out->path = path;
  const auto version = reinterpret_cast<int (*)(int*)>(dlsym(handle, "ncclGetVersion"));
  if (version == nullptr || version(&out->version) != kSuccess)
    return unusable(fmt::format("{} does not say which NCCL it is", path));
  if (out->version < kOldest)
    return unusable(
        fmt::format("{} is NCCL {}; rings need {} or newer", path, text_of(out->version), text_of(kOldest)));
#define WEFT_NCCL_FUNCTION(result, name, parameters)                                         \
  out->functions.name = reinterpret_cast<result(*) parameters>(dlsym(handle, "nccl" #name)); \
  if (out->functions.name == nullptr) return unusable(fmt::format("{} has no nccl" #name, path));
#include "runtime/ring/nccl/functions.def"
  return out;
}

ForkSafe<> mutex;  // of what follows
std::map<std::string, std::unique_ptr<Library>> opened;

}  // namespace

std::string text_of(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

Status Library::check(int result, const char* call, CommHandle* comm) const {
  if (result == kSuccess || result == kInProgress) return done;
  const char* const more = functions.GetLastError(comm);
  auto error =
      environment_error(fmt::format("{}: {}{}{}", call, functions.GetErrorString(result),
                                    more != nullptr && *more != '\0' ? ": " : "", more != nullptr ? more : ""));
  error.code = ErrorCode::ring_transport;
  error.notes.emplace_back("NCCL_DEBUG=WARN makes NCCL say more");
  return error;
}

Result<const Library*> open() {
  const char* const named = std::getenv("WEFT_NCCL");
  const std::string path = named != nullptr && *named != '\0' ? named : kLibrary;
  const std::lock_guard lock(mutex);
  auto& library = opened[path];
  if (!library) {
    WEFT_TRY(library, load(path));
  }
  return library.get();
}

}  // namespace weft::nccl
