#pragma once

#include "kernels_cache/bundle/reader.h"
#include "kernels_cache/entry.h"
#include "runtime/engine/compilation.h"

#include <weft/weft.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace weft {

/// The bundles of an engine, in the order they are asked in. One that cannot be used is one that has nothing; why is
/// kept. Immutable.
class Shelf {
 public:
  explicit Shelf(const EngineOptions& options);

  bool empty() const { return bundles_.empty(); }

  bool has(const Binary& wanted) const;
  bool has_target(const std::string& target) const;

  /// Fills in the entry of a binary that is to be launched so, and the place: the name of its bundle. Is there one? A
  /// damaged one is reported to `trouble`, and the next bundle asked.
  bool take(const std::string& launch, Binary& wanted, const std::function<void(std::string)>& trouble) const;

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
