#include "compiler/target/target.h"
#include "tools/commands/commands.h"
#include "tools/json.h"

namespace weft::tools {

namespace {

struct Row {
  std::string name, kind, reason;
  bool usable = false;
  bool chosen = false;
};

Row row_of(const Target& target, const std::string& host) {
  Row row{.name = target.name, .kind = "cpu", .reason = {}};
  switch (target.kind) {
    case TargetKind::interpreter:
      row.kind = "interpreter";
      row.usable = true;
      row.reason = "always there; f64, slow, every pattern";
      break;
    case TargetKind::cpu:
      row.usable = host_can_execute(target, &row.reason);
      row.chosen = target.name == host;
      if (row.usable)
        row.reason = row.chosen ? "this machine's best: what `cpu` means here" : "this machine can execute it";
      break;
    case TargetKind::cuda:
      row.kind = "cuda";
      row.reason = "this version has no CUDA backend";
      break;
  }
  return row;
}

}  // namespace

int command_targets(const Options&, const Console& console) {
  const auto host = host_target().name;
  Json list = Json::array();
  for (const auto& target : known_targets()) {
    const auto row = row_of(target, host);
    if (console.json()) {
      list.push_back({{"name", row.name},
                      {"kind", row.kind},
                      {"usable", row.usable},
                      {"default", row.chosen},
                      {"reason", row.reason}});
    } else {
      console.print("{} {:<16} {}\n", row.usable ? "+" : "-", row.name, row.reason);
    }
  }
  if (console.json()) console.print("{}\n", Json{{"targets", list}}.dump(2));
  return kDone;
}

}  // namespace weft::tools
