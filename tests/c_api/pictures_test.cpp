#include <weft/c.h>

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

/// Pictures by the C face.
namespace weft {
namespace {

struct Free {
  void operator()(weft_error* error) const { weft_error_free(error); }
  void operator()(weft_picture* picture) const { weft_picture_free(picture); }
};
using ErrorPtr = std::unique_ptr<weft_error, Free>;
using PicturePtr = std::unique_ptr<weft_picture, Free>;

std::pair<PicturePtr, ErrorPtr> drawn(const char* text, const weft_draw_options& draw) {
  weft_picture* picture = nullptr;
  ErrorPtr error(weft_draw(text, text == nullptr ? 0 : std::strlen(text), nullptr, &draw, &picture));
  return {PicturePtr(picture), std::move(error)};
}

std::string message_of(const ErrorPtr& error) { return error ? weft_error_message(error.get()) : ""; }

TEST(CPictures, ShowWhatIsKept) {
  weft_draw_options draw = weft_draw_options_init();
  draw.n_q = 6;
  const auto [picture, error] = drawn("pattern p { keep window(2, 0); }", draw);
  ASSERT_NE(picture, nullptr) << weft_error_report(error.get());
  const auto cells = weft_picture_cells_of(picture.get());
  ASSERT_EQ(cells.rows, 6);
  ASSERT_EQ(cells.columns, 6);
  EXPECT_EQ(cells.n_q, 6);
  EXPECT_EQ(cells.n_k, 6);
  EXPECT_EQ(cells.sampled, 0);
  for (std::int64_t q = 0; q < 6; ++q) {
    for (std::int64_t k = 0; k < 6; ++k) {
      const float kept = k <= q && k >= q - 2 ? 1.0F : 0.0F;
      EXPECT_EQ(cells.density[q * 6 + k], kept) << q << ", " << k;
      EXPECT_EQ(cells.multiplicity[q * 6 + k], kept);
      const auto* const color = cells.colors + 3 * (q * 6 + k);
      EXPECT_EQ(std::memcmp(color, cells.colors, 3) == 0, kept == 1) << "the first pair is kept";
    }
  }
  EXPECT_NE(std::string(weft_picture_svg(picture.get())).find("<title>p: 6 queries, 6 keys, head 0</title>"),
            std::string::npos);
  EXPECT_EQ(std::string(weft_picture_text(picture.get())).substr(0, 43), "queries down 0..5, keys across 0..5, head 0");
}

TEST(CPictures, ReadInputs) {
  const std::vector<std::int32_t> ids = {0, 0, 1, 1};
  const std::int64_t extents[] = {1, 4};
  const weft_named_tensor input = {"ids", weft_dense(ids.data(), WEFT_I32, 2, extents)};
  weft_draw_options draw = weft_draw_options_init();
  draw.n_q = 4;
  draw.inputs = &input;
  draw.input_count = 1;
  constexpr const char* kText = "pattern p { input ids: i32[batch, tokens]; keep document(ids); }";
  const auto [picture, error] = drawn(kText, draw);
  ASSERT_NE(picture, nullptr) << weft_error_report(error.get());
  const auto cells = weft_picture_cells_of(picture.get());
  for (std::int64_t at = 0; at < 16; ++at) {
    EXPECT_EQ(cells.density[at],
              ids[static_cast<std::size_t>(at / 4)] == ids[static_cast<std::size_t>(at % 4)] ? 1 : 0);
  }
  EXPECT_EQ(message_of(drawn("pattern p { keep causal; }", draw).second), "p has no input 'ids'");
}

TEST(CPictures, AreAsLargeAsShowsThePattern) {
  const auto cells_of = [](const char* text, std::int64_t most) {
    weft_draw_options draw = weft_draw_options_init();
    draw.cells = most;
    const auto [picture, error] = drawn(text, draw);
    return weft_picture_cells_of(picture.get());
  };
  EXPECT_EQ(cells_of("pattern p { keep causal; }", 0).rows, 64);
  EXPECT_EQ(cells_of("pattern p { keep causal; }", 16).columns, 16);
  EXPECT_EQ(cells_of("pattern p { keep causal; }", 0).n_q, 512);
  EXPECT_EQ(cells_of("pattern p { tokens 96; keep causal; }", 0).n_k, 96);
  EXPECT_EQ(cells_of("pattern p { tokens multiple_of 100; keep causal; }", 0).n_k, 600);
  EXPECT_EQ(cells_of("pattern p { keep blocks(128, neighborhood(9)); }", 0).n_k, 1152);
  EXPECT_EQ(cells_of("pattern p { grid 8, 12; keep axial; }", 0).n_k, 96);
}

TEST(CPictures, SayWhatIsWrong) {
  weft_draw_options draw = weft_draw_options_init();
  EXPECT_EQ(message_of(drawn(nullptr, draw).second), "the text is NULL");
  EXPECT_NE(message_of(drawn("pattern p { keep causl; }", draw).second).find("causl"), std::string::npos);
  draw.head = 8;
  EXPECT_EQ(message_of(drawn("pattern p { keep causal; }", draw).second), "head 8 of 8 heads: they count from 0");
  draw.head = 0;
  draw.n_k = -1;
  EXPECT_EQ(message_of(drawn("pattern p { keep causal; }", draw).second),
            "weft_draw_options::n_k is -1; expected 0 or more");
  EXPECT_NE(ErrorPtr(weft_draw("", 0, nullptr, nullptr, nullptr)), nullptr);
  EXPECT_EQ(weft_picture_cells_of(nullptr).rows, 0);
  EXPECT_STREQ(weft_picture_text(nullptr), "");
  EXPECT_STREQ(weft_picture_svg(nullptr), "");
  weft_picture_free(nullptr);
}

}  // namespace
}  // namespace weft
