#pragma once

#include "compiler/base/result.h"

#include <string>
#include <vector>

namespace weft::object {

/// One relocatable x86-64 object of several, as a linker's `-r` makes: each one's sections that are loaded, one behind
/// the other, and what one of them needs of another. Hidden symbols become local, as nobody else may need them.
/// The same objects in the same order give the same bytes.
///
/// Internal error, naming the whole as `name`, where one is malformed, two define a symbol, or none does that is
/// needed.
Result<std::string> join(const std::vector<std::string>& objects, const std::string& name);

}  // namespace weft::object
