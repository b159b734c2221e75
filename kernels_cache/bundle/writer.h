#pragma once

#include "kernels_cache/bundle/format.h"
#include "kernels_cache/bundle/kernel.h"

#include <compare>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::bundle {

/// Collects kernels and writes them as a bundle. The bytes depend on the set of kernels alone, in whatever order they
/// were added.
class Writer {
 public:
  /// Adds a kernel. Where two agree in request, name and variant, but not in everything, the lesser in a fixed order
  /// is kept.
  void add(Packed kernel);

  /// As add(), but what is there already stays.
  void add_if_absent(Packed kernel);

  std::size_t size() const { return kernels_.size(); }

  /// User error where there is more than a bundle can hold.
  Result<std::string> finish() const;

 private:
  struct Name {
    Sha256 digest;
    std::string name, variant;
    auto operator<=>(const Name&) const = default;
  };
  static Name name_of(const Packed& kernel) { return {kernel.digest, kernel.name, kernel.variant}; }

  std::map<Name, Packed> kernels_;
};

/// The same bundle, signed, or with `by` empty without its signature. `bytes` are a whole bundle that was read.
std::string with_signature(std::string_view bytes, Header header, std::optional<Signed> by);

}  // namespace weft::bundle
