#pragma once

#include "compiler/base/result.h"
#include "laboratory/sass/path.h"
#include "laboratory/sass/simulate.h"

#include <optional>
#include <string>
#include <vector>

/// What a kernel's machine code says about its speed.
namespace weft::sass {

struct Question {
  Launch launch;
  /// FMAs of a thread and round of the key loop that the kernel is there for; 0: those that are found.
  double products = 0;
  KnownRounds rounds = {};
  Machine machine = {};
};

struct LoopReport {
  int begin = 0, end = 0;  ///< addresses of its first and last instruction
  int depth = 0;           ///< 0: the key loop itself
  int rounds = 1;          ///< in one round of the key loop
  bool guessed = false;    ///< neither the code nor the question tells the rounds
  Mix mix;                 ///< of one round, with those of inner loops
  /// The loop alone, simulated as if it never ended; only for Maxwell and Pascal.
  std::optional<Simulation> simulation;
};

struct Report {
  std::string kernel;
  std::vector<LoopReport> loops;  ///< the key loop first, then those inside of it as they run
  double products = 0;            ///< as asked; found where nobody asked, or the way is not trusted
  /// Share of the FMAs that the SM's f32 lanes could do in that time; none where the machine is not modelled.
  std::optional<double> share_of_peak;
  double clocks_per_block = 0;       ///< an SM's time for a round of one block
  bool trusted = true;               ///< does the way that was followed have the products it should have?
  std::vector<std::string> assumed;  ///< what follows from no instruction
};

/// The report of the kernel whose key loop has the most products. User error where none has such a loop.
Result<Report> report_on(const std::vector<Code>& codes, const Question& question);

/// Lines for people, each with `indent` before it.
std::string to_text(const Report& report, const Launch& launch, const std::string& indent);

}  // namespace weft::sass
