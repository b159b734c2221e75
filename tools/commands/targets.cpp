#include "compiler/target/target.h"
#include "runtime/cuda/examine.h"
#include "runtime/emulate/compiler.h"
#include "runtime/nvrtc/search.h"
#include "tools/commands/commands.h"
#include "tools/json.h"

#include <algorithm>

namespace weft::tools {

namespace {

struct Row {
  std::string name, kind, reason = {};
  bool usable = false;
  bool chosen = false;
  Json details = Json::object();  ///< keys of its own, for --json
};

/// What this machine has for GPUs' kernels: asked once, for all rows.
struct Gpus {
  nvrtc::Report nvrtc;
  cuda::Report driver;
  bool emulates = false;
};

Row cpu_row(const Target& target, const std::string& host) {
  Row row{.name = target.name, .kind = "cpu", .chosen = target.name == host};
  row.usable = host_can_execute(target, &row.reason);
  if (row.usable)
    row.reason = row.chosen ? "this machine's best: what `cpu` means here" : "this machine can execute it";
  return row;
}

/// Usable is what can be compiled and run; what can be compiled, or emulated, is said beside.
Row cuda_row(const Target& target, const Gpus& gpus) {
  Row row{.name = target.name, .kind = "cuda"};
  const auto* library = gpus.nvrtc.for_target(target);
  const auto device = std::find_if(gpus.driver.devices.begin(), gpus.driver.devices.end(),
                                   [&](const auto& one) { return device_can_execute(target, one.sm); });
  const bool runs = device != gpus.driver.devices.end();
  row.usable = library != nullptr && runs;
  row.reason = library == nullptr ? fmt::format("no NVRTC here knows it ({})", gpus.nvrtc.mend)
                                  : fmt::format("compiled by NVRTC {}", library->version().text());
  row.reason += runs ? fmt::format("; run by GPU {}, {}", device->number, device->name) : "; no GPU here runs it";
  if (!runs && gpus.emulates) row.reason += fmt::format(", emulate:{} does", target.name);
  row.details["compiler"] = library == nullptr ? Json(nullptr) : Json(library->path());
  row.details["compiler_version"] = library == nullptr ? Json(nullptr) : Json(library->version().text());
  row.details["device"] = runs ? Json(device->number) : Json(nullptr);
  row.details["emulates"] = gpus.emulates;
  return row;
}

Row row_of(const Target& target, const std::string& host, const Gpus& gpus) {
  switch (target.kind) {
    case TargetKind::interpreter:
      break;
    case TargetKind::cpu:
      return cpu_row(target, host);
    case TargetKind::cuda:
      return cuda_row(target, gpus);
  }
  return {
      .name = target.name, .kind = "interpreter", .reason = "always there; f64, slow, every pattern", .usable = true};
}

}  // namespace

int command_targets(const Options& options, const Console& console) {
  const auto host = host_target().name;
  const Gpus gpus{
      .nvrtc = nvrtc::examine(options.nvrtc), .driver = cuda::examine(), .emulates = emulate::find_compiler().ok()};
  Json list = Json::array();
  for (const auto& target : known_targets()) {
    const auto row = row_of(target, host, gpus);
    if (console.json()) {
      Json entry = {{"name", row.name},
                    {"kind", row.kind},
                    {"usable", row.usable},
                    {"default", row.chosen},
                    {"reason", row.reason}};
      entry.update(row.details);
      list.push_back(std::move(entry));
    } else {
      console.print("{} {:<16} {}\n", row.usable ? "+" : "-", row.name, row.reason);
    }
  }
  if (console.json()) console.print("{}\n", json_text(Json{{"targets", list}}));
  return kDone;
}

}  // namespace weft::tools
