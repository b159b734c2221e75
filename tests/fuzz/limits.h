#pragma once

#include <functional>
#include <string>

namespace weft::test {

/// Runs `work` in a process of its own that may take so much CPU time, twice that on a machine that does other things,
/// too, and let its address space grow by 256 MiB. Says what went wrong, if anything. Under sanitizers, which cost
/// both, time is thirtyfold and memory free.
std::string within_limits(const std::function<void()>& work, double seconds = 1);

/// `piece` so often that the text between `before` and `behind` is just under 1 MiB.
std::string filled(const std::string& before, const std::string& piece, const std::string& behind);
std::string repeat(const std::string& piece, std::size_t count);

}  // namespace weft::test
