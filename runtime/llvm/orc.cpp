#include "runtime/llvm/orc.h"

#include "runtime/object/elf.h"

#include <fmt/format.h>

namespace weft::llvm {
namespace {

std::string take_message(const Functions& llvm, ErrorValue* error) {
  char* message = llvm.GetErrorMessage(error);
  std::string out = message;
  llvm.DisposeErrorMessage(message);
  return out;
}

/// ORC would print errors of linking on standard error; the lookup that caused them fails as well.
void swallow(void* functions, ErrorValue* error) { take_message(*static_cast<const Functions*>(functions), error); }

}  // namespace

Result<std::shared_ptr<const OrcObject>> OrcObject::load(std::shared_ptr<const Library> library, std::string_view bytes,
                                                         const std::string& name) {
  if (const auto checked = object::read_elf_object(bytes, name); !checked.ok()) return checked.error();
  const Functions& llvm = library->functions();
  std::shared_ptr<OrcObject> out(new OrcObject);
  out->library_ = std::move(library);
  const auto refused = [&](ErrorValue* error) {
    return internal_error(fmt::format("LLVM's JIT cannot load {}: {}", name, take_message(llvm, error)));
  };
  if (ErrorValue* error = llvm.OrcCreateLLJIT(&out->jit_, llvm.OrcCreateLLJITBuilder())) {
    out->jit_ = nullptr;
    return refused(error);
  }
  // The reporter may write to nothing but the table, which lives as long as the process.
  llvm.OrcExecutionSessionSetErrorReporter(llvm.OrcLLJITGetExecutionSession(out->jit_), swallow,
                                           const_cast<Functions*>(&llvm));
  MemoryBuffer* buffer = llvm.CreateMemoryBufferWithMemoryRangeCopy(bytes.data(), bytes.size(), name.c_str());
  if (ErrorValue* error = llvm.OrcLLJITAddObjectFile(out->jit_, llvm.OrcLLJITGetMainJITDylib(out->jit_), buffer)) {
    return refused(error);
  }
  return std::shared_ptr<const OrcObject>(std::move(out));
}

void* OrcObject::symbol(const std::string& name) const {
  const Functions& llvm = library_->functions();
  std::uint64_t address = 0;
  if (ErrorValue* error = llvm.OrcLLJITLookup(jit_, &address, name.c_str())) {
    take_message(llvm, error);
    return nullptr;
  }
  return reinterpret_cast<void*>(address);
}

OrcObject::~OrcObject() {
  if (jit_ == nullptr) return;
  const Functions& llvm = library_->functions();
  if (ErrorValue* error = llvm.OrcDisposeLLJIT(jit_)) take_message(llvm, error);
}

}  // namespace weft::llvm
