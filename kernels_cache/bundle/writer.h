#pragma once

#include "kernels_cache/bundle/format.h"
#include "kernels_cache/bundle/kernel.h"

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
  /// Of two kernels for one request that differ, the lesser in a fixed order of their texts is kept: it is a matter of
  /// names, unless two compilers made them.
  void add(Packed kernel);

  /// As add(), but what is there already stays.
  void add_if_absent(Packed kernel);

  std::size_t size() const { return kernels_.size(); }

  /// User error where there is more than a bundle can hold.
  Result<std::string> finish() const;

 private:
  std::map<Sha256, Packed> kernels_;
};

/// The same bundle, signed, or with `by` empty without its signature. `bytes` are a whole bundle that was read.
std::string with_signature(std::string_view bytes, Header header, std::optional<Signed> by);

}  // namespace weft::bundle
