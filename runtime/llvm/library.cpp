#include "runtime/llvm/library.h"

#include "compiler/base/fork_safe.h"
#include "runtime/llvm/guard.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <map>

namespace weft::llvm {
namespace {

/// The first function of the table that the library lacks, or null.
const char* resolve(void* handle, Functions& functions) {
#define WEFT_LLVM_FUNCTION(result, name, parameters)                                    \
  functions.name = reinterpret_cast<result(*) parameters>(dlsym(handle, "LLVM" #name)); \
  if (functions.name == nullptr) return "LLVM" #name;
#include "runtime/llvm/functions.def"
  return nullptr;
}

Error unusable(const std::string& path, const std::string& why) {
  Error error = environment_error(fmt::format("{} cannot serve as LLVM: {}", path, why));
  error.notes.push_back(fmt::format("Weft needs LLVM {} or newer; WEFT_LLVM names another", kOldestVersion));
  return error;
}

}  // namespace

std::string Version::text() const { return fmt::format("{}.{}.{}", major, minor, patch); }

namespace {

ForkSafe<> mutex;  // of what follows
std::map<std::string, std::shared_ptr<const Library>> opened;

}  // namespace

Result<std::shared_ptr<const Library>> Library::open(const std::string& option) {
  WEFT_TRY(const std::string path, locate(option));
  const std::lock_guard lock(mutex);
  if (const auto found = opened.find(path); found != opened.end()) return found->second;
  WEFT_TRY(std::shared_ptr<const Library> library, load(path));
  opened.emplace(path, library);
  return library;
}

Result<std::shared_ptr<const Library>> Library::load(const std::string& path) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = dlerror();
    return unusable(path, why == nullptr ? "it cannot be opened" : why);
  }
  const auto library = std::make_shared<Library>();
  library->path_ = path;
  const char* lacking = resolve(handle, library->functions_);
  std::string trouble = lacking == nullptr ? std::string() : fmt::format("it has no function {}", lacking);
  // LLVMGetVersion itself came with 16.
  if (library->functions_.GetVersion != nullptr) {
    Version& version = library->version_;
    library->functions_.GetVersion(&version.major, &version.minor, &version.patch);
    if (version.major < static_cast<unsigned>(kOldestVersion)) trouble = "it is version " + version.text();
  }
  if (!trouble.empty()) {
    dlclose(handle);
    return unusable(path, trouble);
  }
  const Functions& llvm = library->functions_;
  llvm.InitializeX86TargetInfo();
  llvm.InitializeX86Target();
  llvm.InitializeX86TargetMC();
  llvm.InitializeX86AsmPrinter();
  llvm.InitializeX86AsmParser();
  install_guard(llvm);
  return std::shared_ptr<const Library>(library);
}

}  // namespace weft::llvm
