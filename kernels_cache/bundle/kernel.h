#pragma once

#include "kernels_cache/bundle/section.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace weft::bundle {

/// One kernel of a bundle. Patterns that differ in numbers only often come to one request and share everything but
/// their names and plans.
struct Kernel {
  std::string name = {};    ///< the pattern's
  std::string target = {};  ///< `cpu:x86-64-v3`, `sm_61`
  /// What a reader asks for: a cache::Key's text of everything that can change the binary's meaning. The compiler is
  /// no part of it, since a machine that only reads bundles has none.
  std::string request = {};
  std::string variant = {};   ///< for people: dtype, dims, parameters
  std::string compiler = {};  ///< which one made it
  std::string launch = {};    ///< what the runtime needs beside the binary
  std::string binary = {}, source = {}, plan = {};
  std::optional<std::uint32_t> registers = {}, spill_bytes = {};
  bool operator==(const Kernel&) const = default;
};

/// The same, as it lies in a file: packing is most of the work, and can be done by many threads. Kernels that share a
/// section in their file share it here: what they take together is no more than the file.
struct Packed {
  Sha256 digest{};  ///< of the request
  std::string name = {}, variant = {}, target = {};
  std::optional<std::uint32_t> registers = {}, spill_bytes = {};
  std::shared_ptr<const Section> facts = {}, binary = {}, source = {}, plan = {};
};
Result<Packed> pack(const Kernel& kernel);

/// The same for a kernel of the same request as `alike`, whose binary and source are taken as they are.
Result<Packed> pack_like(const Packed& alike, const Kernel& kernel);

/// The texts of the `facts` section, lengths first: name, request, variant, compiler, launch.
std::string encode_facts(const Kernel& kernel);
/// Fills them in. User error for bytes that encode_facts() did not write.
Status decode_facts(std::string_view bytes, Kernel& kernel);

}  // namespace weft::bundle
