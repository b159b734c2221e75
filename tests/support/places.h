#pragma once

#include <string>

namespace weft::test {

/// A path inside the checkout: `in_checkout("examples/window.weft")`; empty: the checkout itself. One object file alone
/// knows where the checkout is, so that all others come from a compiler cache whichever checkout they are built in.
std::string in_checkout(const std::string& path);

}  // namespace weft::test
