#pragma once

#include <cstddef>
#include <functional>

namespace weft {

/// Calls each(i) for every i below `count`, by at most so many threads that take turns, this one among them; returns
/// when all have returned. Where `each` returns false nothing further is begun; what it throws ends the work, too, and
/// is thrown here. Where the system gives fewer threads, those do it all.
void in_parallel(std::size_t count, std::size_t threads, const std::function<bool(std::size_t)>& each);

/// Cores that this process may use.
std::size_t core_count();

}  // namespace weft
