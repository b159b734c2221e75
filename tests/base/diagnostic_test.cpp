#include "compiler/base/diagnostic.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

const Source kSource{"window.weft", "pattern p {\n  keep windw(3, 0);\n}\n"};

TEST(Diagnostic, UnderlinesTheRangeAndShowsTheFix) {
  const Diagnostic d{.code = "E0102",
                     .range = {19, 24},
                     .message = "unknown set 'windw'",
                     .label = "not a set",
                     .notes = {"sets are listed in the language page"},
                     .fix = Fix{{19, 24}, "window", "write 'window'"}};
  EXPECT_EQ(render(d, kSource),
            "error[E0102]: unknown set 'windw'\n"
            "  --> window.weft:2:8\n"
            "   |\n"
            " 2 |   keep windw(3, 0);\n"
            "   |        ^^^^^ not a set\n"
            "   = note: sets are listed in the language page\n"
            "help: write 'window'\n"
            "   |   keep window(3, 0);\n");
}

TEST(Diagnostic, CountsCodePointsNotBytes) {
  const Source source{"s", "# \xC3\xA9\xC3\xA9 x"};
  EXPECT_EQ(locate(source, 7).column, 6U);
}

TEST(Diagnostic, HostileBytesAndLongLinesStayShort) {
  const Source source{"s", std::string(1 << 20, '\x1b')};
  const std::string text = render({.code = "E1", .range = {500000, 500001}, .message = "bad"}, source);
  EXPECT_LT(text.size(), 1000U);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

TEST(Diagnostic, NearestWord) {
  EXPECT_EQ(nearest_word("windw", {"all", "window", "segment"}), "window");
  EXPECT_EQ(nearest_word("xyzzy", {"all", "window", "segment"}), "");
}

}  // namespace
}  // namespace weft
