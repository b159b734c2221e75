#include "runtime/cuda/module.h"

#include <elf.h>
#include <fmt/format.h>

#include <cstring>
#include <mutex>

namespace weft::cuda {

bool is_cubin(std::string_view bytes) {
  Elf64_Ehdr header;
  if (bytes.size() < sizeof header) return false;
  std::memcpy(&header, bytes.data(), sizeof header);
  return std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_ident[EI_CLASS] == ELFCLASS64 &&
         header.e_machine == EM_CUDA;
}

bool is_ptx(std::string_view bytes) {
  const auto has = [&](std::string_view what) { return bytes.find(what) != std::string_view::npos; };
  return has("\n.version ") && has("\n.target ") && has(".entry ") && !has(std::string_view("\0", 1));
}

namespace {

/// What drivers say of a binary that a newer CUDA made.
bool is_refusal(int result) {
  return result == kErrorInvalidImage || result == kErrorNoBinaryForGpu || result == kErrorInvalidPtx ||
         result == kErrorUnsupportedPtxVersion;
}

}  // namespace

/// A cubin in a device's memory. Unloaded on destruction.
class Module::Image {
 public:
  explicit Image(std::shared_ptr<const Device> on) : device(std::move(on)) {}
  Image(const Image&) = delete;
  Image& operator=(const Image&) = delete;
  ~Image() {
    if (handle == nullptr) return;
    if (const auto current = Current::make(*device)) device->driver().functions().cuModuleUnload(handle);
  }

  const std::shared_ptr<const Device> device;
  ModuleHandle* handle = nullptr;
};

Result<std::shared_ptr<const Module>> Module::load(std::shared_ptr<const Device> device, std::string_view cubin,
                                                   const std::string& symbol, const std::string& name, bool* refused) {
  const bool is_text = !is_cubin(cubin);  // asked first: PTX is searched for in all of the bytes
  if (is_text && !is_ptx(cubin)) return internal_error(fmt::format("the binary of {} is no cubin", name));
  const std::string text(is_text ? cubin : "");  // ends with a NUL, for the driver
  WEFT_TRY(const auto current, Current::make(*device));
  const auto image = std::make_shared<Image>(device);  // a copy: `current` outlives the image
  const auto& driver = image->device->driver();
  const auto result = driver.functions().cuModuleLoadData(&image->handle, is_text ? text.c_str() : cubin.data());
  if (refused != nullptr) *refused = is_refusal(result);
  if (auto loaded = driver.check(result, "cuModuleLoadData"); !loaded) {
    auto error = std::move(loaded).error();
    error.notes.push_back(
        fmt::format("the driver of {} runs what CUDA {} and older made", device->info().name, driver.version_text()));
    return error;
  }
  return find(image, symbol, name);
}

Result<std::shared_ptr<const Module>> Module::sibling(const std::string& symbol) const {
  WEFT_TRY(const auto current, Current::make(*device_));
  return find(image_, symbol, name_);
}

Result<std::shared_ptr<const Module>> Module::find(std::shared_ptr<const Image> image, const std::string& symbol,
                                                   const std::string& name) {
  std::shared_ptr<Module> module(new Module(image->device, name));
  module->image_ = std::move(image);
  WEFT_CUDA(module->device_->driver(), cuModuleGetFunction,
            (&module->function_, module->image_->handle, symbol.c_str()));
  return std::shared_ptr<const Module>(std::move(module));
}

Status Module::allow_shared(std::int64_t bytes) const {
  // Held meanwhile: of two threads the one that asks for less must not come last.
  const std::lock_guard lock(mutex_);
  if (bytes <= shared_) return done;
  const auto& driver = device_->driver();
  WEFT_TRY(const auto current, Current::make(*device_));
  WEFT_CUDA(driver, cuFuncSetAttribute, (function_, kFunctionMostDynamicShared, static_cast<int>(bytes)));
  shared_ = bytes;
  return done;
}

Status Module::launch(const Grid& grid, void* argument, StreamHandle* stream) const {
  const auto& driver = device_->driver();
  void* parameters[] = {argument};
  const auto result = driver.functions().cuLaunchKernel(
      function_, static_cast<unsigned>(grid.blocks), 1, 1, static_cast<unsigned>(grid.threads), 1, 1,
      static_cast<unsigned>(grid.shared_bytes), stream, parameters, nullptr);
  if (result == kSuccess) return done;
  if (result == kErrorInvalidHandle) return foreign_stream(*device_);
  auto error = std::move(driver.check(result, "cuLaunchKernel")).error();
  error.notes.push_back(fmt::format("{} on {}: {} blocks of {} threads with {} bytes of shared memory", name_,
                                    device_->info().name, grid.blocks, grid.threads, grid.shared_bytes));
  return error;
}

}  // namespace weft::cuda
