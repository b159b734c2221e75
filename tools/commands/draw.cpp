#include "compiler/planner/planner.h"
#include "runtime/draw/made_up.h"
#include "runtime/draw/picture.h"
#include "runtime/engine/launch_checks.h"
#include "tools/commands/commands.h"
#include "tools/drawn_inputs.h"
#include "tools/files.h"
#include "tools/json.h"
#include "tools/pattern_file.h"
#include "tools/picture_png.h"
#include "tools/ring_option.h"

namespace weft::tools {

namespace {

constexpr std::int64_t kTerminalCells = 64, kFileCells = 512;

/// What the defaults are does not matter to a picture.
Console quiet_console() {
  Options options;
  options.quiet = true;
  return Console(options);
}

ir::Shape shape_to_draw(const Options& options, const ir::Pattern& pattern, const Sizes& sizes) {
  const std::int64_t tokens = options.tokens.empty() ? draw::tokens_to_draw(pattern) : options.tokens[0];
  return {.batch = 1,
          .n_q = tokens,
          .n_k = options.keys.value_or(tokens),
          .heads = sizes.heads,
          .kv_heads = sizes.kv_heads,
          .d = sizes.dim,
          .d_v = sizes.dim_v};
}

Result<draw::Picture> picture_of(const Options& options, const PatternFile& file, const ir::Shape& shape,
                                 bool to_file) {
  WEFT_CHECK(check_sizes(file.pattern, shape));
  WEFT_TRY(const auto inputs, inputs_to_draw(options, file.pattern, shape));
  WEFT_CHECK(ir::check_shapes(file.pattern, shape, inputs));
  // Content-adaptive sets look at q and k: any choice shows the pattern.
  const ir::PairEvaluator pairs(file.pattern, shape, inputs);
  auto picture = draw::make_picture(pairs, shape, options.head.value_or(0), to_file ? kFileCells : kTerminalCells);
  if (options.tiles) {
    WEFT_TRY(const auto planned, plan_file(file, options, quiet_console()));
    WEFT_CHECK(draw::mark_tiles(picture, planned.plan, shape, inputs));
  }
  WEFT_TRY(const auto ring, ring_of(options, file.pattern));
  if (ring) {
    WEFT_TRY(const auto planned, plan_file(file, options, quiet_console()));
    WEFT_TRY(const auto choice, explain::owners_of(planned, shape, inputs, *ring));
    draw::mark_owners(picture, choice.split.home);
  }
  return picture;
}

bool ends_with(const std::string& text, std::string_view end) { return text.ends_with(end); }

}  // namespace

int command_draw(const Options& options, const Console& console) {
  const bool svg = ends_with(options.output, ".svg"), png = ends_with(options.output, ".png");
  if (!options.output.empty() && !svg && !png)
    return console.usage("-o " + options.output + ": expected a name in .svg or .png");
  if (options.tiles && !options.ring.empty()) return console.usage("--tiles and --ring are two pictures");
  const auto [file, status] = open_pattern(options, console);
  if (!file) return status;
  const auto sizes = default_sizes(options, file->pattern, quiet_console());
  const auto shape = shape_to_draw(options, file->pattern, sizes);
  if (options.head.value_or(0) >= shape.heads) {
    return console.fail(user_error(fmt::format("head {} of {} heads: they count from 0", *options.head, shape.heads)));
  }
  const auto picture = picture_of(options, *file, shape, svg || png);
  if (!picture) return console.fail(picture.error(), &file->source);
  if (svg || png) {
    const auto bytes = svg ? draw::to_svg(*picture, file->pattern.name) : to_png(*picture);
    const auto written = write_file(options.output, bytes);
    return written ? kDone : console.fail(written.error());
  }
  if (console.json()) {
    Json grid{{"pattern", file->pattern.name}, {"n_q", picture->n_q},         {"n_k", picture->n_k},
              {"head", picture->head},         {"sampled", picture->sampled}, {"rows", picture->height},
              {"columns", picture->width},     {"density", picture->density}, {"multiplicity", picture->strength}};
    if (!picture->row_owners.empty())
      grid["owners"] = {{"rows", picture->row_owners}, {"columns", picture->column_owners}};
    console.print("{}\n", json_text(grid, -1));
    return kDone;
  }
  console.write(draw::to_terminal(*picture, console.color_out()));
  return kDone;
}

}  // namespace weft::tools
