#include "tests/machine/fixture.h"

#include "runtime/nvrtc/compile.h"
#include "runtime/nvrtc/disassemble.h"
#include "runtime/nvrtc/search.h"
#include "tests/support/effort.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <map>
#include <stdexcept>

namespace weft::test {
namespace {

namespace fs = std::filesystem;

/// What a process knows of a driver is remembered by its name: each architecture has one.
class Names {
 public:
  Names() {
    auto name = (fs::temp_directory_path() / "weft-machine-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    folder_ = name;
  }
  ~Names() { fs::remove_all(folder_); }
  std::string of(int sm) const {
    const auto link = folder_ / fmt::format("libcuda-{}.so", sm);
    if (!fs::exists(link)) fs::create_symlink(WEFT_MACHINE, link);
    return link.string();
  }

 private:
  fs::path folder_;
};

std::string lacking(int sm) {
  const auto target = find_target(fmt::format("sm_{}", sm));
  if (!target) return target.error().message;
  const auto library = nvrtc::locate(*target);
  if (!library) return library.error().message + "; ./dev setup brings one";
  const auto binary = nvrtc::compile(**library, "extern \"C\" __global__ void nothing() {}", *target);
  if (!binary) return binary.error().message;
  const auto listing = nvrtc::disassemble(binary->cubin, *target);
  return listing ? std::string() : listing.error().message + "; ./dev test machine brings one";
}

}  // namespace

machine::Machine& the_machine() {
  static auto* one = [] {
    void* library = dlopen(WEFT_MACHINE, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw std::runtime_error(dlerror());
    return reinterpret_cast<machine::Machine* (*)()>(dlsym(library, "weft_machine"))();
  }();
  return *one;
}

std::string become(int sm) {
  static std::map<int, std::string> known;
  static const Names names;
  const auto [found, is_new] = known.try_emplace(sm);
  if (is_new) found->second = lacking(sm);
  auto& machine = the_machine();
  machine.sm = sm;
  machine.launches.clear();
  machine.fault.clear();
  ::setenv("WEFT_CUDA_DRIVER", names.of(sm).c_str(), 1);
  return found->second;
}

bool is_run_on(int sm, std::size_t number, std::size_t every) {
  if (tries_all()) return true;
  return number % every == 0 && is_turn_of(sm, number / every);
}

bool is_turn_of(int sm, std::size_t number) { return kArchitectures[number % std::size(kArchitectures)] == sm; }

Engine engine_of_machine() {
  const char* store = std::getenv("WEFT_MACHINE_STORE");
  if (store == nullptr || *store == '\0') return Engine({.no_cache = true});
  return Engine({.cache_dir = store});
}

}  // namespace weft::test
