#include "runtime/emulate/object.h"

#include "compiler/base/digest.h"
#include "runtime/emulate/scratch.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <string_view>

namespace weft::emulate {

namespace fs = std::filesystem;

namespace {

/// Stands behind the object, where no loader looks: opening a damaged one can end the process.
std::string seal(std::string_view bytes) { return hex(sha256(bytes)); }
constexpr std::size_t kSealBytes = 2 * sizeof(Sha256);

bool is_whole(const fs::path& kept) {
  const auto file = read_file(kept.string());
  if (!file.ok() || file->size() < kSealBytes) return false;
  const std::string_view all = *file, bytes = all.substr(0, all.size() - kSealBytes);
  return all.substr(bytes.size()) == seal(bytes);
}

/// Other processes may do the same: the object appears under its name whole or not at all. It matters to nobody
/// whether it can be kept.
void keep(const std::string& bytes, const fs::path& kept) {
  std::error_code failure;
  fs::create_directories(kept.parent_path(), failure);
  const std::string near = fmt::format("{}.{}", kept.string(), getpid());
  if (write_file(near, bytes + seal(bytes)).ok()) fs::rename(near, kept, failure);
  fs::remove(near, failure);
}

}  // namespace

Result<std::unique_ptr<const Object>> Object::load(const std::string& path, std::size_t kernels) {
  std::unique_ptr<Object> out(new Object);
  out->library_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (out->library_ == nullptr) {
    return internal_error(fmt::format("the emulated kernel cannot be loaded: {}", dlerror()));
  }
  for (std::size_t i = 0; i < kernels; ++i) {
    auto* const entry = reinterpret_cast<void (*)(const void*)>(dlsym(out->library_, entry_name(i).c_str()));
    const auto* size = static_cast<const unsigned long long*>(dlsym(out->library_, args_bytes_name(i).c_str()));
    if (entry == nullptr || size == nullptr) return internal_error("the emulated kernel has no entry");
    out->kernels.push_back({.entry = entry, .args_bytes = static_cast<std::int64_t>(*size)});
  }
  WEFT_TRY(out->bytes, read_file(path));
  return std::unique_ptr<const Object>(std::move(out));
}

Result<std::unique_ptr<const Object>> Object::build(const Compiler& compiler, const Request& request,
                                                    const std::string& digest, const std::string& directory) {
  const fs::path kept = directory.empty() ? fs::path() : fs::path(directory) / (digest + ".so");
  if (!directory.empty() && is_whole(kept)) return load(kept.string(), request.symbols.size());
  WEFT_TRY(const ScratchFolder scratch, ScratchFolder::make());
  const std::string object = scratch.file("kernel.so");
  WEFT_CHECK(compile(compiler, request, scratch.path(), object));
  WEFT_TRY(auto loaded, load(object, request.symbols.size()));
  if (!directory.empty()) keep(loaded->bytes, kept);
  return loaded;
}

std::uint64_t Object::offset(const void* address) const {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(kernels.front().entry), &info) == 0) return 0;
  return reinterpret_cast<std::uint64_t>(address) - reinterpret_cast<std::uint64_t>(info.dli_fbase);
}

Object::~Object() {
  if (library_ != nullptr) dlclose(library_);
}

}  // namespace weft::emulate
