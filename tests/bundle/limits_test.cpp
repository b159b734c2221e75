/// What reading and copying bundles costs, and whose files building one touches.

#include "command.h"

#include "kernels_cache/bundle/reader.h"
#include "kernels_cache/bundle/writer.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

namespace weft::test {
namespace {

namespace fs = std::filesystem;

/// Kernels of one name that share a source which does not shrink.
std::string many_kernels(std::size_t count, std::size_t shared_bytes) {
  std::string source(shared_bytes, '\0');
  std::uint64_t state = 1;
  for (auto& c : source) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    c = static_cast<char>(state >> 56);
  }
  bundle::Writer writer;
  bundle::Kernel kernel{.name = "p", .target = "sm_61", .variant = "f16", .source = source};
  const auto first = bundle::pack(kernel);
  for (std::size_t i = 0; i < count; ++i) {
    kernel.request = "request " + std::to_string(i);
    writer.add(bundle::pack_like(first.value(), kernel).value());
  }
  return writer.finish().value();
}

long most_kilobytes_of_children() {
  rusage usage{};
  ::getrusage(RUSAGE_CHILDREN, &usage);
  return usage.ru_maxrss;
}

class BundleLimits : public Commands {};

TEST_F(BundleLimits, WhatKernelsShareIsSharedWhenTheyAreCopied) {
  // 4,000 times 256 KB would be a gigabyte.
  const auto file = scratch_.write("many.wfb", many_kernels(4000, 256 << 10));
  EXPECT_EQ(weft({"bundle", "merge", "-o", path("merged.wfb"), file, file}).status, 0);
  EXPECT_EQ(contents(path("merged.wfb")), contents(file));
  EXPECT_EQ(weft({"bundle", "diff", file, path("merged.wfb")}).status, 0);
  EXPECT_LT(most_kilobytes_of_children(), 400 << 10) << "with room for sanitizers";
}

/// One name for all was quadratic.
TEST_F(BundleLimits, NamesThatOccurOftenAreListedAtOnce) {
  const auto file = scratch_.write("many.wfb", many_kernels(20000, 16));
  const auto listed = json({"bundle", "ls", file});
  EXPECT_EQ(listed["kernels"].size(), 20000u);
}

/// Lists are written item by item.
TEST_F(BundleLimits, ListsAreTheTextOfOneObject) {
  for (const std::size_t count : {1U, 2U}) {
    const auto file = scratch_.write("some.wfb", many_kernels(count, 16));
    const auto text = weft({"bundle", "ls", file, "--json"}).out;
    EXPECT_EQ(text, nlohmann::ordered_json::parse(text).dump(2) + "\n");
  }
}

TEST_F(BundleLimits, WhatABuildFindsInItsWayStays) {
  fs::create_directory(path("x.wfb.partial"));
  scratch_.write("x.wfb.partial/thesis.tex", "years of work");
  const auto refused = weft(build("x.wfb"));
  EXPECT_EQ(refused.status, 1);
  EXPECT_NE(refused.err.find("in the way"), std::string::npos) << refused.err;
  EXPECT_EQ(contents(path("x.wfb.partial/thesis.tex")), "years of work");
  scratch_.write("y.wfb.partial", "a file");
  EXPECT_EQ(weft(build("y.wfb")).status, 1);
  EXPECT_EQ(contents(path("y.wfb.partial")), "a file");
}

TEST_F(BundleLimits, LongNamesAreNames) {
  const auto name = std::string(251, 'x') + ".wfb";
  built(name);
  EXPECT_EQ(scratch_.files().size(), 2u) << "the patterns and the bundle";
}

TEST_F(BundleLimits, OutputsKeepTheirModeAndLinksStayLinks) {
  const auto file = scratch_.write("secret.wfb", "");
  ::chmod(file.c_str(), 0600);
  built("secret.wfb");
  struct stat info {};
  ASSERT_EQ(::stat(file.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  fs::create_symlink("made.wfb", path("link.wfb"));
  built("link.wfb");
  EXPECT_TRUE(fs::is_symlink(path("link.wfb")));
  EXPECT_EQ(contents(path("made.wfb")), contents(file));
}

}  // namespace
}  // namespace weft::test
