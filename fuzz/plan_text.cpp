#include "compiler/ir/plan.h"
#include "compiler/ir/tables.h"
#include "fuzz/require.h"
#include "fuzz/targets.h"

#include <string>

namespace weft::fuzz {

void plan_text(std::string_view text) {
  const auto plan = ir::parse_plan(text);
  if (!plan.ok()) return require(!plan.error().message.empty(), "what is no plan says why");
  require(ir::verify(*plan).empty(), "what parses is sound");
  const std::string printed = ir::print(*plan);
  const auto again = ir::parse_plan(printed);
  require(again.ok(), "a printed plan parses");
  require(ir::print(*again) == printed, "a printed plan prints the same");
  for (const std::int64_t heads : {1, 3, 96}) {
    const auto tables = ir::make_tables(*plan, heads);
    if (!tables.ok()) require(tables.error().kind == ErrorKind::user, "tables that are refused are too large");
  }
}

}  // namespace weft::fuzz
