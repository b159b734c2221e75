#include "tools/commands/commands.h"
#include "tools/console.h"
#include "tools/files.h"
#include "tools/options.h"

#include <exception>
#include <new>

namespace {

int dispatch(const weft::tools::Options& options, const weft::tools::Console& console) {
  switch (options.command) {
#define COMMAND(word, files, help) \
  case weft::tools::Command::word: \
    return weft::tools::command_##word(options, console);
#include "tools/commands.def"
  }
  return weft::tools::kDefect;
}

}  // namespace

int main(int argc, char** argv) {
  weft::tools::install_interrupt_handler();
  const auto parsed = weft::tools::parse_command_line(argc, argv);
  if (!parsed.options) return parsed.status;
  const weft::tools::Console console(*parsed.options);
  // Libraries under us may throw; a defect must still end with one line and its own status.
  try {
    return console.finish(dispatch(*parsed.options, console));
  } catch (const std::bad_alloc&) {
    return console.fail(weft::environment_error("out of memory"));
  } catch (const std::exception& defect) {
    return console.fail(weft::internal_error(defect.what()));
  }
}
