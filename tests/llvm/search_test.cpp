#include "runtime/llvm/search.h"

#include "runtime/llvm/library.h"
#include "tests/llvm/kernels.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace weft::llvm {
namespace {

namespace fs = std::filesystem;

class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    setenv(name, value.c_str(), 1);
  }
  ~Variable() { old_.empty() ? unsetenv(name_) : setenv(name_, old_.c_str(), 1); }

 private:
  const char* name_;
  std::string old_;
};

class Directory {
 public:
  Directory() {
    std::string pattern = (fs::temp_directory_path() / "weft-llvm-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~Directory() { fs::remove_all(path_); }
  std::string file(const std::string& name, const std::string& contents = "") const {
    std::ofstream(path_ / name) << contents;
    return (path_ / name).string();
  }
  std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

bool mentions(const Error& error, const std::string& text) {
  for (const std::string& note : error.notes) {
    if (note.find(text) != std::string::npos) return true;
  }
  return error.message.find(text) != std::string::npos;
}

TEST(LlvmSearch, TakesTheNewestAndPassesOverOldOnes) {
  const Directory place;
  for (const char* name :
       {"libLLVM-14.so.1", "libLLVM-15.so", "libLLVM-16.so.1", "libLLVM-19.so.1", "libLLVM.so.22.1",
        "libLLVM-22-rust-1.95.0-stable.so", "libLLVMX86CodeGen.so", "libLLVM-23.a", "libLLVM-x.so"}) {
    place.file(name);
  }
  const auto located = locate(place.path());
  ASSERT_TRUE(located.ok()) << located.error().message;
  EXPECT_EQ(fs::path(*located).filename(), "libLLVM.so.22.1");
  fs::remove(place.path() + "/libLLVM.so.22.1");
  EXPECT_EQ(fs::path(*locate(place.path())).filename(), "libLLVM-19.so.1");
  fs::remove(place.path() + "/libLLVM-19.so.1");
  EXPECT_EQ(fs::path(*locate(place.path())).filename(), "libLLVM-16.so.1");
  fs::remove(place.path() + "/libLLVM-16.so.1");
  const auto none = locate(place.path());
  ASSERT_FALSE(none.ok());
  EXPECT_TRUE(mentions(none.error(), "LLVM 15 is too old"));
  EXPECT_TRUE(mentions(none.error(), "LLVM 14 is too old"));
}

TEST(LlvmSearch, APlainLinkTellsItsVersionByTheFileBehindIt) {
  const Directory place;
  fs::create_symlink(place.file("libLLVM-14.0.6.so"), place.path() + "/libLLVM.so");
  EXPECT_FALSE(locate(place.path()).ok());
  fs::remove(place.path() + "/libLLVM.so");
  fs::create_symlink(place.file("libLLVM-20.so.1"), place.path() + "/libLLVM.so");
  const auto located = locate(place.path());
  ASSERT_TRUE(located.ok());
  EXPECT_EQ(fs::path(*located).filename(), "libLLVM-20.so.1");
}

TEST(LlvmSearch, TheLoadersPathIsSearched) {
  const Directory place;
  place.file("libLLVM-99.so");
  const Variable path("LD_LIBRARY_PATH", place.path());
  const Variable unset("WEFT_LLVM", "");
  const auto located = locate();
  ASSERT_TRUE(located.ok());
  EXPECT_EQ(fs::path(*located).filename(), "libLLVM-99.so");
}

TEST(LlvmSearch, AMissingLibraryIsAnEnvironmentErrorThatSaysHowToInstallIt) {
  const Variable variable("WEFT_LLVM", "/nonexistent");
  const auto opened = Library::open();
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().kind, ErrorKind::environment);
  EXPECT_TRUE(mentions(opened.error(), "/nonexistent"));
  EXPECT_TRUE(mentions(opened.error(), "install"));
  const Report report = examine();
  EXPECT_FALSE(report.usable);
  EXPECT_NE(report.reason.find("/nonexistent"), std::string::npos);
  EXPECT_NE(report.mend.find("install"), std::string::npos);
}

TEST(LlvmSearch, AnExplicitPathIsNeverSilentlyReplaced) {
  const Directory place;
  EXPECT_FALSE(Library::open(place.path()).ok()) << "an empty directory";
  const auto text = Library::open(place.file("libLLVM-22.so", "no library"));
  ASSERT_FALSE(text.ok());
  EXPECT_EQ(text.error().kind, ErrorKind::environment);
  const auto old = Library::open(place.file("libLLVM-15.so.1", "old"));
  ASSERT_FALSE(old.ok());
  EXPECT_TRUE(mentions(old.error(), "LLVM 15 is too old"));
  const auto other = Library::open("/lib/x86_64-linux-gnu/libm.so.6");
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().kind, ErrorKind::environment);
}

TEST(LlvmSearch, TheInstalledLibraryIsDescribed) {
  const Report report = examine();
  ASSERT_TRUE(report.usable) << report.reason << "\n" << report.mend;
  EXPECT_EQ(report.path, *locate());
  EXPECT_GE(std::stoi(report.version), kOldestVersion);
  const auto first = identity();
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(*first, *identity(report.path));
}

}  // namespace
}  // namespace weft::llvm
