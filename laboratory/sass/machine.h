#pragma once

namespace weft::sass {

/// What the model takes an SM of Maxwell or Pascal (sm_5x, sm_61) to be, in clocks.
/// docs/how-the-performance-model-works.md names the source of each number; those that nobody published are marked as
/// guesses.
struct Machine {
  int schedulers = 4;

  // How long an instruction of a warp occupies its unit, which each scheduler has one of.
  int math_clocks = 1;
  int half_clocks = 2;
  int special_clocks = 4;
  int wide_clocks = 32;

  // What the pipe that all schedulers share takes, and the way to global memory: clocks for 128 bytes, which all lanes
  // ask for at once.
  int shared_clocks = 1;
  bool lane_pairs = true;   ///< loads of 8 and 16 bytes find lanes n and n ^ 1, or n ^ 2, at one address: half as many
  int store_conflicts = 1;  ///< how many times as long stores of 16 bytes take
  int global_clocks = 2;    ///< guess

  // How many clocks of work may wait before a unit that is shared or slow; guesses.
  int special_queue = 8;
  int shared_queue = 64;

  // From an instruction's turn in its unit to its result.
  int special_latency = 20;   ///< guess
  int shared_latency = 24;    ///< guess
  int global_latency = 350;   ///< guess
  int constant_latency = 20;  ///< guess
  int operands_read = 8;      ///< until a load or store has read its registers; guess
  int barrier_latency = 20;   ///< from the last warp's arrival; guess
  int fence_latency = 5;      ///< guess

  int longest_stall = 11;   ///< a longer one counts only where the instruction also yields …
  int unyielded_stall = 2;  ///< … and is this where it does not
  bool bank_conflicts = true;
};

}  // namespace weft::sass
