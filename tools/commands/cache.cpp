#include "kernels_cache/store.h"
#include "runtime/engine/compilers.h"
#include "tools/commands/commands.h"
#include "tools/json.h"
#include "tools/pattern_file.h"

#include <ctime>

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
    console.print("{}\n", Json{{"path", store.path()}, {"reason", store.reason()}}.dump());
  } else if (store.path().empty()) {
    return console.fail(environment_error("there is no kernel store: " + store.reason()));
  } else {
    console.print("{}\n", store.path());
  }
  return kDone;
}

int show_entries(cache::Store& store, const Console& console) {
  Json list = Json::array();
  for (const auto& entry : store.list()) {
    if (console.json())
      list.push_back({{"digest", entry.digest}, {"bytes", entry.bytes}, {"used", entry.used}});
    else
      console.print("{}  {:>8} bytes  used {}\n", entry.digest.substr(0, 16), entry.bytes, day_of(entry.used));
  }
  if (console.json()) console.print("{}\n", Json{{"entries", list}}.dump(2));
  return kDone;
}

int show_totals(cache::Store& store, const Console& console) {
  const auto [entries, bytes] = store.totals();
  if (console.json()) {
    const Json totals = {{"path", store.path()}, {"entries", entries}, {"bytes", bytes}, {"cap", cache::kUsualCap}};
    console.print("{}\n", totals.dump(2));
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
    console.print("{}\n", Json{{"good", verified.good}, {"bad", bad}}.dump(2));
  else
    console.print("{} good, {} bad\n", verified.good, verified.bad.size());
  return verified.bad.empty() ? kDone : kWrongInput;
}

int show_removed(const cache::Removed& removed, const Console& console) {
  if (console.json())
    console.print("{}\n", Json{{"files", removed.files}, {"bytes", removed.bytes}}.dump());
  else
    console.print("removed {} files, {} bytes\n", removed.files, removed.bytes);
  return kDone;
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
  const auto kernel = prepare(std::move(*planned));
  const auto key = Compilers(engine_options(options)).key_of(kernel);
  if (!key) return console.fail(key.error());
  const auto found = store.get(*key);
  const bool stored = found.outcome == cache::Outcome::hit;
  const auto text = stored                 ? std::string("it is stored")
                    : found.detail.empty() ? store.explain_miss(*key)
                                           : found.detail;
  if (console.json()) {
    const auto nearest = stored ? cache::Store::Nearest() : store.nearest(*key);
    Json differences = Json::array();
    for (const auto& field : nearest.differences) {
      differences.push_back({{"field", field.name}, {"wanted", field.mine}, {"stored", field.theirs}});
    }
    const Json report = {{"stored", stored},
                         {"outcome", cache::name_of(found.outcome)},
                         {"digest", key->digest()},
                         {"why", text},
                         {"nearest", nearest.digest.empty() ? Json(nullptr) : Json(nearest.digest)},
                         {"differences", differences}};
    console.print("{}\n", report.dump(2));
  } else {
    console.print("{}: {}\n", key->digest().substr(0, 16), text);
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
  if (word == "clear") return show_removed(store->clear(), console);
  if (word == "prune") return show_removed(store->prune(cache::kUsualCap), console);
  if (word == "why") return why(*store, options, console);
  return console.usage("cache: expected path, ls, stat, verify, clear, prune or why");
}

}  // namespace weft::tools
