#pragma once

#include "stand_in/stand_in.h"

#include <dlfcn.h>
#include <elf.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

namespace weft::test {

/// Tests that see the stand-in as the machine's driver. Each test opens it under a name of its own: what a process
/// knows of a driver is remembered by name.
class WithStandIn : public ::testing::Test {
 protected:
  WithStandIn() {
    auto name = (std::filesystem::temp_directory_path() / "weft-cuda-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    void* library = dlopen(WEFT_STAND_IN, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw std::runtime_error(dlerror());
    stand_in_ = reinterpret_cast<StandIn* (*)()>(dlsym(library, "weft_stand_in"))();
    current_ = reinterpret_cast<std::uint64_t (*)()>(dlsym(library, "weft_stand_in_current"));
    set_current_ = reinterpret_cast<void (*)(std::uint64_t)>(dlsym(library, "weft_stand_in_set_current"));
    primary_ = reinterpret_cast<std::uint64_t (*)(int)>(dlsym(library, "weft_stand_in_primary"));
    stand_in_->forget();
    stand_in_->devices = {{"Stand-in 6.1", 61}};
    set_current_(0);
    new_name();
  }
  ~WithStandIn() override {
    ::unsetenv("WEFT_CUDA_DRIVER");
    std::filesystem::remove_all(folder_);
  }

  /// From here on the driver is one that nobody has opened.
  void new_name() {
    const auto link = folder_ + "/libcuda" + std::to_string(names_++) + ".so";
    std::filesystem::create_symlink(WEFT_STAND_IN, link);
    ::setenv("WEFT_CUDA_DRIVER", link.c_str(), 1);
  }

  StandIn& driver() { return *stand_in_; }
  std::uint64_t current() const { return current_(); }
  void set_current(std::uint64_t context) const { set_current_(context); }
  std::uint64_t primary(int device) const { return primary_(device); }
  /// After failures of what frees.
  void free_what_is_alive() {
    for (const auto& [address, bytes] : stand_in_->memory) std::free(reinterpret_cast<void*>(address));
    stand_in_->memory.clear();
  }
  void expect_nothing_alive() const {
    EXPECT_EQ(stand_in_->memory.size(), 0u);
    EXPECT_EQ(stand_in_->modules, 0);
    EXPECT_EQ(stand_in_->events, 0);
    EXPECT_EQ(stand_in_->own_streams, 0);
    EXPECT_EQ(stand_in_->contexts, 0);
  }

  std::string folder_;

 private:
  StandIn* stand_in_ = nullptr;
  std::uint64_t (*current_)() = nullptr;
  void (*set_current_)(std::uint64_t) = nullptr;
  std::uint64_t (*primary_)(int) = nullptr;
  int names_ = 0;
};

/// As much of a cubin as a driver looks at before it trusts it: the header, and a name.
inline std::string cubin_of(const std::string& symbol) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_machine = EM_CUDA;
  header.e_shoff = sizeof header + symbol.size() + 1;
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  return bytes + symbol + '\0';
}

}  // namespace weft::test
