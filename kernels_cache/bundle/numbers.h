#pragma once

#include "kernels_cache/numbers.h"

namespace weft::bundle {

using cache::get;
using cache::get_bytes;
using cache::put;
using cache::put_bytes;

}  // namespace weft::bundle
