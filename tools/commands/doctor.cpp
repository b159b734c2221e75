#include "compiler/target/target.h"
#include "kernels_cache/store.h"
#include "runtime/llvm/search.h"
#include "tools/commands/commands.h"
#include "tools/json.h"

#include <unistd.h>

#include <filesystem>
#include <thread>

namespace weft::tools {

namespace {

/// One thing Weft looks for. `mend` is a command or a setting, empty when all is well.
struct Item {
  std::string name;
  bool usable = false;
  std::string found = {}, reason = {}, mend = {};
};

Item examine_llvm(const std::string& option) {
  const auto report = llvm::examine(option);
  return {.name = "llvm",
          .usable = report.usable,
          .found = report.usable ? fmt::format("{} ({})", report.path, report.version) : report.path,
          .reason = report.usable ? "compiles kernels for the CPU" : report.reason,
          .mend = report.mend};
}

Item examine_cpu() {
  const auto target = host_target();
  return {.name = "cpu",
          .usable = true,
          .found = fmt::format("{}: {}-bit vectors{}{}{}, {} threads", target.name, target.vector_bits,
                               target.has_fma ? ", fma" : "", target.has_f16c ? ", f16c" : "",
                               target.has_bf16_dot ? ", bf16 dot" : "", std::thread::hardware_concurrency()),
          .reason = "kernels are compiled for it",
          .mend = {}};
}

/// The nearest directory that exists: could the store be made there?
bool could_write(std::filesystem::path path) {
  std::error_code ignored;
  while (!path.empty() && !std::filesystem::exists(path, ignored) && path.has_relative_path())
    path = path.parent_path();
  return ::access(path.c_str(), W_OK | X_OK) == 0;
}

Item examine_store(const Options& options) {
  const auto place = cache::choose_place(options.cache_dir);
  Item item{.name = "store", .found = place.directory};
  if (place.directory.empty()) {
    item.reason = "kernels stay in memory: " + place.reason;
    item.mend = "set WEFT_CACHE_DIR to a directory of yours";
  } else if (!could_write(place.directory)) {
    item.reason = "kernels stay in memory: the directory cannot be written";
    item.mend = "set WEFT_CACHE_DIR to a directory you can write";
  } else {
    item.usable = true;
    item.reason = "keeps compiled kernels; chosen by " + place.origin;
  }
  return item;
}

Item examine_cuda() {
  return {.name = "cuda", .usable = false, .found = {}, .reason = "this version has no CUDA backend", .mend = {}};
}

}  // namespace

int command_doctor(const Options& options, const Console& console) {
  const std::vector<Item> items = {examine_cpu(), examine_llvm(options.llvm), examine_store(options), examine_cuda()};
  if (console.json()) {
    Json list = Json::array();
    for (const auto& item : items) {
      list.push_back({{"name", item.name},
                      {"usable", item.usable},
                      {"reason", item.reason},
                      {"found", item.found},
                      {"mend", item.mend}});
    }
    console.print("{}\n", Json{{"items", list}}.dump(2, ' ', false, Json::error_handler_t::replace));
    return kDone;
  }
  for (const auto& item : items) {
    console.print("{} {:<6} {}{}{}\n", item.usable ? "+" : "-", item.name, item.found, item.found.empty() ? "" : "; ",
                  item.reason);
    if (!item.mend.empty()) console.print("         to mend it: {}\n", item.mend);
  }
  return kDone;
}

}  // namespace weft::tools
