#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Messages between Weft and its worker process: a list of byte strings. Both ends are of one build, on one machine.
namespace weft::nvrtc {

/// No message is longer: a length beyond it is a broken stream, not something to allocate for.
inline constexpr std::uint64_t kLongestMessage = std::uint64_t{1} << 30;

/// A mark, the whole length, then each field's length and bytes; numbers of 8 bytes, little-endian.
std::string pack(const std::vector<std::string>& fields);

/// How long the message is that begins so: 0 while that does not show yet, nothing where it is no message.
std::optional<std::uint64_t> message_length(std::string_view beginning);

/// The fields of one whole message; nothing where it is not one.
std::optional<std::vector<std::string>> unpack(std::string_view message);

}  // namespace weft::nvrtc
