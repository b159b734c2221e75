#pragma once

#include "compiler/base/result.h"
#include "runtime/emulate/report.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

/// Running the emitted CUDA text on the host: exactly the text is compiled by the host's C++ compiler and executed,
/// one fiber a CUDA thread. Slow on purpose: every access is checked against the memory the kernel was given, shared
/// memory starts as NaN, and accesses that no barrier orders are found whether or not they hurt this time.
namespace weft::emulate {

struct Options {
  bool count = false;          ///< fill the counters of Report; makes a run several times slower
  bool check_plain = true;     ///< check loads and stores in plain C++, too, not only those of ptx.cuh
  std::string compiler = {};   ///< empty: WEFT_CXX, else g++, else clang++
  std::string directory = {};  ///< where built objects are kept between processes; empty: WEFT_EMULATED, else nowhere
  std::vector<std::string> further =
      {};  ///< symbols of further kernels of the text, which Launch::kernel counts from 1
};

/// A range of global memory.
struct Region {
  const void* begin = nullptr;
  std::int64_t bytes = 0;
  bool writable = false;
  std::string name = {};
};

/// In which order threads that could run do run. What a kernel computes must not depend on it.
enum class Order { ascending, descending, random };

struct Launch {
  std::size_t kernel = 0;  ///< of the program's; 0: the one that build() names
  std::int64_t blocks = 1;
  int threads = 128;  ///< of a block
  std::int64_t shared_bytes = 0;
  const void* args = nullptr;  ///< the kernel's one parameter, by value
  std::int64_t args_bytes = 0;
  std::vector<Region> memory = {};  ///< all global memory the kernel may touch
  Order order = Order::ascending;
  std::uint64_t seed = 0;  ///< of Order::random
  int workers = 1;         ///< threads of the host, each with blocks of its own
};

class Object;

/// An emitted text, built for the host.
class Program {
 public:
  /// Builds are remembered for the life of the process. Environment error without a host compiler; internal error
  /// with the compiler's words where it refuses the text.
  static Result<std::shared_ptr<const Program>> build(const std::string& text, const std::string& symbol,
                                                      const Options& options = {});

  /// Faults stand in the report: an access outside of the regions is not carried out (a load gives NaN), while one
  /// in plain C++, a broken barrier or a deadlock ends the launch. Error only where the launch itself makes no sense.
  Result<Report> launch(const Launch& launch) const;

  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

 private:
  Program() = default;

  std::unique_ptr<const Object> object_;
  bool count_ = false;
};

}  // namespace weft::emulate
