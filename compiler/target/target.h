#pragma once

#include "compiler/base/result.h"

#include <string>
#include <vector>

/// Facts about one architecture. Nobody asks for names or numbers of architectures: ask for a fact.
namespace weft {

enum class TargetKind { interpreter, cpu, cuda };

struct Target {
  std::string name;  ///< `cpu:x86-64-v4`, `sm_61`, `interpreter`
  TargetKind kind = TargetKind::cpu;

  // CPU
  std::string llvm_cpu;       ///< -mcpu
  std::string llvm_features;  ///< -mattr; empty when the cpu name says it all
  int vector_bits = 128;
  int vector_registers = 16;
  bool has_fma = false;
  bool has_f16c = false;      ///< hardware f16 <-> f32
  bool has_bf16_dot = false;  ///< vdpbf16ps
  int lanes() const { return vector_bits / 32; }

  // CUDA
  int sm = 0;
  int shared_per_block = 0, shared_per_sm = 0, registers_per_sm = 0;
  bool has_mma = false, has_bf16_mma = false, has_async_copy = false, has_tma = false;
};

/// Every known target, in the order of targets.def.
const std::vector<Target>& known_targets();

/// By name: `cpu` is this machine's best row, `cpu:NAME`, `sm_NN`, `interpreter`. User error with the
/// nearest name otherwise.
Result<Target> find_target(const std::string& name);

/// The best CPU row that this machine can execute.
Target host_target();

/// Can this machine execute code for the row? `reason` says what is missing.
bool host_can_execute(const Target& target, std::string* reason = nullptr);

}  // namespace weft
