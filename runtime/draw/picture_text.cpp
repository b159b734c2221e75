#include "runtime/draw/picture.h"

#include "compiler/base/text_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace weft::draw {

namespace {

constexpr Color kBackground = {24, 26, 32};
/// One colour a multiplicity, the last for it and all above; chosen to differ in lightness as well.
constexpr std::array<Color, 5> kByMultiplicity = {
    {{70, 130, 220}, {60, 180, 140}, {230, 190, 70}, {235, 120, 60}, {220, 60, 90}}};

/// Ranks in turn; neighbours differ.
constexpr std::array<Color, 6> kByRank = {
    {{90, 150, 240}, {240, 170, 60}, {80, 200, 130}, {230, 90, 120}, {170, 130, 240}, {110, 210, 220}}};

Color mix(Color a, Color b, float share) {
  const auto blend = [share](int x, int y) {
    return static_cast<int>(std::lround(static_cast<float>(x) + static_cast<float>(y - x) * share));
  };
  return {blend(a.r, b.r), blend(a.g, b.g), blend(a.b, b.b)};
}

}  // namespace

Color color_of(const Picture& picture, std::int64_t y, std::int64_t x) {
  const auto at = picture.at(y, x);
  auto ground = kBackground;
  if (!picture.tiles.empty()) {
    if (picture.tiles[at] == TileKind::partial) ground = {74, 52, 30};
    if (picture.tiles[at] == TileKind::full) ground = {30, 62, 40};
  }
  if (picture.density[at] <= 0) return ground;
  if (!picture.row_owners.empty()) {
    const auto owner = picture.row_owners[static_cast<std::size_t>(y)];
    const auto& color = kByRank[static_cast<std::size_t>(owner) % kByRank.size()];
    const bool travels = picture.column_owners[static_cast<std::size_t>(x)] != owner;
    return mix(ground, color, (travels ? 1.0F : 0.45F) * std::sqrt(picture.density[at]));
  }
  const auto level = std::clamp<long>(std::lround(picture.strength[at]) - 1, 0, kByMultiplicity.size() - 1);
  // The root keeps thin patterns visible: a rate of 8 fills a 64th of its cells.
  return mix(ground, kByMultiplicity[static_cast<std::size_t>(level)], std::sqrt(picture.density[at]));
}

namespace {

std::string legend(const Picture& picture, bool color) {
  std::string text = fmt::format("queries down 0..{}, keys across 0..{}, head {}{}\n", picture.n_q - 1, picture.n_k - 1,
                                 picture.head, picture.sampled ? ", sampled" : "");
  if (!picture.row_owners.empty()) {
    return text + (color ? "colours: the rank that owns the query; bright where the key is another rank's\n"
                         : "before each line the rank that owns its queries\n");
  }
  if (!color) {
    if (picture.most > 1) text += fmt::format("darkest: a pair is kept by {:.2g} branches\n", picture.most);
    return text;
  }
  const auto strongest = *std::max_element(picture.strength.begin(), picture.strength.end());
  for (std::size_t m = 0; m < kByMultiplicity.size() && static_cast<float>(m) < strongest; ++m) {
    const auto& c = kByMultiplicity[m];
    text += fmt::format("\x1b[38;2;{};{};{}m█\x1b[0m kept by {}  ", c.r, c.g, c.b, m + 1);
  }
  return text + "\n";
}

/// What stands before a line.
std::string margin(const Picture& picture, std::int64_t y) {
  return picture.row_owners.empty() ? "  " : fmt::format("{:>4}  ", picture.row_owners[static_cast<std::size_t>(y)]);
}

std::string colored(const Picture& picture) {
  std::string text;
  for (std::int64_t y = 0; y < picture.height; y += 2) {
    text += margin(picture, y);
    for (std::int64_t x = 0; x < picture.width; ++x) {
      const auto upper = color_of(picture, y, x);
      const auto lower = y + 1 < picture.height ? color_of(picture, y + 1, x) : kBackground;
      text +=
          fmt::format("\x1b[38;2;{};{};{}m\x1b[48;2;{};{};{}m▀", upper.r, upper.g, upper.b, lower.r, lower.g, lower.b);
    }
    text += "\x1b[0m\n";
  }
  return text;
}

/// Shade of one cell: how much of it is kept, weighted by multiplicity.
float weight(const Picture& picture, std::int64_t y, std::int64_t x) {
  const auto at = picture.at(y, x);
  return picture.density[at] * picture.strength[at] / picture.most;
}

std::string shaded(const Picture& picture) {
  static constexpr std::array<const char*, 5> kShades = {" ", "░", "▒", "▓", "█"};
  std::string text;
  for (std::int64_t y = 0; y < picture.height; y += 2) {
    text += margin(picture, y);
    for (std::int64_t x = 0; x < picture.width; ++x) {
      const bool pair = y + 1 < picture.height;
      const float mean = pair ? (weight(picture, y, x) + weight(picture, y + 1, x)) / 2 : weight(picture, y, x);
      const auto level = mean <= 0 ? 0 : std::clamp<long>(std::lround(std::ceil(mean * 4)), 1, 4);
      const auto at = picture.at(y, x);
      const bool visited = !picture.tiles.empty() && picture.tiles[at] != TileKind::empty;
      text += level == 0 && visited ? "·" : kShades[static_cast<std::size_t>(level)];
    }
    while (text.back() == ' ') text.pop_back();
    text += '\n';
  }
  return text;
}

}  // namespace

std::string to_terminal(const Picture& picture, bool color) {
  auto text = legend(picture, color) + (color ? colored(picture) : shaded(picture));
  if (!picture.tiles.empty()) {
    text += color ? "tiles: green full, brown partial, dark never visited\n" : "tiles: · visited, nothing kept there\n";
  }
  return text;
}

std::string to_svg(const Picture& picture, const std::string& title) {
  const auto hex = [](Color c) { return fmt::format("#{:02x}{:02x}{:02x}", c.r, c.g, c.b); };
  TextWriter out;
  out.line(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" width=\"768\" shape-rendering=\"crispEdges\">",
      picture.width, picture.height);
  out.indent();
  out.line("<title>{}: {} queries, {} keys, head {}</title>", title, picture.n_q, picture.n_k, picture.head);
  out.line("<rect width=\"{}\" height=\"{}\" fill=\"{}\"/>", picture.width, picture.height, hex(kBackground));
  for (std::int64_t y = 0; y < picture.height; ++y) {
    for (std::int64_t x = 0, end = 0; x < picture.width; x = end) {
      const auto color = color_of(picture, y, x);
      for (end = x + 1; end < picture.width && color_of(picture, y, end) == color;) ++end;
      if (color == kBackground) continue;
      out.line("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"1\" fill=\"{}\"/>", x, y, end - x, hex(color));
    }
  }
  out.dedent();
  out.line("</svg>");
  return std::move(out).take();
}

}  // namespace weft::draw
