#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

/// Runs the built command as a user's shell would, with a store and a home of its own.
namespace weft::test {

struct Finished {
  int status = -1;  ///< exit status; 128 + the signal's number where one ended it
  std::string out, err;
};

/// A folder that goes away with the object.
class Scratch {
 public:
  Scratch();
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  std::string path(const std::string& name) const { return (root_ / name).string(); }
  std::string write(const std::string& name, const std::string& bytes) const;
  /// Names of the files in it.
  std::vector<std::string> files() const;

 private:
  std::filesystem::path root_;
};

struct Call {
  std::vector<std::string> arguments;
  std::map<std::string, std::string> environment = {};  ///< an empty value unsets
  std::string input = {};                               ///< standard input
  std::string out_to = {};                              ///< where standard output goes instead of `out`
  std::string err_to = {};                              ///< the same of standard error
  std::vector<int> closed = {};                         ///< streams that the command is started without
  std::function<bool()> interrupt_when = {};            ///< asked again and again: SIGINT is sent once it holds
  bool kill = false;                                    ///< … or SIGKILL
};
Finished run_weft(const Scratch& scratch, Call call);
/// For `interrupt_when`: that time has passed since this was called.
std::function<bool()> after(std::chrono::milliseconds time);
inline Finished run_weft(const Scratch& scratch, std::vector<std::string> arguments) {
  return run_weft(scratch, Call{.arguments = std::move(arguments)});
}

/// An .npy file of version 1, C order. `descr` such as `<f4`.
std::string npy(const std::string& descr, const std::vector<std::int64_t>& shape, const std::string& bytes);
/// The same with `count` elements' worth of small f32 values.
std::string npy_f32(const std::vector<std::int64_t>& shape);

}  // namespace weft::test
