#pragma once

#include <string>

namespace weft::cache {

/// Where the store lies: the option, then WEFT_CACHE_DIR, XDG_CACHE_HOME/weft, ~/.cache/weft, then nowhere.
struct Place {
  std::string directory;  ///< absolute; empty: kernels stay in memory
  std::string origin;     ///< what decided it: `option`, `WEFT_CACHE_DIR`, `XDG_CACHE_HOME`, `HOME`, `none`
  std::string reason;     ///< why there is none
};

/// Reads the environment, touches no disk. As the XDG specification says, a relative XDG_CACHE_HOME does not
/// count; a HOME that is unset, relative or `/` (a system account, a container) is none.
Place choose_place(const std::string& option);

}  // namespace weft::cache
