#pragma once

#include "tools/console.h"
#include "tools/options.h"

#include <weft/weft.h>

#include <memory>
#include <vector>

/// From the command line of `bundle build` to what is asked of the compilers.
namespace weft::tools {

/// One kernel: a pattern of a text, everything bound, for one target.
struct Request {
  std::shared_ptr<const Source> source;
  CompileOptions options;
};

/// After an error has been printed, `status` is what to end with.
struct Requests {
  std::vector<Request> list = {};
  int status = kDone;
};

/// Every pattern of the files, and for each the product of the targets and of what it leaves open. What a pattern
/// fixes stays; what it leaves open and no option binds is an error, and so is a parameter that no pattern has.
Requests requests_of(const std::vector<std::string>& files, const Options& options, const Console& console);

/// The kernels of a record, exactly.
Result<std::vector<Request>> recorded_requests(const std::string& path);

}  // namespace weft::tools
