#pragma once

#include "compiler/base/result.h"

#include <string>

namespace weft::mpi {

/// The plug-in's functions, resolved.
struct Plugin {
#define WEFT_MPI_FUNCTION(result, name, parameters) result(*name) parameters = nullptr;
#include "runtime/ring/mpi/functions.def"
  std::string path = {};
};

/// Opens it, once a process: what WEFT_MPI names, else `weft-mpi.so` beside the program or the library. Environment
/// error (ring_start) that says how to make one.
Result<const Plugin*> open_plugin();

}  // namespace weft::mpi
