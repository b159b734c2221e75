#pragma once

#include "compiler/base/text_writer.h"
#include "compiler/ir/plan.h"
#include "compiler/target/target.h"
#include "compiler/walk/block_memory.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// The ways to compute inner products on a GPU, one row of a table each: which device headers are a way's own, which
/// constants they read, and how much shared memory they work in. All else of a kernel is common to them.
namespace weft::codegen::cuda {

/// `constexpr int kName = 1;   // what it is`; flags that are false share a line at the end.
class Constants {
 public:
  explicit Constants(TextWriter& w) : w_(w) {}
  void operator()(const char* name, std::int64_t value, const char* what);
  void flag(const char* name, bool value, const char* what);
  void write_absent();

 private:
  void write(const std::string& constant, const char* what);
  TextWriter& w_;
  std::vector<std::string> absent_;
};

struct ClassTraits {
  ir::KernelClass kernel_class;
  std::string_view prefix;  ///< of the names of device headers that no other class has
  const char* arithmetic;   ///< for the first line of the text
  void (*constants)(Constants&, const ir::Plan&, const Target&);
  walk::BlockShape (*shape)(const walk::BlockShape&, const ir::Choices&);  ///< with what the class alone has
  int tries;         ///< keys that a thread tries at once, where no conditions on pairs need registers
  int ahead;         ///< blocks of keys that are known ahead of the one at hand
  bool lists_pages;  ///< of a paged cache: the list of keys says where they lie
  /// What chunks of keys need stands in the text of many queries, too: the registers of its loops are laid out for a
  /// kernel with it. Without it sm_80 spills 12 bytes at head dim 128 where the pattern is dense, 384 where it is
  /// longnet.
  bool always_cuts;
};

/// Columns of what one row sums up: O, dQ, or the wider of dK and dV.
std::int64_t columns_summed(const ir::Plan& plan);

/// For classes of GPUs.
const ClassTraits& traits_of(ir::KernelClass kernel_class);

/// Is the header another class's?
bool is_foreign(ir::KernelClass kernel_class, std::string_view header);

}  // namespace weft::codegen::cuda
