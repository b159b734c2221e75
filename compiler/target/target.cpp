#include "compiler/target/target.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft {
namespace {

using F = CpuFeature;

// What the rows of targets.def need. The levels are those of the x86-64 psABI, the rest what LLVM's
// processor definitions add to them.
constexpr CpuFeatureSet kLevel1;
constexpr CpuFeatureSet kLevel2 = kLevel1.with(F::sse3, F::ssse3, F::sse4_1, F::sse4_2, F::cx16, F::popcnt, F::lahf);
constexpr CpuFeatureSet kLevel3 = kLevel2.with(F::avx, F::avx2, F::bmi1, F::bmi2, F::f16c, F::fma, F::lzcnt, F::movbe);
constexpr CpuFeatureSet kLevel4 = kLevel3.with(F::avx512f, F::avx512bw, F::avx512cd, F::avx512dq, F::avx512vl);
constexpr CpuFeatureSet kHaswell = kLevel3.with(F::pclmul);
constexpr CpuFeatureSet kSkylakeAvx512 = kLevel4.with(F::pclmul, F::aes, F::adx);
constexpr CpuFeatureSet kIcelake =
    kSkylakeAvx512.with(F::sha, F::avx512vbmi, F::avx512ifma, F::avx512vbmi2, F::avx512vnni, F::avx512bitalg,
                        F::avx512vpopcntdq, F::gfni, F::vaes, F::vpclmulqdq);
constexpr CpuFeatureSet kSapphireRapids = kIcelake.with(F::avx512bf16, F::avx512fp16, F::avxvnni);
constexpr CpuFeatureSet kZnver4 = kIcelake.with(F::avx512bf16, F::sse4a);
constexpr CpuFeatureSet kZnver5 = kZnver4.with(F::avxvnni, F::avx512vp2intersect);

Target cpu_row(const char* name, const char* llvm_cpu, CpuFeatureSet needs, int vector_bits, int vector_registers,
               bool fma, bool f16c, double bf16_dot_rate) {
  Target out;
  out.name = std::string("cpu:") + name;
  out.kind = TargetKind::cpu;
  out.llvm_cpu = llvm_cpu;
  out.needs = needs;
  out.vector_bits = vector_bits;
  out.vector_registers = vector_registers;
  out.has_fma = fma;
  out.has_f16c = f16c;
  out.bf16_dot_rate = bf16_dot_rate;
  return out;
}

/// A row of targets.def, in the units that data sheets use.
struct CudaRow {
  const char* name;
  int sm;
  int shared_kb_per_block, shared_kb_per_sm;  ///< what a block may ask for; what an SM has
  int k_registers, threads, blocks;           ///< of an SM
  int f32_lanes;
  int mma_per_sm = 0;  ///< FMAs a clock of tensor cores on f16 with f32 sums
  bool mma = false, bf16_mma = false, async_copy = false, tma = false, wgmma = false;
  struct {
    const char* name;
    int sms, mhz, gb_per_s;
  } card;  ///< one that has it
};

Target cuda_row(const CudaRow& row) {
  Target out;
  out.name = out.architecture = row.name;
  out.kind = TargetKind::cuda;
  out.sm = row.sm;
  out.shared_per_block = row.shared_kb_per_block * 1024;
  out.shared_per_sm = row.shared_kb_per_sm * 1024;
  out.registers_per_sm = row.k_registers * 1024;
  out.threads_per_sm = row.threads;
  out.blocks_per_sm = row.blocks;
  out.f32_lanes_per_sm = row.f32_lanes;
  out.mma_per_sm = row.mma_per_sm;
  out.card = {
      .name = row.card.name, .sms = row.card.sms, .hertz = row.card.mhz * 1e6, .bytes_per_s = row.card.gb_per_s * 1e9};
  out.has_mma = row.mma;
  out.has_bf16_mma = row.bf16_mma;
  out.has_async_copy = row.async_copy;
  out.has_tma = row.tma;
  out.has_wgmma = row.wgmma;
  return out;
}

std::vector<Target> read_table() {
  std::vector<Target> out;
  Target interpreter;
  interpreter.name = "interpreter";
  interpreter.kind = TargetKind::interpreter;
  out.push_back(std::move(interpreter));
#define WEFT_CPU_TARGET(...) out.push_back(cpu_row(__VA_ARGS__));
#define WEFT_CUDA_TARGET(...) out.push_back(cuda_row({__VA_ARGS__}));
#include "compiler/target/targets.def"
  return out;
}

Error unknown_target(const std::string& name) {
  std::vector<std::string> names = {"cpu"};
  for (const Target& target : known_targets()) names.push_back(target.name);
  Error error = user_error(fmt::format("there is no target `{}`", name));
  if (const std::string nearest = nearest_word(name, names); !nearest.empty()) {
    error.notes.push_back(fmt::format("did you mean `{}`?", nearest));
  }
  error.notes.push_back(fmt::format("known targets: {}", fmt::join(names, ", ")));
  return error;
}

constexpr std::string_view kPlainLanes = ":simt", kPtx = ":ptx";

std::optional<Target> find_row(std::string_view name) {
  for (const Target& target : known_targets()) {
    if (target.name == name) return target;
  }
  return std::nullopt;
}

/// The architecture as if it had no tensor cores.
std::optional<Target> find_plain(std::string_view name) {
  if (!name.ends_with(kPlainLanes)) return std::nullopt;
  auto out = find_row(name.substr(0, name.size() - kPlainLanes.size()));
  if (!out || out->kind != TargetKind::cuda || out->has_wgmma) return std::nullopt;
  out->name = name;
  out->has_mma = out->has_bf16_mma = false;
  return out;
}

Target as_ptx(Target row) {
  row.architecture = fmt::format("compute_{}", row.sm);
  row.name += kPtx;
  row.is_ptx = true;
  return row;
}

/// Has the row PTX that later families run? Instructions of one architecture alone are in no other.
bool outlives_its_family(const Target& row) { return row.kind == TargetKind::cuda && !row.has_wgmma; }

std::optional<Target> find_ptx(std::string_view name) {
  if (!name.ends_with(kPtx)) return std::nullopt;
  auto row = find_row(name.substr(0, name.size() - kPtx.size()));
  if (!row || !outlives_its_family(*row)) return std::nullopt;
  return as_ptx(*std::move(row));
}

}  // namespace

const std::vector<Target>& known_targets() {
  static const std::vector<Target> table = read_table();
  return table;
}

Result<Target> find_target(const std::string& name) {
  if (name == "cpu") return host_target();
  if (auto row = find_row(name)) return *row;
  if (auto plain = find_plain(name)) return *plain;
  if (auto ptx = find_ptx(name)) return *ptx;
  return unknown_target(name);
}

Target host_target() {
  const std::vector<Target>& table = known_targets();
  const auto best = std::find_if(table.rbegin(), table.rend(), [](const Target& target) {
    return target.kind == TargetKind::cpu && host_can_execute(target);
  });
  return best == table.rend() ? table.front() : *best;
}

bool device_can_execute(const Target& target, int capability) {
  if (target.kind != TargetKind::cuda) return false;
  if (target.has_wgmma) return target.sm == capability;  // of that very architecture, not of its family
  if (target.is_ptx) return target.sm <= capability;
  return target.sm / 10 == capability / 10 && target.sm <= capability;
}

std::optional<Target> device_target(int capability) {
  const Target* best = nullptr;
  for (const Target& row : known_targets()) {
    if (!device_can_execute(row, capability)) continue;
    if (best == nullptr || row.sm >= best->sm) best = &row;
  }
  if (best != nullptr) return *best;
  for (const Target& row : known_targets()) {
    if (!outlives_its_family(row) || row.sm > capability) continue;
    if (best == nullptr || row.sm > best->sm) best = &row;
  }
  return best == nullptr ? std::nullopt : std::optional(as_ptx(*best));
}

bool host_can_execute(const Target& target, std::string* reason) {
  std::string missing;
  switch (target.kind) {
    case TargetKind::interpreter:
      break;
    case TargetKind::cuda:
      missing = "needs a CUDA device";
      break;
    case TargetKind::cpu:
#if defined(__x86_64__)
      if (const CpuFeatureSet lacks = target.needs.minus(host_cpu_features()); !lacks.empty()) {
        missing = "this processor lacks " + lacks.text();
      }
#else
      missing = "this machine is not x86-64";
#endif
      break;
  }
  if (reason != nullptr) *reason = missing;
  return missing.empty();
}

}  // namespace weft
