#pragma once

#include "compiler/base/result.h"
#include "compiler/target/target.h"
#include "runtime/llvm/library.h"

#include <cstddef>
#include <string>
#include <string_view>

namespace weft::llvm {

struct Options {
  /// LLVM's code generation level, 0 to 3. For the clean SSA that the CPU emitter writes, 1 and no passes gives kernels
  /// as fast as anything more does.
  int level = 1;
  /// A pipeline for IR passes in the text form of `opt -passes=`, such as `default<O2>`; empty: none.
  std::string passes = {};
  /// Long texts are compiled in parts (parts.h): as many threads as the machine has cores take them in turn, and those
  /// that this process has compiled before are taken as they were. Passes see one part at a time.
  bool in_parts = true;
  /// Reject IR that LLVM's verifier rejects. It costs little, and without it LLVM may crash on such IR.
  bool verify = true;
  /// false: also parts that this process has compiled before are compiled.
  bool reuse = true;

  /// What of it goes into a key.
  std::string text() const;
};

/// The bytes of an ELF object for the target: position-independent, small code model. The same text, target,
/// options and library give the same bytes. Thread-safe; every call has a context of its own.
///
/// Internal error, with LLVM's message, where the text is not valid IR or the target cannot execute it: the
/// text is Weft's own. Nothing is printed and the process goes on.
Result<std::string> compile(const Library& library, std::string_view ir_text, const Target& target,
                            const Options& options = {});

/// Counts over all long texts that this process compiled: parts that LLVM made, and parts that were there. Kernels of
/// one head dim and type share more than half of their text.
struct PartCounts {
  std::size_t compiled = 0, reused = 0;
};
PartCounts part_counts();

/// The same as assembly text (AT&T syntax).
Result<std::string> assembly(const Library& library, std::string_view ir_text, const Target& target,
                             const Options& options = {});

}  // namespace weft::llvm
