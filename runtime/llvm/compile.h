#pragma once

#include "compiler/base/result.h"
#include "compiler/target/target.h"
#include "runtime/llvm/library.h"

#include <string>
#include <string_view>

namespace weft::llvm {

struct Options {
  /// LLVM's code generation level, 0 to 3. 2 and no passes is as fast as anything more for the clean SSA that
  /// the CPU emitter writes.
  int level = 2;
  /// A pipeline for IR passes in the text form of `opt -passes=`, such as `default<O2>`; empty: none.
  std::string passes = {};
  /// Long texts are compiled in so many parts at once: as many threads as the machine has cores take them in turn.
  /// Fixed, because it changes the object's bytes; passes see one part at a time.
  int parts = 8;
  /// Reject IR that LLVM's verifier rejects. It costs little, and without it LLVM may crash on such IR.
  bool verify = true;

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

/// The same as assembly text (AT&T syntax).
Result<std::string> assembly(const Library& library, std::string_view ir_text, const Target& target,
                             const Options& options = {});

}  // namespace weft::llvm
