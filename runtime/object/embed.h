#pragma once

#include <string>
#include <string_view>

namespace weft::object {

/// A relocatable x86-64 ELF object that defines `symbol`, read-only data with these bytes, aligned to 16, and
/// `SYMBOL_size`, their number as a size_t. The same arguments give the same object.
std::string embed(std::string_view bytes, const std::string& symbol);

}  // namespace weft::object
