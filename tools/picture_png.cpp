#include "tools/picture_png.h"

#include <zlib.h>

#include <algorithm>
#include <map>
#include <new>

namespace weft::tools {

using draw::Color;
using draw::color_of;
using draw::Picture;

namespace {

void put_u32(std::string& out, std::size_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift & 0xffU);
}

const Bytef* raw(const std::string& bytes) { return reinterpret_cast<const Bytef*>(bytes.data()); }

void put_chunk(std::string& out, const std::string& type, const std::string& data) {
  put_u32(out, data.size());
  const auto body = type + data;
  out += body;
  put_u32(out, ::crc32(0, raw(body), static_cast<uInt>(body.size())));
}

std::string deflated(const std::string& bytes) {
  auto size = ::compressBound(bytes.size());
  std::string out(size, '\0');
  // It cannot fail: there is room enough, and memory that cannot be had is an exception here.
  if (::compress2(reinterpret_cast<Bytef*>(out.data()), &size, raw(bytes), bytes.size(), Z_BEST_COMPRESSION) != Z_OK) {
    throw std::bad_alloc();
  }
  out.resize(size);
  return out;
}

/// The colours of a picture are few: mostly they fit a palette, and a pixel a byte.
class Palette {
 public:
  static constexpr std::size_t kMost = 256;

  explicit Palette(const Picture& picture) {
    for (std::int64_t y = 0; y < picture.height; ++y) {
      for (std::int64_t x = 0; x < picture.width; ++x) numbers_.emplace(color_of(picture, y, x), numbers_.size());
    }
  }
  bool fits() const { return numbers_.size() <= kMost; }

  std::string colors() const {
    std::string out(3 * numbers_.size(), '\0');
    for (const auto& [color, number] : numbers_) out.replace(3 * number, 3, bytes_of(color));
    return out;
  }

  std::string pixel(const Color& color) const {
    return fits() ? std::string(1, static_cast<char>(numbers_.at(color))) : bytes_of(color);
  }

 private:
  static std::string bytes_of(const Color& c) {
    return {static_cast<char>(c.r), static_cast<char>(c.g), static_cast<char>(c.b)};
  }
  std::map<Color, std::size_t> numbers_;
};

}  // namespace

std::string to_png(const Picture& picture) {
  const auto zoom = std::max<std::int64_t>(1, 768 / std::max(picture.width, picture.height));
  const Palette palette(picture);
  std::string lines;
  for (std::int64_t y = 0; y < picture.height; ++y) {
    std::string line(1, '\0');  // no filter
    for (std::int64_t x = 0; x < picture.width; ++x) {
      const auto pixel = palette.pixel(color_of(picture, y, x));
      for (std::int64_t i = 0; i < zoom; ++i) line += pixel;
    }
    for (std::int64_t i = 0; i < zoom; ++i) lines += line;
  }
  std::string header;
  put_u32(header, static_cast<std::size_t>(picture.width * zoom));
  put_u32(header, static_cast<std::size_t>(picture.height * zoom));
  // 8 bits: of the palette, or of each of red, green and blue.
  header.append({8, static_cast<char>(palette.fits() ? 3 : 2), 0, 0, 0});
  std::string out = "\x89PNG\r\n\x1a\n";
  put_chunk(out, "IHDR", header);
  if (palette.fits()) put_chunk(out, "PLTE", palette.colors());
  put_chunk(out, "IDAT", deflated(lines));
  put_chunk(out, "IEND", "");
  return out;
}

}  // namespace weft::tools
