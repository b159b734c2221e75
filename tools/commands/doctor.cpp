#include "laboratory/explain/doctor.h"
#include "tools/commands/commands.h"
#include "tools/pattern_file.h"

namespace weft::tools {

int command_doctor(const Options& options, const Console& console) {
  const auto items = explain::examine_all(engine_options(options));
  console.write(console.json() ? explain::json_text(explain::to_json(items)) + "\n" : explain::to_text(items));
  return kDone;
}

}  // namespace weft::tools
