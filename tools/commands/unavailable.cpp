#include "tools/commands/commands.h"

/// Commands whose words are taken but whose work this version cannot do.
namespace weft::tools {

int command_tune(const Options&, const Console& console) {
  auto error =
      environment_error("`weft tune` is not available in this version: the planner's choices cannot be tuned yet");
  error.notes.push_back("a pattern's `schedule { … }` overrides tile sizes; `weft bench` shows what they bring");
  return console.fail(error);
}

}  // namespace weft::tools
