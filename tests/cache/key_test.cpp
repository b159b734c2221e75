#include "kernels_cache/key.h"

#include "compiler/base/digest.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

namespace weft::cache {
namespace {

TEST(Key, TheSameFieldsGiveTheSameTextAndOthersAnother) {
  const Key key = Key().add("source", "x").add("target", "y");
  EXPECT_EQ(key.text(), Key().add("source", "x").add("target", "y").text());
  EXPECT_EQ(key.digest(), hex(sha256(key.text())));
  std::set<std::string> digests = {key.digest()};
  const Key others[] = {Key().add("source", "x").add("target", "z"),
                        Key().add("source", "z").add("target", "y"),
                        Key().add("source", "x").add("targets", "y"),
                        Key().add("target", "y").add("source", "x"),
                        Key().add("source", "x"),
                        Key().add("source", "x").add("target", ""),
                        Key().add("source", "x\ntarget=y"),
                        Key().add("source", "x\\ntarget=y"),
                        Key().add("source", "x=y").add("target", "y"),
                        Key().add("source", "x").add("target", "y").add("target", "y")};
  for (const Key& other : others) EXPECT_TRUE(digests.insert(other.digest()).second) << other.text();
}

TEST(Key, ALongTextCountsByItsDigest) {
  const std::string text(100000, 'a');
  std::string other = text;
  other[54321] = 'b';
  const Key key = Key().add_digest_of("source", text);
  EXPECT_LT(key.text().size(), 200U);
  EXPECT_EQ(key.text(), Key().add_digest_of("source", text).text());
  EXPECT_NE(key.text(), Key().add_digest_of("source", other).text());
}

TEST(Key, FieldsComeBackFromTheText) {
  const std::string odd = "a=b\nc\\n\\\xC3\xA9";
  const Key key = Key().add("one", odd).add("two.three_4", "");
  EXPECT_EQ(fields_of(key.text()), (std::vector<Field>{{"one", odd}, {"two.three_4", ""}}));
  EXPECT_TRUE(fields_of("something else").empty());
  EXPECT_TRUE(fields_of(key.text() + "unfinished").empty());
  EXPECT_TRUE(fields_of("").empty());
}

TEST(Key, KindsAreApart) {
  std::set<std::string> digests;
  for (const auto& [kind, word, ending] : kEntryKinds) {
    const Key key = Key(kind).add("source", "x");
    EXPECT_TRUE(digests.insert(key.digest()).second) << word;
    EXPECT_EQ(key.entry_name(), key.digest() + std::string(ending));
    EXPECT_EQ(fields_of(key.text()), fields_of(Key().add("source", "x").text()));
    EXPECT_EQ(&names_of(kind).word, &word) << "the table is in the order of the kinds";
  }
}

TEST(Key, ComesBackFromItsText) {
  for (const auto kind : {EntryKind::kernel, EntryKind::note, EntryKind::measurement}) {
    const Key key = Key(kind).add("one", "a=b\nc\\n").add("two", "");
    const auto again = Key::parse(key.text());
    ASSERT_TRUE(again);
    EXPECT_EQ(again->text(), key.text());
    EXPECT_EQ(again->kind(), kind);
    EXPECT_FALSE(Key::parse(key.text() + "unfinished"));
    EXPECT_FALSE(Key::parse(key.text() + "three=a\\b\n")) << "no key writes it so";
  }
  EXPECT_FALSE(Key::parse(fmt::format("weft other key {}\none=1\n", kKeyFormat)));
  EXPECT_FALSE(Key::parse(""));
}

TEST(Key, DifferencesNameTheFields) {
  const Key mine = Key().add("llvm", "22").add("target", "v3").add("same", "s");
  const Key theirs = Key().add("llvm", "19").add("same", "s").add("extra", "e");
  const auto found = differences(mine.text(), theirs.text());
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].name, "extra");
  EXPECT_EQ(found[0].mine, "");
  EXPECT_EQ(found[1].name, "llvm");
  EXPECT_EQ(found[1].mine, "22");
  EXPECT_EQ(found[1].theirs, "19");
  EXPECT_EQ(found[2].name, "target");
  EXPECT_TRUE(differences(mine.text(), mine.text()).empty());
}

}  // namespace
}  // namespace weft::cache
