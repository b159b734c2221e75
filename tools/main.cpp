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

int run(int argc, char** argv) {
  const auto parsed = weft::tools::parse_command_line(argc, argv);
  if (!parsed.options) return weft::tools::finish(parsed.status);
  const weft::tools::Console console(*parsed.options);
  // Libraries under us may throw; a defect must still end with one line and its own status.
  try {
    return console.finish(dispatch(*parsed.options, console));
  } catch (const std::bad_alloc&) {
    return console.finish(console.fail(weft::environment_error("out of memory")));
  } catch (const std::exception& defect) {
    return console.finish(console.fail(weft::internal_error(defect.what())));
  }
}

}  // namespace

int main(int argc, char** argv) {
  weft::tools::install_interrupt_handler();
  weft::tools::prepare_streams();
  try {
    return run(argc, argv);
  } catch (const std::bad_alloc&) {  // before there was a console to say it, or while it said so
    weft::tools::tell("weft: error: out of memory\n");
    return weft::tools::kEnvironment;
  }
}
