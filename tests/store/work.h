#pragma once

#include "kernels_cache/once.h"
#include "kernels_cache/store.h"
#include "tests/cache/fixture.h"
#include "tracer.h"

#include <fcntl.h>

#include <ctime>
#include <vector>

/// What the processes of these tests do with a store, and what a store may look like afterwards.
namespace weft::store_test {

namespace fs = std::filesystem;
using cache::Entry;
using cache::Key;
using cache::Lookup;
using cache::Outcome;
using cache::Store;

/// A store that is made anew for each attempt. In memory where possible, where syncing costs nothing.
class StoreWorkTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const fs::path place = ::access("/dev/shm", W_OK) == 0 ? fs::path("/dev/shm") : fs::temp_directory_path();
    std::string pattern = (place / "weft-work-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    base_ = pattern;
    runtime_.emplace("XDG_RUNTIME_DIR", base_.string());
  }
  void TearDown() override {
    std::error_code ignored;
    if (!base_.empty()) fs::remove_all(base_, ignored);
  }

  const fs::path& base() const { return base_; }
  fs::path root() const { return base_ / "store"; }
  fs::path format_root() const { return root() / ("kernels-" + std::to_string(cache::kFormat)); }
  void renew() const {
    fs::remove_all(root());
    fs::remove_all(base_ / "weft");
  }
  std::shared_ptr<Store> open(std::uint64_t cap = 1 << 20) const {
    return Store::open({.directory = root().string(), .cap = cap});
  }

  static Key key() { return cache::sample_key("wanted"); }
  static Key other_key(int i = 0) { return cache::sample_key("other " + std::to_string(i)); }
  static Entry old_entry() { return cache::sample_entry("old"); }
  static Entry new_entry() { return cache::sample_entry("new"); }
  static std::uint64_t entry_size() { return cache::encode(key().text(), new_entry()).size(); }
  static bool is_old_or_new(const Lookup& found) {
    return found.outcome == Outcome::hit && (*found.entry == old_entry() || *found.entry == new_entry());
  }
  static cache::Making making() {
    return {.make = []() -> Result<Entry> { return new_entry(); }};
  }

  fs::path file() const { return format_root() / key().digest().substr(0, 2) / key().digest().substr(2); }
  void put_old() const { ASSERT_TRUE(open()->put(key(), old_entry()).published); }
  void put_new() const { (void)open()->put(key(), new_entry()); }
  void put_other(int i) const { ASSERT_TRUE(open()->put(other_key(i), old_entry()).published); }
  void put_damaged() const {
    put_old();
    std::string bytes = cache::contents(file());
    char& middle = bytes[bytes.size() / 2];
    middle = static_cast<char>(middle ^ 1);
    cache::overwrite(file(), bytes);
  }

  /// The planted fault: a writer that neither makes a file of its own nor looks at what a call came to.
  void write_in_place() const {
    const std::string bytes = cache::encode(key().text(), new_entry());
    const int to = ::open(file().c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    for (std::size_t at = 0; at < bytes.size(); at += 64) {
      if (::write(to, bytes.data() + at, std::min<std::size_t>(64, bytes.size() - at)) < 0) continue;
    }
    ::close(to);
  }

  /// Files that are neither entries nor the store's sum.
  std::size_t leftovers() const {
    std::size_t out = 0;
    for (const auto& item : fs::recursive_directory_iterator(root())) {
      const std::string name = item.path().filename().string();
      out += item.is_regular_file() && (name.starts_with("tmp-") || name.find(".bad") != std::string::npos) ? 1U : 0U;
    }
    return out;
  }
  void age_everything() const {
    for (const auto& item : fs::recursive_directory_iterator(root())) {
      const timespec long_ago[2] = {{1000, 0}, {1000, 0}};
      (void)::utimensat(AT_FDCWD, item.path().c_str(), long_ago, AT_SYMLINK_NOFOLLOW);
    }
  }

 private:
  fs::path base_;
  std::optional<cache::Variable> runtime_;
};

/// The same for work that is traced.
class TracedWorkTest : public StoreWorkTest {
 protected:
  void SetUp() override {
    if (const std::string why = cannot_trace(); !why.empty()) GTEST_SKIP() << why;
    StoreWorkTest::SetUp();
  }
};

}  // namespace weft::store_test
