#pragma once

#include "compiler/base/result.h"
#include "compiler/target/target.h"
#include "runtime/nvrtc/library.h"
#include "runtime/nvrtc/ptxas_log.h"
#include "runtime/nvrtc/worker.h"

#include <string>
#include <vector>

namespace weft::nvrtc {

struct Options {
  /// Contract a multiplication and an addition to one FMA, as NVRTC does by default.
  bool contract = true;

  // What follows decides whether a compilation ends, not what it gives: no part of text().

  /// For error messages: the pattern that the text comes from.
  std::string pattern = {};
  /// A longer text, in bytes, is refused: for straight-line code NVRTC's time grows with the square of the length,
  /// and measures 1 s for 18 KB, 15 s for 75 KB, 170 s for 300 KB. Kernels are loops, a fifth of their text comments,
  /// and take seconds; that of the most conditions that a pattern may have is 331 KB.
  std::size_t largest_text = std::size_t{352} << 10;
  /// Any limit puts the compilation into a worker process.
  Limits limits = {};

  /// What of it goes into a key: everything NVRTC is told but the architecture.
  std::string text() const;
};

/// A cubin: an ELF file for exactly the target's architecture; of a target that is PTX, that text.
struct Binary {
  std::string cubin;
  std::string log;                 ///< NVRTC's, warnings and the assembler's figures
  std::vector<KernelUse> kernels;  ///< empty where the log of an unknown NVRTC cannot be read

  // Over all kernels. Summed spills are those of one thread of each.
  int registers() const;
  int spill_bytes() const;
  int shared_bytes() const;
};

/// The same text, target, options and library give the same bytes, in any process, thread and directory.
/// Thread-safety: any number at once.
///
/// Internal error where NVRTC rejects the text, which is Weft's own: its message names the pattern and NVRTC's first
/// complaint, its notes say where text and log were saved. Internal error too for a text beyond
/// `options.largest_text`. Environment error where a limit was reached, or the library does not know the target.
Result<Binary> compile(const Library& library, const std::string& text, const Target& target,
                       const Options& options = {});

/// The same up to NVRTC's intermediate text, for readers. A cubin made of it by a driver need not be the one above.
Result<std::string> ptx(const Library& library, const std::string& text, const Target& target,
                        const Options& options = {});

}  // namespace weft::nvrtc
