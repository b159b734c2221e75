#include "runtime/engine/shelf.h"

#include <fmt/format.h>

#include <set>

namespace weft {

Shelf::Shelf(const EngineOptions& options) : file_(options.bundles.empty() ? "" : options.bundles.front()) {
  bundle::Trust trust;
  if (!options.bundle_key.empty()) {
    const auto key = bundle::read_public_key(options.bundle_key);
    if (!key) {  // nobody's signature can be told, so nothing is believed
      troubles_.push_back("no bundle is used: the key to check them with is wrong: " + key.error().message);
      return;
    }
    trust.key = *key;
  }
  for (const auto& path : options.bundles) keep(bundle::Bundle::open(path, trust));
  for (const auto& image : options.linked_bundles) {
    const std::string_view bytes(static_cast<const char*>(image.data), image.size);
    keep(bundle::Bundle::open_in_memory(bytes, image.name, trust));
  }
}

void Shelf::keep(Result<std::shared_ptr<const bundle::Bundle>> opened) {
  if (opened)
    bundles_.push_back(std::move(*opened));
  else
    troubles_.push_back("the bundle is not used: " + opened.error().message);
}

bool Shelf::has(const Binary& wanted) const {
  const auto digest = sha256(wanted.request.text());
  for (const auto& bundle : bundles_) {
    if (bundle->find(digest)) return true;
  }
  return false;
}

bool Shelf::has_target(const std::string& target) const {
  for (const auto& bundle : bundles_) {
    if (bundle->has_target(target)) return true;
  }
  return false;
}

bool Shelf::take(const std::string& launch, Binary& wanted, const std::function<void(std::string)>& trouble) const {
  if (bundles_.empty()) return false;
  const auto digest = sha256(wanted.request.text());
  for (const auto& bundle : bundles_) {
    const auto at = bundle->find(digest);
    if (!at) continue;
    auto kernel = bundle->take(*at, bundle::Parts::binary);
    if (!kernel) {
      trouble(kernel.error().message);
    } else if (kernel->request == wanted.request.text() && kernel->launch == launch) {
      wanted.place = bundle->name();
      wanted.entry = {.binary = std::move(kernel->binary),
                      .launch = std::move(kernel->launch),
                      .registers = kernel->registers,
                      .spill_bytes = kernel->spill_bytes};
      return true;
    }
  }
  return false;
}

std::vector<std::string> Shelf::contents() const {
  std::vector<std::string> lines;
  for (const auto& bundle : bundles_) {
    std::set<std::string_view> targets;
    for (std::size_t i = 0; i < bundle->size(); ++i) targets.insert(bundle->summary(i).target);
    std::string list;
    for (const auto target : targets) list.append(list.empty() ? "" : ", ").append(target);
    lines.push_back(fmt::format("{} has {} kernel{}{}{}", bundle->name(), bundle->size(),
                                bundle->size() == 1 ? "" : "s", list.empty() ? "" : " for ", list));
  }
  return lines;
}

std::string Shelf::file() const { return file_.empty() ? "kernels.wfb" : file_; }

}  // namespace weft
