#include "compiler/ir/plan.h"
#include "kernels_cache/store.h"
#include "runtime/engine/compilers.h"
#include "tools/commands/commands.h"
#include "tools/json.h"
#include "tools/pattern_file.h"
#include "tools/progress.h"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <optional>
#include <sstream>

namespace weft::tools {

namespace {

std::string day_of(std::int64_t seconds) {
  const std::time_t time = seconds;
  std::tm parts{};
  if (::gmtime_r(&time, &parts) == nullptr) return "?";
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
                     parts.tm_hour, parts.tm_min);
}

int show_path(cache::Store& store, const Console& console) {
  if (console.json()) {
    console.print("{}\n", json_text(Json{{"path", store.path()}, {"reason", store.reason()}}, -1));
  } else if (store.path().empty()) {
    return console.fail(environment_error("there is no kernel store: " + store.reason()));
  } else {
    console.print("{}\n", store.path());
  }
  return kDone;
}

std::string field_of(const std::string& key_text, std::string_view name) {
  for (const auto& field : cache::fields_of(key_text)) {
    if (field.name == name) return field.value;
  }
  return "?";
}

/// What kernel an entry is, by the plan that stands in it.
struct Stored {
  std::string pattern = "?", target = "?";
  std::optional<ir::Bind> bind = {};
};

Stored describe(cache::Store& store, const std::string& digest) {
  Stored out;
  const auto read = store.read(digest);
  if (!read) return out;
  out.target = field_of(read->key_text, "target");
  if (const auto plan = ir::parse_plan(read->entry.plan)) {
    out.pattern = plan->name;
    out.bind = plan->bind;
  }
  return out;
}

int show_entries(cache::Store& store, const Console& console) {
  Json list = Json::array();
  const auto entries = store.list();
  Progress progress(console, "reading kernels");
  std::size_t done = 0;
  for (const auto& entry : entries) {
    const auto stored = describe(store, entry.digest);
    const auto dtype = stored.bind ? Json(ir::to_string(stored.bind->dtype)) : Json(nullptr);
    if (console.json()) {
      list.push_back({{"digest", entry.digest},
                      {"bytes", entry.bytes},
                      {"used", entry.used},
                      {"pattern", stored.pattern},
                      {"target", stored.target},
                      {"dim", stored.bind ? Json(stored.bind->d) : Json(nullptr)},
                      {"dim_v", stored.bind ? Json(stored.bind->d_v) : Json(nullptr)},
                      {"dtype", dtype}});
    } else {
      const auto bound = stored.bind ? fmt::format("d {} d_v {} {}", stored.bind->d, stored.bind->d_v,
                                                   ir::to_string(stored.bind->dtype))
                                     : std::string("?");
      console.print("{}  {:<20} {:<18} {:<16} {:>8} bytes  used {}\n", entry.digest.substr(0, 16), stored.pattern,
                    bound, stored.target, entry.bytes, day_of(entry.used));
    }
    progress.update(++done, entries.size());
  }
  if (console.json()) console.print("{}\n", json_text(Json{{"entries", list}}));
  return kDone;
}

int show_totals(cache::Store& store, const Console& console) {
  const auto [entries, bytes] = store.totals();
  if (console.json()) {
    const Json totals = {{"path", store.path()}, {"entries", entries}, {"bytes", bytes}, {"cap", cache::kUsualCap}};
    console.print("{}\n", json_text(totals));
  } else {
    console.print("{}: {} kernels, {:.1f} MiB of at most {} MiB\n", store.path().empty() ? "(no store)" : store.path(),
                  entries, static_cast<double>(bytes) / (1 << 20), cache::kUsualCap >> 20);
  }
  return kDone;
}

int verify(cache::Store& store, const Console& console) {
  const auto verified = store.verify();
  Json bad = Json::array();
  for (const auto& entry : verified.bad) {
    if (console.json())
      bad.push_back({{"digest", entry.digest}, {"reason", entry.reason}});
    else
      console.print("{}  {}; moved aside\n", entry.digest.substr(0, 16), entry.reason);
  }
  if (console.json())
    console.print("{}\n", json_text(Json{{"good", verified.good}, {"bad", bad}}));
  else
    console.print("{} good, {} bad\n", verified.good, verified.bad.size());
  return verified.bad.empty() ? kDone : kWrongInput;
}

int show_removed(const cache::Removed& removed, const Console& console) {
  if (console.json()) {
    console.print("{}\n",
                  json_text(Json{{"files", removed.files}, {"bytes", removed.bytes}, {"failed", removed.failed}}, -1));
  } else {
    console.print("removed {} files, {} bytes\n", removed.files, removed.bytes);
  }
  if (removed.failed == 0) return kDone;
  return console.fail(environment_error(
      fmt::format("{} files could not be removed: {}", removed.failed, std::strerror(removed.failure))));
}

/// The first line in which the plan of a stored kernel is another: digests of texts tell nobody what differs.
struct PlanLines {
  std::string wanted, stored;
};
std::optional<PlanLines> first_difference(const std::string& wanted, const std::string& stored) {
  std::istringstream mine(wanted), theirs(stored);
  for (PlanLines lines; mine || theirs; lines = {}) {
    std::getline(mine, lines.wanted);
    std::getline(theirs, lines.stored);
    if (lines.wanted != lines.stored) return lines;
  }
  return {};
}

/// Against the kernel of this pattern that was used last, else against the nearest by its key.
std::optional<PlanLines> plans_differ(cache::Store& store, const std::string& nearest, const std::string& wanted) {
  constexpr std::ptrdiff_t kMostRead = 1000;
  const auto name_of = [](const std::string& plan) {
    const auto parsed = ir::parse_plan(plan);
    return parsed ? parsed->name : std::string();
  };
  const auto name = name_of(wanted);
  auto entries = store.list();
  std::reverse(entries.begin(), entries.end());
  if (std::ssize(entries) > kMostRead) entries.resize(kMostRead);
  for (const auto& entry : entries) {
    const auto read = store.read(entry.digest);
    if (read && name_of(read->entry.plan) == name) return first_difference(wanted, read->entry.plan);
  }
  const auto read = store.read(nearest);
  return read ? first_difference(wanted, read->entry.plan) : std::nullopt;
}

/// Why the kernel of a pattern is or is not in the store.
int why(cache::Store& store, const Options& options, const Console& console) {
  if (options.files.size() != 2) return console.usage("cache why takes one FILE");
  Options one = options;
  one.files = {options.files[1]};
  const auto [file, status] = open_pattern(one, console);
  if (!file) return status;
  auto planned = plan_file(*file, one, console);
  if (!planned) return console.fail(planned.error(), &file->source);
  const Compilation kernel(std::move(*planned));
  const auto key = Compilers(engine_options(options)).key_of(kernel.target, binary_of(kernel));
  if (!key) return console.fail(key.error());
  const auto found = store.get(*key);
  const bool stored = found.outcome == cache::Outcome::hit;
  const auto text = stored                 ? std::string("it is stored")
                    : found.detail.empty() ? store.explain_miss(*key)
                                           : found.detail;
  const auto nearest = stored ? cache::Store::Nearest() : store.nearest(*key);
  const auto plans = stored ? std::nullopt : plans_differ(store, nearest.digest, kernel.plan_text());
  if (console.json()) {
    Json differences = Json::array();
    for (const auto& field : nearest.differences) {
      differences.push_back({{"field", field.name}, {"wanted", field.mine}, {"stored", field.theirs}});
    }
    const Json report = {{"stored", stored},
                         {"outcome", cache::name_of(found.outcome)},
                         {"digest", key->digest()},
                         {"why", text},
                         {"nearest", nearest.digest.empty() ? Json(nullptr) : Json(nearest.digest)},
                         {"differences", differences},
                         {"plan", plans ? Json{{"wanted", plans->wanted}, {"stored", plans->stored}} : Json(nullptr)}};
    console.print("{}\n", json_text(report));
  } else {
    const bool ends = text.ends_with('\n');
    console.print("{}: {}{}", key->digest().substr(0, 16), text, ends ? "" : "\n");
    if (plans)
      console.print("  plan, its first other line\n    wanted {}\n    stored {}\n", plans->wanted, plans->stored);
  }
  return kDone;
}

}  // namespace

int command_cache(const Options& options, const Console& console) {
  const auto word = options.files.empty() ? std::string() : options.files[0];
  if (word != "why" && options.files.size() > 1) return console.usage("cache " + word + " takes nothing more");
  // Asking why changes nothing: not even a bad entry is moved.
  const auto store = cache::Store::open({.directory = options.cache_dir, .read_only = word == "why"});
  if (word == "path") return show_path(*store, console);
  if (word == "ls") return show_entries(*store, console);
  if (word == "stat") return show_totals(*store, console);
  if (word == "verify") return verify(*store, console);
  if ((word == "clear" || word == "prune") && store->path().empty()) {
    return console.fail(environment_error("there is no kernel store: " + store->reason()));
  }
  if (word == "clear") return show_removed(store->clear(), console);
  if (word == "prune") return show_removed(store->prune(cache::kUsualCap), console);
  if (word == "why") return why(*store, options, console);
  return console.usage("cache: expected path, ls, stat, verify, clear, prune or why");
}

}  // namespace weft::tools
