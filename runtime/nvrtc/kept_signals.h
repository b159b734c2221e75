#pragma once

namespace weft::nvrtc {

/// While there is one, SIGINT and SIGTERM go where the program sends them. NVRTC puts handlers of its own in their
/// place while it compiles, which end the process, with status 4 and without a word: an interrupted session would be
/// lost. There is no way to forbid it that, so a thread puts the program's back within a fraction of a millisecond.
/// Handlers that others set meanwhile stay.
class KeptSignals {
 public:
  /// `within`: the address of any function of the library whose handlers are not wanted.
  explicit KeptSignals(const void* within);
  ~KeptSignals();
  KeptSignals(const KeptSignals&) = delete;
  KeptSignals& operator=(const KeptSignals&) = delete;

 private:
  const void* library_;  ///< where it is loaded; null: not known, and nothing is done
};

}  // namespace weft::nvrtc
