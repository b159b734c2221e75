#pragma once

#include "compiler/base/fork_safe.h"
#include "compiler/target/target.h"
#include "runtime/engine/front.h"

#include <weft/weft.h>

#include <string>
#include <string_view>
#include <unordered_set>

/// How a kernel that was asked for can be made again.
namespace weft {

/// The command line that adds a kernel to a bundle, ready for a shell.
std::string build_command(const CompileOptions& options, const Planned& planned, const std::string& bundle);

/// A kernel as a line of a record: a JSON object with the pattern's text, its name and everything that was bound, for
/// the target it was made for. It names no file, and the same kernel gives the same line.
std::string record_line(std::string_view text, const CompileOptions& options, const Planned& planned);

/// The file of an engine's `record` option. Lines are appended, each by one write, so that several processes may share
/// a file and records of several runs may be concatenated.
class Record {
 public:
  explicit Record(std::string path) : path_(std::move(path)) {}
  bool wanted() const { return !path_.empty(); }

  /// A line that this engine has written before is not repeated. Environment error where the file cannot be written.
  Status add(const std::string& line) const;

 private:
  std::string path_;
  mutable ForkSafe<> mutex_;
  mutable std::unordered_set<std::string> written_;
};

}  // namespace weft
