#include "compiler/ir/check.h"
#include "dsl/parse.h"
#include "tools/commands/commands.h"
#include "tools/files.h"
#include "tools/json.h"

#include <algorithm>

namespace weft::tools {

int command_fmt(const Options& options, const Console& console) {
  int status = kDone;
  Json changed = Json::array();
  for (const auto& path : options.files) {
    const auto source = read_source(path);
    if (!source) {
      status = std::max(status, console.fail(source.error()));
      continue;
    }
    const auto file = dsl::parse(*source, ir::examine);
    if (!file) {
      status = std::max(status, console.fail(file.error(), &*source));
      continue;
    }
    const auto text = dsl::format(*file, *source);
    const bool differs = text != source->text;
    if (differs) changed.push_back(source->name);
    if (options.check) {
      if (!differs) continue;
      status = std::max(status, kWrongInput);
      if (!console.json()) console.print("{} would change\n", source->name);
    } else if (path == "-") {
      if (!console.json()) console.write(text);
    } else if (differs) {
      if (auto written = write_file(path, text); !written) status = std::max(status, console.fail(written.error()));
    }
  }
  if (console.json()) console.print("{}\n", json_text(Json{{"changed", changed}}));
  return status;
}

}  // namespace weft::tools
