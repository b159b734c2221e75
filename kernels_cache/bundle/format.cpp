#include "kernels_cache/bundle/format.h"

#include "kernels_cache/bundle/numbers.h"

#include <fmt/format.h>

namespace weft::bundle {
namespace {

constexpr std::string_view kMagic = "WEFTBNDL";
constexpr std::size_t kFormatAt = 8, kRootAt = 48, kSignatureAt = 80, kKeyAt = 88, kSignatureBytesAt = 120,
                      kZerosAt = 184, kDigestAt = 224;

bool zeros(std::string_view bytes) { return bytes.find_first_not_of('\0') == std::string_view::npos; }

Signed signature_in(std::string_view bytes) {
  return {.key = get_bytes<32>(bytes, kKeyAt), .signature = get_bytes<64>(bytes, kSignatureBytesAt)};
}

/// With a trusted key, before anything of the header is believed.
Status check_signer(std::string_view bytes, const PublicKey& trusted) {
  if (get<std::uint32_t>(bytes, kSignatureAt) == 0) {
    return user_error("it is not signed, and only signed bundles are allowed here");
  }
  const auto by = signature_in(bytes);
  if (by.key != trusted) {
    return user_error(
        fmt::format("it is signed by another key, {}, than the trusted {}", spelled(by.key), spelled(trusted)));
  }
  if (!signature_matches(trusted, signed_message(get_bytes<32>(bytes, kRootAt)), by.signature)) {
    return user_error("its signature is wrong: it was changed after it was signed");
  }
  return done;
}

Status check_format(std::string_view bytes) {
  if (bytes.size() < kFormatAt + 4 || bytes.substr(0, kMagic.size()) != kMagic) {
    return user_error("it does not start like a bundle");
  }
  const auto format = get<std::uint32_t>(bytes, kFormatAt);
  if (format > kFormat) {
    return user_error(
        fmt::format("bundle format {} was made by a newer Weft; this one reads up to {}", format, kFormat));
  }
  if (format == 0) return user_error("its header is wrong: there is no bundle format 0");
  if (bytes.size() < kHeaderSize) return user_error("it ends in the middle of its header");
  return done;
}

Status check_lengths(const Header& header, std::uint64_t file_length) {
  if (header.file_length != file_length) {
    return user_error(fmt::format("it has {} bytes and states {}", file_length, header.file_length));
  }
  const auto rows = std::uint64_t{header.kernels} * kKernelRow + std::uint64_t{header.sections} * kSectionRow;
  if (header.manifest_length > kLargestManifest || header.manifest_length > file_length - kHeaderSize ||
      header.manifest_length != rows + header.words_length) {
    return user_error("the lengths in its header are wrong");
  }
  return done;
}

}  // namespace

std::string start_of(const Header& header) {
  std::string out(kMagic);
  put<std::uint32_t>(out, kFormat);
  put<std::uint32_t>(out, kHeaderSize);
  put<std::uint64_t>(out, header.file_length);
  put<std::uint64_t>(out, header.manifest_length);
  put<std::uint32_t>(out, header.kernels);
  put<std::uint32_t>(out, header.sections);
  put<std::uint32_t>(out, header.words_length);
  put<std::uint32_t>(out, 0);
  return out;
}

std::string encode(const Header& header) {
  auto out = start_of(header);
  put_bytes(out, header.root);
  put<std::uint32_t>(out, header.by ? 1 : 0);
  put<std::uint32_t>(out, 0);
  if (header.by) {
    put_bytes(out, header.by->key);
    put_bytes(out, header.by->signature);
  }
  out.resize(kDigestAt, '\0');
  put_bytes(out, sha256(out));
  return out;
}

Sha256 root_of(std::string_view start, std::string_view manifest) {
  std::string text;
  text.reserve(start.size() + manifest.size());
  return sha256(text.append(start).append(manifest));
}

std::string signed_message(const Sha256& root) {
  std::string message = "weft bundle root\n";
  put_bytes(message, root);
  return message;
}

Result<Header> decode(std::string_view bytes, std::uint64_t file_length, const std::optional<PublicKey>& trusted) {
  WEFT_CHECK(check_format(bytes));
  bytes = bytes.substr(0, kHeaderSize);
  if (trusted) {
    WEFT_CHECK(check_signer(bytes, *trusted));
  }
  if (sha256(bytes.substr(0, kDigestAt)) != get_bytes<32>(bytes, kDigestAt)) {
    return user_error("the digest of its header is wrong");
  }
  const auto has_signature = get<std::uint32_t>(bytes, kSignatureAt);
  const auto signature = bytes.substr(kKeyAt, kZerosAt - kKeyAt);
  if (get<std::uint32_t>(bytes, 12) != kHeaderSize || get<std::uint32_t>(bytes, 44) != 0 || has_signature > 1 ||
      get<std::uint32_t>(bytes, kSignatureAt + 4) != 0 || (has_signature == 0 && !zeros(signature)) ||
      !zeros(bytes.substr(kZerosAt, kDigestAt - kZerosAt))) {
    return user_error("its header is wrong");
  }
  Header header{.file_length = get<std::uint64_t>(bytes, 16),
                .manifest_length = get<std::uint64_t>(bytes, 24),
                .kernels = get<std::uint32_t>(bytes, 32),
                .sections = get<std::uint32_t>(bytes, 36),
                .words_length = get<std::uint32_t>(bytes, 40),
                .root = get_bytes<32>(bytes, kRootAt)};
  WEFT_CHECK(check_lengths(header, file_length));
  if (has_signature == 1) header.by = signature_in(bytes);
  return header;
}

}  // namespace weft::bundle
