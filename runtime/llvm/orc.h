#pragma once

#include "compiler/base/result.h"
#include "runtime/llvm/library.h"

#include <memory>
#include <string>
#include <string_view>

namespace weft::llvm {

/// An object loaded by LLVM's own JIT (ORC's LLJIT) instead of object::LoadedObject: the second opinion in
/// tests, and the loader to choose when a debugger should see kernels.
class OrcObject {
 public:
  /// Internal error, with LLVM's message, where LLVM refuses the bytes or a symbol stays undefined. LLVM does
  /// not promise to survive hostile bytes: they are checked by object::read_elf_object first.
  static Result<std::shared_ptr<const OrcObject>> load(std::shared_ptr<const Library> library, std::string_view bytes,
                                                       const std::string& name);

  /// Links on first use; null where there is no such symbol or linking fails.
  void* symbol(const std::string& name) const;

  ~OrcObject();
  OrcObject(const OrcObject&) = delete;
  OrcObject& operator=(const OrcObject&) = delete;

 private:
  OrcObject() = default;

  std::shared_ptr<const Library> library_;
  LlJit* jit_ = nullptr;
};

}  // namespace weft::llvm
