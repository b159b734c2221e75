#include "tests/cache/fixture.h"

#include <utime.h>

namespace weft::cache {
namespace {

class UpkeepTest : public StoreTest {
 protected:
  /// Ten entries, `0` the least recently used.
  std::shared_ptr<Store> filled() {
    const auto store = open();
    for (int i = 0; i < 10; ++i) {
      const Key key = sample_key(std::to_string(i));
      EXPECT_TRUE(store->put(key, sample_entry(std::to_string(i))).published);
      const utimbuf time{.actime = 5000 + i, .modtime = 5000 + i};
      EXPECT_EQ(utime(file(key).c_str(), &time), 0);
    }
    return store;
  }
};

TEST_F(UpkeepTest, ListsWhatIsThereLeastRecentlyUsedFirst) {
  const auto store = filled();
  const auto list = store->list();
  ASSERT_EQ(list.size(), 10U);
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    EXPECT_EQ(list[i].digest, sample_key(std::to_string(i)).digest());
    EXPECT_EQ(list[i].used, 5000 + static_cast<std::int64_t>(i));
    EXPECT_EQ(list[i].bytes, fs::file_size(file(sample_key(std::to_string(i)))));
    total += list[i].bytes;
  }
  EXPECT_EQ(store->totals().bytes, total);
}

TEST_F(UpkeepTest, ReadsOneByItsDigest) {
  const auto store = filled();
  const auto decoded = store->read(sample_key("3").digest());
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded->key_text, sample_key("3").text());
  EXPECT_EQ(decoded->entry, sample_entry("3"));
  EXPECT_FALSE(store->read(sample_key("absent").digest()).ok());
  EXPECT_FALSE(store->read("../../etc/passwd").ok());
  EXPECT_FALSE(store->read("").ok());
}

TEST_F(UpkeepTest, VerifyFindsEveryKindOfBadEntryAndMovesItAside) {
  const auto store = filled();
  EXPECT_EQ(store->verify().good, 10U);
  EXPECT_TRUE(store->verify().bad.empty());
  std::string bytes = contents(file(sample_key("2")));
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  overwrite(file(sample_key("2")), bytes);
  fs::copy_file(file(sample_key("4")), file(sample_key("5")), fs::copy_options::overwrite_existing);
  chmod(file(sample_key("7")).c_str(), 0666);
  const Verified verified = store->verify();
  EXPECT_EQ(verified.good, 7U);
  EXPECT_EQ(verified.bad.size(), 3U);
  EXPECT_EQ(store->verify().good, 7U);
  EXPECT_TRUE(store->verify().bad.empty()) << "they were moved aside";
}

class EntriesBesideKernels : public UpkeepTest, public ::testing::WithParamInterface<EntryKindNames> {};

TEST_P(EntriesBesideKernels, AreKeptLikeThemAndAreNone) {
  const auto store = filled();
  const Key beside = Key(GetParam().kind).add("about", "something");
  const auto kernels = store->totals();
  ASSERT_TRUE(store->put(beside, {.plan = "a plan"}).published);
  const auto path = shard(beside) / beside.entry_name().substr(2);
  const auto bytes = contents(path);
  ASSERT_FALSE(bytes.empty());
  EXPECT_EQ(store->look_again(beside).entry->plan, "a plan");
  EXPECT_EQ(store->totals().entries, kernels.entries);
  EXPECT_EQ(store->totals().bytes, kernels.bytes + bytes.size());
  EXPECT_EQ(store->list().size(), kernels.entries);
  EXPECT_EQ(store->stats().puts, 10U);
  EXPECT_NE(store->nearest(Key().add("about", "something")).digest, beside.digest());
  EXPECT_EQ(store->verify().good, 10U);
  EXPECT_EQ(store->prune(1 << 30).files, 0U);

  overwrite(path, bytes.substr(1));
  const Verified verified = store->verify();
  EXPECT_EQ(verified.good, 10U);
  ASSERT_EQ(verified.bad.size(), 1U);
  EXPECT_EQ(verified.bad[0].digest, beside.digest());
  EXPECT_FALSE(fs::exists(path));
  EXPECT_EQ(store->prune(1 << 30).files, 1U) << "what was moved aside is swept";

  // Under a kernel's name it is none, and the other way round.
  ASSERT_TRUE(store->put(beside, {.plan = "a plan"}).published);
  fs::rename(path, fs::path(path).replace_extension());
  EXPECT_EQ(store->verify().bad.size(), 1U);
  EXPECT_EQ(store->prune(1 << 30).files, 1U);

  ASSERT_TRUE(store->put(beside, {.plan = "a plan"}).published);
  const utimbuf long_ago{.actime = 1, .modtime = 1};
  ASSERT_EQ(utime(path.c_str(), &long_ago), 0);
  store->prune(store->totals().bytes - 1);
  EXPECT_FALSE(fs::exists(path)) << "least recently used";
  ASSERT_TRUE(store->put(beside, {.plan = "a plan"}).published);
  store->clear();
  EXPECT_FALSE(fs::exists(path));
}

INSTANTIATE_TEST_SUITE_P(Kinds, EntriesBesideKernels, ::testing::Values(kEntryKinds[1], kEntryKinds[2]),
                         [](const auto& of) { return std::string(of.param.word); });

TEST_F(UpkeepTest, ClearRemovesOurFilesAndNoOthers) {
  const auto store = filled();
  overwrite(shard(sample_key("1")) / "tmp-0123456789abcdef", "half an entry");
  overwrite(file(sample_key("1")).string() + ".bad", "bad");
  overwrite(shard(sample_key("1")) / "notes.txt", "the user's");
  fs::create_directories(fs::path(root()) / "kernels-999" / "ab");
  overwrite(fs::path(root()) / "kernels-999" / "ab" / std::string(62, 'c'), "a later format's");
  const Removed removed = store->clear();
  EXPECT_EQ(removed.files, 12U);
  EXPECT_TRUE(store->list().empty());
  EXPECT_TRUE(fs::exists(shard(sample_key("1")) / "notes.txt"));
  EXPECT_TRUE(fs::exists(fs::path(root()) / "kernels-999" / "ab" / std::string(62, 'c')));
  EXPECT_TRUE(store->put(sample_key(), sample_entry()).published);
}

TEST_F(UpkeepTest, PruneKeepsTheMostRecentlyUsed) {
  const auto store = filled();
  const std::uint64_t one = fs::file_size(file(sample_key("0")));
  EXPECT_EQ(store->prune(10 * one).files, 0U);
  const Removed removed = store->prune(5 * one);
  EXPECT_GE(removed.files, 5U);
  EXPECT_LE(store->totals().bytes, 5 * one);
  EXPECT_EQ(store->get(sample_key("9")).outcome, Outcome::hit);
  EXPECT_EQ(store->get(sample_key("0")).outcome, Outcome::absent);
  EXPECT_EQ(removed.bytes, removed.files * one);
  store->prune(0);
  EXPECT_TRUE(store->list().empty());
}

TEST_F(UpkeepTest, PruneSweepsLeftovers) {
  const auto store = filled();
  const fs::path old = shard(sample_key("1")) / "tmp-0000000000000001";
  const fs::path young = shard(sample_key("1")) / "tmp-0000000000000002";
  overwrite(old, "left by a killed process");
  overwrite(young, "being written");
  const utimbuf time{.actime = 5000, .modtime = 5000};
  ASSERT_EQ(utime(old.c_str(), &time), 0);
  overwrite(file(sample_key("1")).string() + ".bad", "bad");
  EXPECT_EQ(store->prune(1 << 30).files, 2U);
  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(fs::exists(young));
}

TEST_F(UpkeepTest, PutsKeepTheStoreNearItsCap) {
  const std::uint64_t one = encode(sample_key("100").text(), sample_entry("100")).size();
  const auto capped = Store::open({.directory = root(), .cap = 20 * one});
  const auto unlimited = Store::open({.directory = root() + "2"});
  for (int i = 100; i < 600; ++i) {
    capped->put(sample_key(std::to_string(i)), sample_entry(std::to_string(i)));
    unlimited->put(sample_key(std::to_string(i)), sample_entry(std::to_string(i)));
  }
  EXPECT_LT(capped->list().size(), 400U) << "one put of 64 sweeps";
  EXPECT_EQ(unlimited->list().size(), 500U);
}

TEST_F(UpkeepTest, AMissExplainsItself) {
  const auto store = open();
  const Key wanted = Key().add("llvm", "22").add("target", "v3").add("options", "O2");
  EXPECT_EQ(store->explain_miss(wanted), "the store has no entries\n");
  store->put(Key().add("llvm", "19").add("target", "v4").add("options", "O2"), sample_entry());
  const Key nearest = Key().add("llvm", "19").add("target", "v3").add("options", "O2");
  store->put(nearest, sample_entry());
  EXPECT_EQ(store->explain_miss(wanted),
            "nearest entry " + nearest.digest() + ", 1 field(s) differ\n  llvm\n    wanted 22\n    stored 19\n");
  store->put(wanted, sample_entry());
  EXPECT_EQ(store->explain_miss(wanted), "the entry is stored: it is a hit\n");
}

}  // namespace
}  // namespace weft::cache
