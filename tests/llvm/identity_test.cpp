#include "runtime/object/identity.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

namespace weft::object {
namespace {

std::string note(const char* name, std::uint32_t type, const std::string& description) {
  const Elf64_Nhdr header{4, static_cast<Elf64_Word>(description.size()), type};
  std::string out(reinterpret_cast<const char*>(&header), sizeof header);
  out.append(name, 4);
  out += description;
  out.resize((out.size() + 3) & ~std::size_t{3}, '\0');
  return out;
}

/// A shared library of headers and notes only.
std::string library_with(const std::string& notes, const std::string& rest) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_phoff = sizeof header;
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = notes.empty() ? 0 : 1;
  Elf64_Phdr segment{};
  segment.p_type = PT_NOTE;
  segment.p_offset = sizeof header + sizeof segment;
  segment.p_filesz = notes.size();
  std::string out(reinterpret_cast<const char*>(&header), sizeof header);
  out.append(reinterpret_cast<const char*>(&segment), sizeof segment);
  return out + notes + rest;
}

class Identity : public testing::Test {
 protected:
  std::string of(const std::string& contents) {
    std::ofstream(path_, std::ios::binary) << contents;
    const auto found = library_identity(path_);
    return found.ok() ? *found : "error: " + found.error().message;
  }
  void TearDown() override { std::filesystem::remove(path_); }

  std::string path_ = testing::TempDir() + "weft-identity-" + std::to_string(getpid());
};

TEST_F(Identity, IsTheBuildIdAndTheSize) {
  const std::string other = note("GNU", NT_GNU_ABI_TAG, "0123");
  const std::string text = of(library_with(other + note("GNU", NT_GNU_BUILD_ID, "\x01\xAB"), "code"));
  EXPECT_EQ(text.rfind("build-id 01ab size ", 0), 0U) << text;
  EXPECT_NE(text, of(library_with(other + note("GNU", NT_GNU_BUILD_ID, "\x01\xAC"), "code"))) << "another build";
  EXPECT_NE(text, of(library_with(other + note("GNU", NT_GNU_BUILD_ID, "\x01\xAB"), "more code"))) << "another size";
  // The point of the build-id: the code itself is not read.
  EXPECT_EQ(text, of(library_with(other + note("GNU", NT_GNU_BUILD_ID, "\x01\xAB"), "edoc")));
}

TEST_F(Identity, IsTheHashWhereThereIsNoBuildId) {
  const std::string text = of(library_with("", "code"));
  EXPECT_EQ(text.rfind("sha256 ", 0), 0U) << text;
  EXPECT_NE(text, of(library_with("", "edoc")));
  EXPECT_EQ(text, of(library_with("", "code")));
  EXPECT_EQ(of(library_with(note("XYZ", NT_GNU_BUILD_ID, "\x01"), "")).rfind("sha256 ", 0), 0U) << "a foreign note";
}

TEST_F(Identity, HostileNotesAreNoBuildId) {
  std::string notes = note("GNU", NT_GNU_BUILD_ID, "abcd");
  for (const std::size_t size_at : {0U, 4U}) {
    std::string broken = notes;
    const std::uint32_t huge = 0xFFFFFFFFU;
    std::memcpy(broken.data() + size_at, &huge, sizeof huge);
    EXPECT_EQ(of(library_with(broken, "")).rfind("sha256 ", 0), 0U);
  }
}

TEST_F(Identity, OtherFilesAreErrors) {
  EXPECT_EQ(of("text").rfind("error: ", 0), 0U);
  EXPECT_EQ(of("").rfind("error: ", 0), 0U);
  EXPECT_FALSE(library_identity("/nonexistent").ok());
  EXPECT_FALSE(library_identity("/").ok());
}

}  // namespace
}  // namespace weft::object
