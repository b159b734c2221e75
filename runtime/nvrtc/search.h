#pragma once

#include "compiler/base/result.h"
#include "compiler/target/target.h"
#include "runtime/nvrtc/library.h"

#include <memory>
#include <string>
#include <vector>

/// Which NVRTC compiles for which architecture. Several may be installed, and none knows every architecture for
/// ever: 13.0 dropped all before sm_75. So each is asked, and the newest that knows the target is taken.
namespace weft::nvrtc {

struct Candidate {
  std::string path;    ///< absolute, links resolved
  Version version;     ///< from the files' names, or asked where they do not tell; 0.0 for one that cannot be opened
  std::string origin;  ///< where it was found, such as `CUDA_HOME` or `Python packages`
};

/// Every libnvrtc of the loader's directories, $CUDA_HOME and $CUDA_PATH, /usr/local/cuda*, Python's packages and
/// Weft's data folders, newest first; equal versions in this order of places.
std::vector<Candidate> installed();

/// What the machine that will run the kernels can use: a driver runs what its own major release of CUDA compiled, and
/// what older ones did; newer ones' it may refuse.
struct Runnable {
  int newest_major = 0;                   ///< of the driver; 0: not known, any
  std::vector<std::string> refused = {};  ///< paths of libraries of which the driver did not take a kernel
};

/// The library that compiles for `target`: `option` where it is not empty, else WEFT_NVRTC, else the newest of
/// installed() that knows the target and that the driver keeps up with; where there is none such, the oldest of the
/// newer ones. An explicit path is a file, or a folder to look in (also its lib64 and lib), and is never silently
/// replaced.
///
/// Environment error, with the command that mends it and why each candidate was passed over, where there is none.
/// What was found stays found for the life of the process, or until one of the variables it depends on changes.
Result<std::shared_ptr<const Library>> locate(const Target& target, const std::string& option = "",
                                              const Runnable& runnable = {});

/// What of NVRTC goes into a key: identity() of the located library.
Result<std::string> identity(const Target& target, const std::string& option = "", const Runnable& runnable = {});

/// Weft's data folders, the user's first: $XDG_DATA_HOME/weft or ~/.local/share/weft, /usr/local/share/weft,
/// /usr/share/weft.
std::vector<std::string> data_folders();

/// Folders that Python packages are installed in: those of the active environment, of the python3 on PATH, of the
/// user and of the system, without running Python.
std::vector<std::string> python_package_folders();

/// What `weft doctor` and `weft targets` say.
struct Report {
  struct Item {
    Candidate candidate;
    std::shared_ptr<const Library> library;  ///< null where it is not usable
    std::string reason;                      ///< why not
  };
  std::vector<Item> items;  ///< an explicit one stands alone: nothing else is used then
  std::string missing;      ///< what is explicit and not there; or that there is no NVRTC at all
  std::string mend;         ///< a command that brings one for every architecture; empty where none is needed

  /// The one that compiles for the target, or null.
  const Library* for_target(const Target& target) const;
};
Report examine(const std::string& option = "");

}  // namespace weft::nvrtc
