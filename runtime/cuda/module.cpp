#include "runtime/cuda/module.h"

#include <elf.h>
#include <fmt/format.h>

#include <cstring>

namespace weft::cuda {

namespace {

constexpr std::int64_t kSharedWithoutAsking = 48 * 1024;

}  // namespace

bool is_cubin(std::string_view bytes) {
  Elf64_Ehdr header;
  if (bytes.size() < sizeof header) return false;
  std::memcpy(&header, bytes.data(), sizeof header);
  return std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_ident[EI_CLASS] == ELFCLASS64 &&
         header.e_machine == EM_CUDA;
}

Result<std::shared_ptr<const Module>> Module::load(std::shared_ptr<const Device> device, std::string_view cubin,
                                                   const std::string& symbol, const std::string& name) {
  if (!is_cubin(cubin)) return internal_error(fmt::format("the binary of {} is no cubin", name));
  WEFT_TRY(const auto current, Current::make(*device));
  const auto& driver = device->driver();
  std::shared_ptr<Module> module(new Module(device, name));
  WEFT_CUDA(driver, cuModuleLoadData, (&module->module_, cubin.data()));
  WEFT_CUDA(driver, cuModuleGetFunction, (&module->function_, module->module_, symbol.c_str()));
  return std::shared_ptr<const Module>(std::move(module));
}

Module::~Module() {
  if (module_ == nullptr) return;
  if (const auto current = Current::make(*device_)) device_->driver().functions().cuModuleUnload(module_);
}

Status Module::allow_shared(std::int64_t bytes) const {
  if (bytes <= kSharedWithoutAsking) return done;
  const auto& driver = device_->driver();
  WEFT_TRY(const auto current, Current::make(*device_));
  WEFT_CUDA(driver, cuFuncSetAttribute, (function_, kFunctionMostDynamicShared, static_cast<int>(bytes)));
  return done;
}

Status Module::launch(const Grid& grid, void* argument, StreamHandle* stream) const {
  const auto& driver = device_->driver();
  void* parameters[] = {argument};
  const auto result = driver.functions().cuLaunchKernel(
      function_, static_cast<unsigned>(grid.blocks), 1, 1, static_cast<unsigned>(grid.threads), 1, 1,
      static_cast<unsigned>(grid.shared_bytes), stream, parameters, nullptr);
  if (result == kSuccess) return done;
  auto error = std::move(driver.check(result, "cuLaunchKernel")).error();
  error.notes.push_back(fmt::format("{} on {}: {} blocks of {} threads with {} bytes of shared memory", name_,
                                    device_->info().name, grid.blocks, grid.threads, grid.shared_bytes));
  return error;
}

}  // namespace weft::cuda
