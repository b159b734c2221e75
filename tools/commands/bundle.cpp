#include "tools/commands/bundle.h"

#include "tools/commands/commands.h"
#include "tools/files.h"
#include "tools/json.h"

#include <map>
#include <set>

/// The words of `weft bundle`, and those that only read.
namespace weft::tools {

namespace {

std::string short_digest(const Sha256& digest) { return hex(digest).substr(0, 12); }

Json json_of(const bundle::Summary& summary, const std::string& variant, const std::string& compiler) {
  return {{"pattern", summary.name},
          {"variant", variant},
          {"target", summary.target},
          {"digest", hex(summary.digest)},
          {"binary_bytes", summary.binary_bytes},
          {"stored_bytes", summary.stored_bytes},
          {"registers", or_null(summary.registers)},
          {"spill_bytes", or_null(summary.spill_bytes)},
          {"compiler", compiler}};
}

/// A kernel as people know it.
struct Named {
  std::string name, variant, target;
  int another = 0;  ///< counts those of the same name, which come from different files
  auto operator<=>(const Named&) const = default;
  std::string text() const { return fmt::format("{} ({}) for {}", name, variant, target); }
};

struct Listed {
  std::size_t at = 0;
  const std::string* compiler = nullptr;
};

struct Kernels {
  std::map<Named, Listed> list;
  std::set<std::string> compilers = {};  ///< few, however many kernels
};

Result<Kernels> kernels_of(const bundle::Bundle& bundle) {
  Kernels out;
  std::map<Named, int> met;
  for (std::size_t i = 0; i < bundle.size(); ++i) {
    WEFT_TRY(auto facts, bundle.take(i, bundle::Parts::facts));
    Named named{.name = std::move(facts.name), .variant = std::move(facts.variant), .target = std::move(facts.target)};
    named.another = met[named]++;
    const auto* const compiler = &*out.compilers.insert(std::move(facts.compiler)).first;
    out.list.emplace(std::move(named), Listed{.at = i, .compiler = compiler});
  }
  return out;
}

/// What differs between two kernels of one name, in words; empty where nothing does.
Result<std::string> difference(const bundle::Bundle& a, std::size_t i, const bundle::Bundle& b, std::size_t j) {
  WEFT_TRY(const auto mine, a.contents(i));
  WEFT_TRY(const auto theirs, b.contents(j));
  std::string out;
  const auto compare = [&](const auto& one, const auto& other, const char* what) {
    if (one != other) out.append(out.empty() ? "" : ", ").append(what);
  };
  if (mine[0] != theirs[0]) {
    WEFT_TRY(const auto facts, a.take(i, bundle::Parts::facts));
    WEFT_TRY(const auto others, b.take(j, bundle::Parts::facts));
    compare(facts.request, others.request, "request");
    compare(facts.compiler, others.compiler, "compiler");
    compare(facts.launch, others.launch, "launch");
  }
  compare(mine[3], theirs[3], "plan");
  compare(mine[2], theirs[2], "source");
  compare(mine[1], theirs[1], "binary");
  const auto summary = a.summary(i), other = b.summary(j);
  compare(summary.registers, other.registers, "registers");
  compare(summary.spill_bytes, other.spill_bytes, "spilled bytes");
  return out;
}

struct Compared {
  std::vector<std::string> removed, added;
  std::vector<std::pair<std::string, std::string>> changed;
  bool same() const { return removed.empty() && added.empty() && changed.empty(); }
};

Result<Compared> compare(const bundle::Bundle& old, const bundle::Bundle& fresh) {
  WEFT_TRY(const auto before, kernels_of(old));
  WEFT_TRY(const auto after, kernels_of(fresh));
  Compared out;
  for (const auto& [name, listed] : before.list) {
    const auto there = after.list.find(name);
    if (there == after.list.end()) {
      out.removed.push_back(name.text());
      continue;
    }
    WEFT_TRY(auto what, difference(old, listed.at, fresh, there->second.at));
    if (!what.empty()) out.changed.emplace_back(name.text(), std::move(what));
  }
  for (const auto& [name, listed] : after.list) {
    if (before.list.count(name) == 0) out.added.push_back(name.text());
  }
  return out;
}

}  // namespace

Result<std::shared_ptr<const bundle::Bundle>> open_bundle(const std::string& path, const Options& options) {
  bundle::Trust trust;
  if (!options.public_key.empty()) {
    WEFT_TRY(const auto text, read_text(options.public_key));
    WEFT_TRY(trust.key, named(bundle::read_public_key(text), options.public_key));
  }
  return bundle::Bundle::open(path, trust);
}

int bundle_list(const std::vector<std::string>& files, const Options& options, const Console& console) {
  if (files.size() != 1) return console.usage("bundle ls takes one bundle");
  const auto opened = open_bundle(files[0], options);
  if (!opened) return console.fail(opened.error());
  const auto& bundle = **opened;
  const auto kernels = kernels_of(bundle);
  if (!kernels) return console.fail(kernels.error());
  if (console.json()) {
    const auto& header = bundle.header();
    const auto signer = header.by ? Json(bundle::spelled(header.by->key)) : Json(nullptr);
    JsonList list([&](const std::string& text) { console.write(text); },
                  {{"path", files[0]},
                   {"format", bundle::kFormat},
                   {"bytes", header.file_length},
                   {"root", hex(header.root)},
                   {"signed_by", signer}},
                  "kernels");
    for (const auto& [name, listed] : kernels->list) {
      list.add(json_of(bundle.summary(listed.at), name.variant, *listed.compiler));
    }
    list.end();
    return kDone;
  }
  for (const auto& [name, listed] : kernels->list) {
    const auto summary = bundle.summary(listed.at);
    console.print("{}  {:>8} bytes  {}\n", short_digest(summary.digest), summary.binary_bytes, name.text());
  }
  return kDone;
}

int bundle_verify(const std::vector<std::string>& files, const Options& options, const Console& console) {
  if (files.empty()) return console.usage("bundle verify: name a bundle");
  int status = kDone;
  Json list = Json::array();
  for (const auto& path : files) {
    const auto opened = open_bundle(path, options);
    const Status checked = opened ? (*opened)->verify() : Status(opened.error());
    if (!checked) {
      const int found = console.fail(checked.error());
      if (status == kDone) status = found;
      list.push_back({{"path", path}, {"ok", false}, {"reason", checked.error().message}});
      continue;
    }
    const auto& by = (*opened)->header().by;
    list.push_back({{"path", path},
                    {"ok", true},
                    {"kernels", (*opened)->size()},
                    {"root", hex((*opened)->header().root)},
                    {"signed_by", by ? Json(bundle::spelled(by->key)) : Json(nullptr)}});
    if (!console.json()) {
      console.print("{}: sound, {} kernels, {}\n", path, (*opened)->size(),
                    by ? "signed by " + bundle::spelled(by->key) : "not signed");
    }
  }
  if (console.json()) console.print("{}\n", json_text(Json{{"bundles", list}}));
  return status;
}

int bundle_diff(const std::vector<std::string>& files, const Options& options, const Console& console) {
  if (files.size() != 2) return console.usage("bundle diff takes two bundles");
  const auto old = open_bundle(files[0], options), fresh = open_bundle(files[1], options);
  if (!old) return console.fail(old.error());
  if (!fresh) return console.fail(fresh.error());
  const auto compared = compare(**old, **fresh);
  if (!compared) return console.fail(compared.error());
  if (console.json()) {
    Json changed = Json::array();
    for (const auto& [name, what] : compared->changed) changed.push_back({{"kernel", name}, {"what", what}});
    console.print("{}\n", json_text(Json{{"same", compared->same()},
                                         {"removed", compared->removed},
                                         {"added", compared->added},
                                         {"changed", changed}}));
  } else {
    for (const auto& name : compared->removed) console.print("- {}\n", name);
    for (const auto& name : compared->added) console.print("+ {}\n", name);
    for (const auto& [name, what] : compared->changed) console.print("! {}: {}\n", name, what);
  }
  return compared->same() ? kDone : kWrongInput;
}

int command_bundle(const Options& options, const Console& console) {
  using Word = int (*)(const std::vector<std::string>&, const Options&, const Console&);
  const std::map<std::string, Word> words = {
      {"build", &bundle_build}, {"ls", &bundle_list},       {"verify", &bundle_verify}, {"diff", &bundle_diff},
      {"merge", &bundle_merge}, {"export", &bundle_export}, {"sign", &bundle_sign}};
  const auto word = options.files.empty() ? words.end() : words.find(options.files[0]);
  if (word == words.end()) return console.usage("bundle: expected build, ls, verify, diff, merge, export or sign");
  return word->second({options.files.begin() + 1, options.files.end()}, options, console);
}

}  // namespace weft::tools
