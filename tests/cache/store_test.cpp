#include "kernels_cache/store.h"

#include "tests/cache/fixture.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <utime.h>

#include <csignal>

namespace weft::cache {
namespace {

TEST_F(StoreTest, WhatWasPutIsGotByThisAndOtherStores) {
  const auto store = open();
  EXPECT_EQ(store->get(sample_key()).outcome, Outcome::absent);
  EXPECT_FALSE(fs::exists(root())) << "looking makes nothing";
  const PutResult put = store->put(sample_key(), sample_entry());
  EXPECT_TRUE(put.published) << put.warning->message;
  for (const auto& reader : {store, open()}) {
    const Lookup found = reader->get(sample_key());
    ASSERT_EQ(found.outcome, Outcome::hit) << found.detail;
    EXPECT_EQ(*found.entry, sample_entry());
    EXPECT_EQ(reader->get(sample_key("b")).outcome, Outcome::absent);
  }
  EXPECT_EQ(store->stats().hits(), 1U);
  EXPECT_EQ(store->stats().misses(), 2U);
  EXPECT_EQ(store->stats().count(Outcome::absent), 2U);
  EXPECT_EQ(store->stats().puts, 1U);
}

TEST_F(StoreTest, OnlyTheOwnerMayRead) {
  const mode_t old = umask(0);
  open()->put(sample_key(), sample_entry());
  umask(old);
  EXPECT_EQ(mode_of(root()), 0700U);
  EXPECT_EQ(mode_of(shard(sample_key())), 0700U);
  EXPECT_EQ(mode_of(file(sample_key())), 0600U);
}

TEST_F(StoreTest, PutReplacesAndLeavesNothingElse) {
  const auto store = open();
  store->put(sample_key(), sample_entry("old"));
  store->put(sample_key(), sample_entry("new"));
  EXPECT_EQ(*store->get(sample_key()).entry, sample_entry("new"));
  EXPECT_EQ(std::distance(fs::directory_iterator(shard(sample_key())), {}), 1);
}

TEST_F(StoreTest, NoFlippedBitIsEverLoaded) {
  const auto store = open();
  store->put(sample_key(), sample_entry());
  const std::string bytes = contents(file(sample_key()));
  ASSERT_FALSE(bytes.empty());
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    overwrite(file(sample_key()), flipped);
    const Lookup found = store->get(sample_key());
    ASSERT_NE(found.outcome, Outcome::hit) << "bit " << bit;
    ASSERT_FALSE(found.entry.has_value());
    const bool in_format = bit / 64 == 1 && bit < 96;
    ASSERT_EQ(found.outcome, in_format ? Outcome::other_format : Outcome::corrupt) << found.detail;
    ASSERT_EQ(fs::exists(file(sample_key())), in_format) << "moved aside, other formats left alone";
  }
  // The control: the same file with its bits as they were is loaded.
  overwrite(file(sample_key()), bytes);
  EXPECT_EQ(store->get(sample_key()).outcome, Outcome::hit);
}

TEST_F(StoreTest, NoTruncationIsEverLoadedAndThePutMendsIt) {
  const auto store = open();
  store->put(sample_key(), sample_entry());
  const std::string bytes = contents(file(sample_key()));
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    overwrite(file(sample_key()), bytes.substr(0, size));
    ASSERT_EQ(store->get(sample_key()).outcome, Outcome::corrupt) << size;
  }
  EXPECT_EQ(store->stats().count(Outcome::corrupt), bytes.size());
  EXPECT_TRUE(fs::exists(file(sample_key()).string() + ".bad"));
  EXPECT_TRUE(store->put(sample_key(), sample_entry()).published);
  EXPECT_EQ(store->get(sample_key()).outcome, Outcome::hit);
}

TEST_F(StoreTest, AnEntryUnderAnotherKeysNameIsNotTaken) {
  const auto store = open();
  store->put(sample_key("a"), sample_entry("a"));
  store->put(sample_key("b"), sample_entry("b"));
  fs::copy_file(file(sample_key("a")), file(sample_key("b")), fs::copy_options::overwrite_existing);
  chmod(file(sample_key("b")).c_str(), 0600);
  EXPECT_EQ(store->get(sample_key("b")).outcome, Outcome::other_key);
  EXPECT_EQ(store->get(sample_key("a")).outcome, Outcome::hit);
}

TEST_F(StoreTest, LinksAndOtherThingsInPlaceOfFilesAreNotFollowed) {
  const auto store = open();
  store->put(sample_key(), sample_entry());
  const fs::path original = base() / "elsewhere";
  fs::rename(file(sample_key()), original);
  fs::create_symlink(original, file(sample_key()));
  EXPECT_EQ(store->get(sample_key()).outcome, Outcome::unsafe);
  EXPECT_TRUE(fs::exists(original));
  fs::create_directory(file(sample_key()));
  EXPECT_EQ(store->get(sample_key()).outcome, Outcome::unsafe);
  ASSERT_EQ(mkfifo(file(sample_key()).c_str(), 0600), 0);
  EXPECT_EQ(store->get(sample_key()).outcome, Outcome::unsafe) << "and does not wait for a writer";
  EXPECT_TRUE(store->put(sample_key(), sample_entry()).published);
  EXPECT_EQ(store->get(sample_key()).outcome, Outcome::hit);
}

TEST_F(StoreTest, AShardThatIsALinkIsNotUsed) {
  open()->put(sample_key(), sample_entry());
  fs::rename(shard(sample_key()), base() / "elsewhere");
  fs::create_directory_symlink(base() / "elsewhere", shard(sample_key()));
  EXPECT_EQ(open()->get(sample_key()).outcome, Outcome::unsafe);
  const PutResult put = open()->put(sample_key(), sample_entry());
  EXPECT_FALSE(put.published);
  ASSERT_TRUE(put.warning.has_value());
  EXPECT_EQ(put.warning->code, "cache-unsafe");
}

TEST_F(StoreTest, WhatOthersCanWriteIsNotUsed) {
  open()->put(sample_key(), sample_entry());
  const fs::path places[] = {root(), shard(sample_key()).parent_path(), shard(sample_key()), file(sample_key())};
  for (const fs::path& place : places) {
    const mode_t right = mode_of(place);
    for (const mode_t wrong : {right | 0020, right | 0002}) {
      SCOPED_TRACE(place.string() + " " + std::to_string(wrong));
      ASSERT_EQ(chmod(place.c_str(), wrong), 0);
      const auto store = open();
      const Lookup found = store->get(sample_key());
      EXPECT_EQ(found.outcome, Outcome::unsafe);
      EXPECT_NE(found.detail.find("others can write"), std::string::npos) << found.detail;
      if (place == file(sample_key())) fs::rename(place.string() + ".bad", place);
      chmod(place.c_str(), right);
      EXPECT_EQ(open()->get(sample_key()).outcome, Outcome::hit) << "the control";
    }
  }
}

TEST_F(StoreTest, AnUnsafeRootMeansMemoryOnlyWithAClearMessage) {
  open()->put(sample_key(), sample_entry());
  chmod(root().c_str(), 0777);
  const auto store = open();
  EXPECT_EQ(store->path(), "");
  EXPECT_NE(store->reason().find("others can write to it (mode 0777)"), std::string::npos) << store->reason();
  EXPECT_NE(store->reason().find(root()), std::string::npos);
  const PutResult put = store->put(sample_key("b"), sample_entry());
  EXPECT_FALSE(put.published);
  ASSERT_TRUE(put.warning.has_value());
  EXPECT_EQ(put.warning->code, "cache-unsafe");
  EXPECT_FALSE(fs::exists(file(sample_key("b"))));
}

TEST_F(StoreTest, WhatBelongsToSomebodyElseIsNotUsed) {
  if (geteuid() != 0) GTEST_SKIP() << "only the administrator can give files away";
  open()->put(sample_key(), sample_entry());
  const fs::path places[] = {root(), shard(sample_key()).parent_path(), shard(sample_key()), file(sample_key())};
  for (const fs::path& place : places) {
    SCOPED_TRACE(place);
    ASSERT_EQ(chown(place.c_str(), 1234, 1234), 0);
    const Lookup found = open()->get(sample_key());
    EXPECT_EQ(found.outcome, Outcome::unsafe);
    EXPECT_NE(found.detail.find("user 1234"), std::string::npos) << found.detail;
    if (place == file(sample_key())) fs::rename(place.string() + ".bad", place);
    ASSERT_EQ(chown(place.c_str(), 0, 0), 0);
    EXPECT_EQ(open()->get(sample_key()).outcome, Outcome::hit) << "the control";
  }
}

TEST_F(StoreTest, AReadOnlyStoreServesAndWarns) {
  chmod(base().c_str(), 0777);
  {
    const AsNobody nobody;
    open()->put(sample_key(), sample_entry());
    chmod(shard(sample_key()).c_str(), 0500);
    chmod(shard(sample_key()).parent_path().c_str(), 0500);
    const auto store = open();
    EXPECT_EQ(store->get(sample_key()).outcome, Outcome::hit);
    for (const char* variant : {"a", "b"}) {
      const PutResult put = store->put(sample_key(variant), sample_entry());
      EXPECT_FALSE(put.published);
      ASSERT_TRUE(put.warning.has_value());
      EXPECT_EQ(put.warning->code, "cache-denied") << put.warning->message;
    }
    EXPECT_EQ(store->stats().failed_puts, 2U);
    // An unreadable entry is a miss, but stays: the system's refusals pass.
    chmod(shard(sample_key()).c_str(), 0700);
    chmod(file(sample_key()).c_str(), 0);
    EXPECT_EQ(store->get(sample_key()).outcome, Outcome::unreadable);
    chmod(file(sample_key()).c_str(), 0600);
    EXPECT_EQ(store->get(sample_key()).outcome, Outcome::hit);
  }
}

TEST_F(StoreTest, AnUnwritableHomeIsNormal) {
  const Variable no_directory("WEFT_CACHE_DIR", std::nullopt);
  const Variable no_xdg("XDG_CACHE_HOME", std::nullopt);
  chmod(base().c_str(), 0555);
  const AsNobody nobody;
  for (const std::string& home : {base().string(), base().string() + "/absent", std::string("/dev/null")}) {
    const Variable variable("HOME", home);
    const auto store = Store::open();
    EXPECT_NE(store->get(sample_key()).outcome, Outcome::hit);
    const PutResult put = store->put(sample_key(), sample_entry());
    EXPECT_FALSE(put.published) << home;
    ASSERT_TRUE(put.warning.has_value());
  }
}

TEST_F(StoreTest, AFullDiskIsAWarningAndLeavesNothing) {
  const auto store = open();
  store->put(sample_key(), sample_entry());
  struct rlimit old {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small { .rlim_cur = 200, .rlim_max = old.rlim_max };
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const PutResult put = store->put(sample_key(), sample_entry("new"));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
  (void)std::signal(SIGXFSZ, handler);
  EXPECT_FALSE(put.published);
  ASSERT_TRUE(put.warning.has_value());
  EXPECT_EQ(put.warning->code, "cache-full") << put.warning->message;
  EXPECT_EQ(*store->get(sample_key()).entry, sample_entry()) << "the old entry is still there";
  EXPECT_EQ(std::distance(fs::directory_iterator(shard(sample_key())), {}), 1);
}

TEST_F(StoreTest, ARemovedStoreIsMadeAnew) {
  const auto store = open();
  store->put(sample_key(), sample_entry());
  fs::remove_all(root());
  EXPECT_EQ(store->get(sample_key()).outcome, Outcome::absent);
  EXPECT_TRUE(store->put(sample_key(), sample_entry()).published);
  EXPECT_EQ(store->get(sample_key()).outcome, Outcome::hit);
}

TEST_F(StoreTest, ADisabledStoreMissesSilently) {
  const auto store = Store::open({.directory = root(), .disabled = true});
  EXPECT_EQ(store->get(sample_key()).outcome, Outcome::disabled);
  const PutResult put = store->put(sample_key(), sample_entry());
  EXPECT_FALSE(put.published);
  EXPECT_FALSE(put.warning.has_value());
  EXPECT_FALSE(fs::exists(root()));
  EXPECT_TRUE(store->list().empty());
}

TEST_F(StoreTest, AHitCountsAsUseOnceAnHour) {
  const auto store = open();
  store->put(sample_key(), sample_entry());
  const utimbuf long_ago{.actime = 1000, .modtime = 1000};
  ASSERT_EQ(utime(file(sample_key()).c_str(), &long_ago), 0);
  EXPECT_EQ(store->verify().good, 1U);
  EXPECT_EQ(store->list().front().used, 1000) << "looking at all is no use of any";
  store->get(sample_key());
  EXPECT_GT(store->list().front().used, 1000000);
}

TEST_F(StoreTest, NamesOfAnyKindWork) {
  for (const std::string& name : {std::string("with space"), std::string("quote'\"$x"), std::string("new\nline"),
                                  std::string("\xC3\xA9"), std::string(255, 'n')}) {
    const auto store = Store::open({.directory = (base() / name / "deep" / "er").string()});
    EXPECT_TRUE(store->put(sample_key(), sample_entry()).published) << name;
    EXPECT_EQ(store->get(sample_key()).outcome, Outcome::hit) << name;
  }
}

}  // namespace
}  // namespace weft::cache
