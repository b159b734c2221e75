#pragma once

#include "kernels_cache/bundle/bytes_of.h"
#include "kernels_cache/bundle/format.h"
#include "kernels_cache/bundle/kernel.h"

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::bundle {

/// Whom a reader believes. With a key, a bundle that is unsigned, signed by another or changed after it was signed is
/// refused before anything of it is read.
struct Trust {
  std::optional<PublicKey> key = {};
};

/// What the manifest says of one kernel.
struct Summary {
  Sha256 digest{};
  std::string_view name, target;
  std::optional<std::uint32_t> registers, spill_bytes;
  std::uint64_t binary_bytes = 0;
  std::uint64_t stored_bytes = 0;  ///< of its sections, shared ones included
};

/// How much of a kernel is read: what is known of it, also the binary, also source and plan.
enum class Parts { facts, binary, all };

/// An open bundle. Opening checks header and manifest, so that lookups need no further check; each section is checked
/// when it is taken. Immutable: any number of threads may use it. Views live as long as it does.
///
/// Errors name the bundle. They are the user's: another file is wanted; those of the environment are a file that the
/// system will not read.
class Bundle {
 public:
  static Result<std::shared_ptr<const Bundle>> open(const std::string& path, const Trust& trust = {});

  /// A bundle that lies in memory, such as one linked into the program, which outlives it. `name` is for messages.
  static Result<std::shared_ptr<const Bundle>> open_in_memory(std::string_view bytes, const std::string& name,
                                                              const Trust& trust = {});

  const std::string& name() const { return name_; }
  const Header& header() const { return header_; }

  std::size_t size() const { return header_.kernels; }
  Summary summary(std::size_t kernel) const;
  /// The first of the kernels for a request; all of them have the same thing to execute.
  std::optional<std::size_t> find(const Sha256& request_digest) const;

  /// Is there any kernel for this target?
  bool has_target(std::string_view target) const;

  /// A kernel; every byte that is read is checked.
  Result<Kernel> take(std::size_t kernel, Parts parts = Parts::all) const;

  /// Digests of a kernel's facts, binary, source and plan as they were before they were compressed: for comparing
  /// bundles. Each section is read once, however many kernels have it.
  Result<std::array<Sha256, 4>> contents(std::size_t kernel) const;

  /// All that the file holds, from the file that is open: what was checked is what is given.
  Result<std::string> bytes() const;

  /// For copying into another bundle: of the sections only the digests are checked.
  Result<Packed> packed(std::size_t kernel) const;

  /// Everything: all sections, their order, the signature. The first trouble is returned.
  Status verify() const;

 private:
  struct Row {
    Sha256 digest;
    std::uint32_t name, target, registers, spill_bytes;
    std::array<std::uint32_t, 4> sections;  ///< facts, binary, source, plan
  };

  Bundle(std::unique_ptr<const Bytes> bytes, std::string name) : bytes_(std::move(bytes)), name_(std::move(name)) {}
  static Result<std::shared_ptr<const Bundle>> open(std::unique_ptr<const Bytes> bytes, std::string name,
                                                    const Trust& trust);
  Status read_manifest();
  Status read_words(std::string_view bytes);
  Status read_sections();
  Status check_kernels() const;

  Row row(std::size_t kernel) const;
  std::pair<Sha256, std::uint64_t> section_key(std::size_t section) const;
  Sha256 section_digest(std::size_t section) const;
  std::uint64_t plain_length(std::size_t section) const;
  std::uint64_t stored_length(std::size_t section) const { return ends_[section + 1] - ends_[section]; }
  Result<std::string> stored(std::size_t section) const;
  Result<std::string> plain(std::size_t section) const;
  Result<std::shared_ptr<const Section>> section(std::size_t section) const;
  Result<Kernel> described(std::size_t kernel) const;
  Result<Kernel> taken(std::size_t kernel, Parts parts) const;
  Error wrong(Error error) const;

  std::unique_ptr<const Bytes> bytes_;
  std::string name_;
  Header header_;
  std::string manifest_;
  std::vector<std::string_view> words_;  ///< into manifest_
  std::vector<std::uint64_t> ends_;      ///< section i lies from ends_[i] to ends_[i + 1] of the file

  mutable std::mutex mutex_;  ///< of what follows, which is filled where it is asked for
  mutable std::map<std::size_t, std::shared_ptr<const Section>> taken_;  ///< no more than the file
  mutable std::map<std::size_t, Sha256> plain_digests_;
};

}  // namespace weft::bundle
