#include "runtime/nvrtc/wire.h"

namespace weft::nvrtc {
namespace {

constexpr std::string_view kMark = "weftnvc1";  // counts up with every change of what the fields mean
constexpr std::size_t kNumber = 8;
constexpr std::size_t kHeader = kMark.size() + kNumber;

std::string number(std::uint64_t value) {
  std::string out(kNumber, '\0');
  for (std::size_t i = 0; i < kNumber; ++i) out[i] = static_cast<char>(value >> (8 * i) & 0xFF);
  return out;
}

std::uint64_t read_number(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = kNumber; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

}  // namespace

std::string pack(const std::vector<std::string>& fields) {
  std::string body;
  for (const std::string& field : fields) body += number(field.size()) + field;
  return std::string(kMark) + number(kHeader + body.size()) + body;
}

std::optional<std::uint64_t> message_length(std::string_view beginning) {
  const std::string_view mark = beginning.substr(0, kMark.size());
  if (mark != kMark.substr(0, mark.size())) return std::nullopt;
  if (beginning.size() < kHeader) return 0;
  const std::uint64_t length = read_number(beginning.substr(kMark.size()));
  if (length < kHeader || length > kLongestMessage) return std::nullopt;
  return length;
}

std::optional<std::vector<std::string>> unpack(std::string_view message) {
  const auto length = message_length(message);
  if (!length || *length == 0 || *length != message.size()) return std::nullopt;
  message.remove_prefix(kHeader);
  std::vector<std::string> out;
  while (!message.empty()) {
    if (message.size() < kNumber) return std::nullopt;
    const std::uint64_t size = read_number(message);
    message.remove_prefix(kNumber);
    if (size > message.size()) return std::nullopt;
    out.emplace_back(message.substr(0, size));
    message.remove_prefix(size);
  }
  return out;
}

}  // namespace weft::nvrtc
