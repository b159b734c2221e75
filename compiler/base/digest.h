#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace weft {

using Sha256 = std::array<std::uint8_t, 32>;

/// FIPS 180-4. Used for keys and to verify entries, not for secrets.
Sha256 sha256(std::string_view bytes);
std::string hex(const Sha256& digest);

}  // namespace weft
