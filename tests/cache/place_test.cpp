#include "kernels_cache/place.h"

#include "tests/cache/fixture.h"

namespace weft::cache {
namespace {

struct Case {
  std::optional<std::string> option, directory, xdg, home;
  std::string expected, origin;
};

TEST(Place, TheFirstThatIsSetDecides) {
  const std::string here = fs::current_path().string();
  const Case cases[] = {
      {"/o", "/d", "/x", "/h", "/o", "option"},
      {"o", "/d", "/x", "/h", here + "/o", "option"},
      {"", "/d", "/x", "/h", "/d", "WEFT_CACHE_DIR"},
      {"", "/d//e/../f", "/x", "/h", "/d/f", "WEFT_CACHE_DIR"},
      {"", "", "/x", "/h", "/x/weft", "XDG_CACHE_HOME"},
      {"", {}, "relative", "/h", "/h/.cache/weft", "HOME"},
      {"", {}, "", "/h", "/h/.cache/weft", "HOME"},
      {"", {}, {}, "/h", "/h/.cache/weft", "HOME"},
      {"", {}, {}, "/", "", "none"},
      {"", {}, {}, "//", "", "none"},
      {"", {}, {}, "relative", "", "none"},
      {"", {}, {}, "", "", "none"},
      {"", {}, {}, {}, "", "none"},
      {"", {}, "/x", {}, "/x/weft", "XDG_CACHE_HOME"},
  };
  for (const Case& c : cases) {
    const Variable directory("WEFT_CACHE_DIR", c.directory);
    const Variable xdg("XDG_CACHE_HOME", c.xdg);
    const Variable home("HOME", c.home);
    const Place place = choose_place(*c.option);
    EXPECT_EQ(place.directory, c.expected);
    EXPECT_EQ(place.origin, c.origin);
    EXPECT_EQ(place.reason.empty(), !c.expected.empty());
  }
}

TEST(Place, WithoutOneTheStoreIsSilent) {
  const Variable directory("WEFT_CACHE_DIR", std::nullopt);
  const Variable xdg("XDG_CACHE_HOME", std::nullopt);
  const Variable home("HOME", std::nullopt);
  const auto store = Store::open();
  EXPECT_EQ(store->path(), "");
  EXPECT_NE(store->reason(), "");
  EXPECT_EQ(store->get(sample_key()).outcome, Outcome::disabled);
  const PutResult put = store->put(sample_key(), sample_entry());
  EXPECT_FALSE(put.published);
  EXPECT_FALSE(put.warning.has_value());
}

}  // namespace
}  // namespace weft::cache
