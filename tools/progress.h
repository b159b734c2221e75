#pragma once

#include "tools/console.h"

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <limits>
#include <mutex>
#include <string>
#include <thread>

namespace weft::tools {

/// A line on the terminal that tells what is being done and how far it is; appears after a second, and only there.
/// It moves by itself, so that one long step is not silent. Work of one step is never updated.
class Progress {
 public:
  Progress(const Console& console, std::string what);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  /// Thread-safety: any number at once.
  void update(std::size_t finished, std::size_t total);

 private:
  void tick();
  void paint();

  std::string what_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  std::condition_variable over_;
  std::size_t finished_ = 0, total_ = 0;
  double promised_ = std::numeric_limits<double>::infinity();  ///< seconds that are left, as was last said
  bool shown_ = false, ended_ = false;
  std::thread ticker_;
};

}  // namespace weft::tools
