#pragma once

#include "compiler/base/result.h"
#include "compiler/target/cpu_features.h"

#include <optional>
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
  CpuFeatureSet needs;        ///< what a machine must have to execute the row's code
  int vector_bits = 128;
  int vector_registers = 16;
  bool has_fma = false;
  bool has_f16c = false;  ///< hardware f16 <-> f32
  /// Products that vdpbf16ps does in the time of one by FMA on f32, vector for vector; 0 without the instruction.
  double bf16_dot_rate = 0;
  bool bf16_dot_measured = false;  ///< on this machine; else it is what is known of the row's processors
  bool has_bf16_dot() const { return bf16_dot_rate > 0; }
  /// There are processors with a rate of 1 and of 2: noise leads from neither across the middle.
  bool bf16_dot_pays() const { return bf16_dot_rate >= 1.4; }
  int lanes() const { return vector_bits / 32; }
  bool has_scalef() const { return vector_bits == 512; }  ///< y 2^n and x - round(x), an instruction each

  // CUDA
  std::string architecture;  ///< as NVRTC has it: `sm_61`; `compute_61` of what a driver shall finish
  int sm = 0;
  int shared_per_block = 0;  ///< bytes a block may ask for (above 48 KB: only by opting in)
  int shared_per_sm = 0;
  int registers_per_sm = 0;
  int threads_per_sm = 0, blocks_per_sm = 0;  ///< the most that run at once
  int f32_lanes_per_sm = 0;                   ///< each does one FMA a clock
  int mma_per_sm = 0;                         ///< FMAs a clock of `mma` on f16 with f32 sums
  bool has_mma = false;                       ///< mma.sync m16n8 with f16 inputs, and ldmatrix
  bool has_bf16_mma = false;                  ///< the same with bf16
  bool has_async_copy = false;
  bool has_tma = false;
  bool has_wgmma = false;
  bool is_ptx = false;  ///< binaries are PTX, which drivers compile for whatever later GPU they find

  /// A well-known card of the architecture, to predict times for: an architecture has no clock of its own.
  struct Card {
    std::string name;
    int sms = 0;
    double hertz = 0, bytes_per_s = 0;
  } card;
};

/// Every known target, in the order of targets.def; the interpreter first.
const std::vector<Target>& known_targets();

/// By name: `cpu` is this machine's best row, `cpu:NAME`, `sm_NN`, `interpreter`. `sm_NN:simt` is the row without its
/// tensor cores: what cards that have none run, on one that has. `sm_NN:ptx` is the row as PTX: what cards of later
/// families run. User error with the nearest name otherwise.
Result<Target> find_target(const std::string& name);

/// The best CPU row that this machine can execute; the interpreter where there is none.
Target host_target();

/// Does a GPU of this compute capability (61: 6.1) run binaries made for the CUDA row? They serve later members of
/// their own family only; PTX serves all that came later.
bool device_can_execute(const Target& target, int capability);

/// The row whose kernels such a GPU runs best: of its family, else the newest before it, as PTX. None where it is older
/// than every row.
std::optional<Target> device_target(int capability);

/// Can this machine execute code for the row? `reason` says what is missing. A CUDA row is never executed by
/// the host: whether a device is there is the runtime's question.
bool host_can_execute(const Target& target, std::string* reason = nullptr);

}  // namespace weft
