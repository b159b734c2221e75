#pragma once

#include "compiler/base/digest.h"
#include "compiler/base/result.h"
#include "kernels_cache/bundle/key_file.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// A bundle is one file, passive data, and the same kernels give the same bytes:
///
///     header, 256 bytes
///          0  magic "WEFTBNDL", format u32, length of the header u32
///         16  length of the file u64, length of the manifest u64
///         32  number of kernels u32, number of sections u32, length of the words u32, zero u32
///         48  root: SHA-256 of the 48 bytes before it and the manifest
///         80  signature: 1 where there is one u32, zero u32, public key (32), Ed25519 of the root (64)
///        184  zeros
///        224  SHA-256 of the 224 bytes before it
///     manifest
///          a row per kernel, ascending by digest and number of the facts: SHA-256 of the request's text (32), name
///          u32, target u32 (both are
///              words), registers u32, spilled bytes u32 (all ones: unknown), sections: facts, binary, source, plan u32
///          a row per section, ascending by digest and plain length: SHA-256 of the stored bytes (32), stored length
///          u64,
///              plain length u64
///          the words, ascending: length u32, bytes
///     the sections' stored bytes, in the order of their rows, without gaps
///
/// Numbers are little-endian. What several kernels share, such as a source, is one section. The digests form a tree:
/// the root vouches for the manifest, and the manifest for each section, so that a reader checks what it takes and
/// nothing else, and a signature of the root signs all.
namespace weft::bundle {

/// The newest format, which is written; older ones are read.
inline constexpr unsigned kFormat = 1;

inline constexpr std::size_t kHeaderSize = 256;
inline constexpr std::size_t kKernelRow = 64, kSectionRow = 48;

/// A longer manifest (some 100,000 kernels) is none: nothing is allocated for it.
inline constexpr std::uint64_t kLargestManifest = std::uint64_t{32} << 20;

struct Signed {
  PublicKey key;
  Signature signature;
};

struct Header {
  std::uint64_t file_length = 0, manifest_length = 0;
  std::uint32_t kernels = 0, sections = 0, words_length = 0;
  Sha256 root{};
  std::optional<Signed> by = {};
};

/// The first 48 bytes, which the root covers.
std::string start_of(const Header& header);
std::string encode(const Header& header);

/// The root of a manifest under a header's start.
Sha256 root_of(std::string_view start, std::string_view manifest);

/// What is signed: a root, and what for.
std::string signed_message(const Sha256& root);

/// Reads the first bytes of a file that has `file_length` of them. With a `trusted` key nothing but magic and format
/// is looked at before the signature has been found to be that key's. Lengths agree with each other and the file
/// when it succeeds; whether root and manifest do is for the one who reads the manifest.
///
/// User error, without the file's name: what is wrong with it. A newer format is refused by its number.
Result<Header> decode(std::string_view bytes, std::uint64_t file_length, const std::optional<PublicKey>& trusted);

}  // namespace weft::bundle
