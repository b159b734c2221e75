#pragma once

#include "kernels_cache/store.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>

namespace weft::cache {

namespace fs = std::filesystem;

/// Sets or, without a value, unsets an environment variable for a scope.
class Variable {
 public:
  Variable(const char* name, std::optional<std::string> value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    set(value);
  }
  ~Variable() { set(old_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  void set(const std::optional<std::string>& value) { value ? setenv(name_, value->c_str(), 1) : unsetenv(name_); }

  const char* name_;
  std::optional<std::string> old_;
};

/// The administrator may write anywhere: what permissions do is only seen by somebody else.
class AsNobody {
 public:
  AsNobody() : active_(geteuid() == 0 && setegid(65534) == 0 && seteuid(65534) == 0) {}
  ~AsNobody() {
    if (active_ && (seteuid(0) != 0 || setegid(0) != 0)) std::abort();
  }
  AsNobody(const AsNobody&) = delete;
  AsNobody& operator=(const AsNobody&) = delete;

 private:
  bool active_;
};

inline std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void overwrite(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

inline Key sample_key(const std::string& variant = "a") {
  Key key;
  key.add("text", variant).add("target", "cpu:x86-64-v3");
  return key;
}

inline Entry sample_entry(const std::string& variant = "a") {
  return {.binary = "ELF of " + variant,
          .source = "define",
          .plan = "plan",
          .launch = "symbol=f",
          .build_us = 12345,
          .registers = 40,
          .spill_bytes = 0};
}

/// A directory of its own, gone afterwards; the store lies in `root()`.
class StoreTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "weft-store-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    base_ = pattern;
  }
  void TearDown() override {
    std::error_code ignored;
    for (const auto& entry : fs::recursive_directory_iterator(base_, ignored)) {
      if (entry.is_directory(ignored) && !entry.is_symlink(ignored)) chmod(entry.path().c_str(), 0700);
    }
    fs::remove_all(base_, ignored);
  }

  fs::path base() const { return base_; }
  std::string root() const { return (base_ / "store").string(); }
  std::shared_ptr<Store> open() const { return Store::open({.directory = root()}); }

  fs::path shard(const Key& key) const {
    return fs::path(root()) / ("kernels-" + std::to_string(kFormat)) / key.digest().substr(0, 2);
  }
  fs::path file(const Key& key) const { return shard(key) / key.digest().substr(2); }

  static mode_t mode_of(const fs::path& path) {
    struct stat info {};
    return lstat(path.c_str(), &info) == 0 ? info.st_mode & 07777U : 0;
  }

 private:
  fs::path base_;
};

}  // namespace weft::cache
