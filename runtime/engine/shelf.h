#pragma once

#include "kernels_cache/bundle/reader.h"
#include "kernels_cache/entry.h"
#include "runtime/engine/prepared.h"

#include <weft/weft.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace weft {

/// The bundles of an engine, in the order they are asked in. One that cannot be used is one that has nothing; why is
/// kept. Immutable.
class Shelf {
 public:
  explicit Shelf(const EngineOptions& options);

  bool empty() const { return bundles_.empty(); }

  bool has(const Prepared& kernel) const;
  bool has_target(const std::string& target) const;

  struct Taken {
    cache::Entry entry;
    std::string bundle;  ///< its name
  };
  /// The kernel's binary, checked. A damaged one is reported to `trouble`, and the next bundle asked.
  std::optional<Taken> take(const Prepared& wanted, const std::function<void(std::string)>& trouble) const;

  /// Why bundles cannot be used, a sentence each.
  const std::vector<std::string>& troubles() const { return troubles_; }

  /// What there is, for the message about what there is not: a line for each bundle.
  std::vector<std::string> contents() const;

  /// Where to add a missing kernel: the first bundle that is a file, else a name for a new one.
  std::string file() const;

 private:
  void keep(Result<std::shared_ptr<const bundle::Bundle>> opened);

  std::vector<std::shared_ptr<const bundle::Bundle>> bundles_;
  std::vector<std::string> troubles_;
  std::string file_;
};

}  // namespace weft
