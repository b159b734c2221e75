#include "laboratory/explain/doctor.h"

#include "compiler/target/target.h"
#include "kernels_cache/store.h"
#include "laboratory/explain/products.h"
#include "runtime/cuda/examine.h"
#include "runtime/emulate/compiler.h"
#include "runtime/engine/measured.h"
#include "runtime/llvm/search.h"
#include "runtime/nvrtc/disassemble.h"
#include "runtime/nvrtc/search.h"
#include "runtime/ring/mpi/plugin.h"
#include "runtime/ring/nccl/library.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <filesystem>
#include <iterator>
#include <memory>
#include <thread>

namespace weft::explain {

namespace {

Item examine_llvm(const std::string& option) {
  const auto report = llvm::examine(option);
  return {.name = "llvm",
          .usable = report.usable,
          .found = report.usable ? fmt::format("{} ({})", report.path, report.version) : report.path,
          .reason = report.usable ? "compiles kernels for the CPU" : report.reason,
          .mend = report.mend};
}

std::string say_bf16(const Target& target, int products) {
  if (!target.has_bf16_dot()) return "";
  return fmt::format(", bf16 {} (vdpbf16ps at {:.2f} times the rate of f32{})", products == 2 ? "in pairs" : "widened",
                     target.bf16_dot_rate, target.bf16_dot_measured ? ", measured" : "");
}

std::shared_ptr<cache::Store> look_into_store(const EngineOptions& options) {
  return cache::Store::open(
      {.directory = options.cache_dir, .disabled = options.no_cache, .read_only = true, .cap = options.cache_bytes});
}

Item examine_cpu(const EngineOptions& options) {
  const auto target = as_measured({look_into_store(options)}, host_target(), ir::DType::bf16);
  const int products = target.bf16_dot_pays() ? 2 : 1;
  Item item{.name = "cpu",
            .usable = true,
            .found = fmt::format("{}: {}-bit vectors{}{}{}, {} threads", target.name, target.vector_bits,
                                 target.has_fma ? ", fma" : "", target.has_f16c ? ", f16c" : "",
                                 say_bf16(target, products), std::thread::hardware_concurrency()),
            .reason = "kernels are compiled for it"};
  item.details["bf16"] = json_of_products(target, products);
  return item;
}

/// The nearest directory that exists: could the store be made there?
bool could_write(std::filesystem::path path) {
  std::error_code ignored;
  while (!path.empty() && !std::filesystem::exists(path, ignored) && path.has_relative_path())
    path = path.parent_path();
  return ::access(path.c_str(), W_OK | X_OK) == 0;
}

Item examine_store(const EngineOptions& options) {
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

Item item_of(const nvrtc::Report::Item& one) {
  Item item{.name = "nvrtc", .usable = one.library != nullptr, .found = one.candidate.path, .reason = one.reason};
  item.details["path"] = one.candidate.path;
  item.details["version"] = one.candidate.version.text();
  item.details["architectures"] = Json::array();
  if (one.library == nullptr) return item;
  item.found += fmt::format(" ({})", one.candidate.version.text());
  item.reason =
      fmt::format("compiles kernels for {}; found by {}", one.library->architectures_text(), one.candidate.origin);
  for (const int number : one.library->architectures()) {
    item.details["architectures"].push_back(fmt::format("sm_{}", number));
  }
  return item;
}

/// One item for each NVRTC, and one for what none of them knows.
std::vector<Item> examine_nvrtc(const std::string& option) {
  const auto report = nvrtc::examine(option);
  std::vector<Item> items;
  for (const auto& one : report.items) items.push_back(item_of(one));
  std::string lacking;
  for (const auto& target : known_targets()) {
    if (target.kind != TargetKind::cuda || report.for_target(target) != nullptr) continue;
    lacking += (lacking.empty() ? "" : ", ") + target.name;
  }
  if (lacking.empty()) return items;
  const auto why = report.missing.empty() ? "" : report.missing + "; ";
  items.push_back(
      {.name = "nvrtc", .reason = fmt::format("{}nothing compiles for {}", why, lacking), .mend = report.mend});
  return items;
}

Item examine_nvdisasm() {
  const auto programs = nvrtc::disassemblers();
  if (programs.empty()) {
    return {.name = "nvdisasm",
            .reason = "`emit --stage sass` has nothing to read cubins with; nothing else needs it",
            .mend = "pip install nvidia-cuda-nvdisasm, or triton==3.3.1 for what came before sm_75"};
  }
  return {.name = "nvdisasm",
          .usable = true,
          .found = fmt::format("{}", fmt::join(programs, ", ")),
          .reason = "shows instructions for `emit --stage sass`"};
}

Item examine_emulation() {
  const auto compiler = emulate::find_compiler();
  if (!compiler) {
    return {.name = "emulate",
            .reason = compiler.error().message,
            .mend = compiler.error().notes.empty() ? "" : compiler.error().notes.front()};
  }
  return {.name = "emulate",
          .usable = true,
          .found = fmt::format("{} ({})", compiler->path, compiler->version),
          .reason = "runs the text of CUDA kernels on the host: --target emulate:sm_NN"};
}

/// The driver, then each GPU it lists.
std::vector<Item> examine_cuda() {
  const auto report = cuda::examine();
  std::vector<Item> items;
  items.push_back({.name = "cuda",
                   .usable = report.usable,
                   .found = report.path,
                   .reason = report.usable ? "runs kernels that CUDA " + report.version + " can load" : report.reason,
                   .mend = report.mend});
  for (const auto& device : report.devices) {
    items.push_back(
        {.name = fmt::format("cuda:{}", device.number),
         .usable = device.target.has_value(),
         .found = cuda::describe(device),
         .reason = device.target ? "kernels are compiled for " + device.target->name : "no target fits it"});
  }
  return items;
}

/// How rings travel between processes, and between GPUs.
std::vector<Item> examine_transports() {
  const auto missing = [](const char* name, const Error& error) {
    return Item{
        .name = name, .reason = error.message, .mend = error.notes.empty() ? std::string() : error.notes.front()};
  };
  std::vector<Item> items;
  if (const auto mpi = mpi::open_plugin()) {
    items.push_back({.name = "mpi", .usable = true, .found = (*mpi)->path, .reason = "carries rings of processes"});
  } else {
    items.push_back(missing("mpi", mpi.error()));
  }
  if (const auto nccl = nccl::open()) {
    items.push_back({.name = "nccl",
                     .usable = true,
                     .found = fmt::format("{} ({})", (*nccl)->path, nccl::text_of((*nccl)->version)),
                     .reason = "carries rings from GPU to GPU"});
  } else {
    items.push_back(missing("nccl", nccl.error()));
  }
  return items;
}

Json json_of(const Item& item) {
  Json row = {{"name", item.name},
              {"usable", item.usable},
              {"reason", item.reason},
              {"found", item.found},
              {"mend", item.mend}};
  row.update(item.details);
  return row;
}

}  // namespace

std::vector<Item> examine_all(const EngineOptions& options) {
  std::vector<Item> items = {examine_cpu(options), examine_llvm(options.llvm), examine_store(options)};
  const auto add = [&items](std::vector<Item> more) {
    items.insert(items.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  };
  add(examine_nvrtc(options.nvrtc));
  add({examine_nvdisasm(), examine_emulation()});
  add(examine_cuda());
  add(examine_transports());
  return items;
}

std::string to_text(const std::vector<Item>& items) {
  std::string out;
  for (const auto& item : items) {
    out += fmt::format("{} {:<8} {}{}{}\n", item.usable ? "+" : "-", item.name, item.found,
                       item.found.empty() ? "" : "; ", item.reason);
    if (!item.mend.empty()) out += fmt::format("           to mend it: {}\n", item.mend);
  }
  return out;
}

Json to_json(const std::vector<Item>& items) {
  Json list = Json::array();
  for (const auto& item : items) list.push_back(json_of(item));
  return {{"items", list}};
}

}  // namespace weft::explain
