#include "runtime/emulate/object.h"

#include "runtime/emulate/scratch.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>

namespace weft::emulate {

namespace fs = std::filesystem;

Result<std::unique_ptr<const Object>> Object::load(const std::string& path) {
  std::unique_ptr<Object> out(new Object);
  out->library_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (out->library_ == nullptr) {
    return internal_error(fmt::format("the emulated kernel cannot be loaded: {}", dlerror()));
  }
  out->entry = reinterpret_cast<void (*)(const void*)>(dlsym(out->library_, kEntry));
  const auto* size = static_cast<const unsigned long long*>(dlsym(out->library_, kArgsBytes));
  if (out->entry == nullptr || size == nullptr) return internal_error("the emulated kernel has no entry");
  out->args_bytes = static_cast<std::int64_t>(*size);
  WEFT_TRY(out->bytes, read_file(path));
  return std::unique_ptr<const Object>(std::move(out));
}

Result<std::unique_ptr<const Object>> Object::build(const Compiler& compiler, const Request& request,
                                                    const std::string& digest, const std::string& directory) {
  const fs::path kept = directory.empty() ? fs::path() : fs::path(directory) / (digest + ".so");
  std::error_code failure;
  if (!directory.empty() && fs::exists(kept, failure)) {
    if (auto loaded = load(kept.string()); loaded.ok()) return loaded;
  }
  WEFT_TRY(const ScratchFolder scratch, ScratchFolder::make());
  const std::string object = scratch.file("kernel.so");
  WEFT_CHECK(compile(compiler, request, scratch.path(), object));
  if (!directory.empty()) {
    // Other processes may do the same: the object appears under its name whole or not at all.
    const fs::path near = kept.string() + "." + fs::path(scratch.path()).filename().string();
    fs::create_directories(directory, failure);
    if (fs::copy_file(object, near, failure)) fs::rename(near, kept, failure);
  }
  return load(object);
}

std::uint64_t Object::offset(const void* address) const {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(entry), &info) == 0) return 0;
  return reinterpret_cast<std::uint64_t>(address) - reinterpret_cast<std::uint64_t>(info.dli_fbase);
}

Object::~Object() {
  if (library_ != nullptr) dlclose(library_);
}

}  // namespace weft::emulate
