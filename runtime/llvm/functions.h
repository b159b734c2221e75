#pragma once

#include <cstddef>
#include <cstdint>

/// LLVM's C API as a table of functions, filled by dlsym. Our own declarations: no LLVM header is needed to
/// build Weft, and no LLVM library to link it.
namespace weft::llvm {

// LLVM's opaque types; only their addresses pass through here.
struct Context;
struct DiagnosticInfo;
struct ErrorValue;
struct ExecutionSession;
struct JitDylib;
struct LlJit;
struct LlJitBuilder;
struct MemoryBuffer;
struct Module;
struct PassBuilderOptions;
struct TargetData;
struct TargetInfo;
struct TargetMachine;

// LLVM's enumerations, as far as they are used. Functions that give `int` for a failure give 0 for success.
inline constexpr int kSeverityError = 0;
inline constexpr int kReturnStatus = 2;  ///< of VerifyModule: neither abort nor print
inline constexpr int kRelocPic = 2;
inline constexpr int kCodeModelSmall = 3;
inline constexpr int kAssemblyFile = 0;
inline constexpr int kObjectFile = 1;

struct Functions {
#define WEFT_LLVM_FUNCTION(result, name, parameters) result(*name) parameters = nullptr;
#include "runtime/llvm/functions.def"
};

}  // namespace weft::llvm
