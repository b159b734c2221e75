#pragma once

#include "compiler/base/result.h"

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

/// Ed25519 (RFC 8032), by libcrypto.
namespace weft::bundle {

using PublicKey = std::array<std::uint8_t, 32>;
using Signature = std::array<std::uint8_t, 64>;

/// 64 hexadecimal digits.
std::string spelled(const PublicKey& key);

/// A public key as PEM text, as `openssl pkey -pubout` writes it, or as 64 hexadecimal digits. User error, with the
/// command that makes one, for anything else.
Result<PublicKey> read_public_key(std::string_view text);

class SigningKey {
 public:
  /// A private key as PEM text, as `openssl genpkey -algorithm ed25519` writes it, without a passphrase. User error
  /// for anything else.
  static Result<SigningKey> read(std::string_view pem);

  const PublicKey& public_key() const { return public_key_; }
  Result<Signature> sign(std::string_view message) const;

 private:
  struct Free {
    void operator()(void* key) const;
  };
  std::unique_ptr<void, Free> key_;
  PublicKey public_key_{};
};

bool signature_matches(const PublicKey& key, std::string_view message, const Signature& signature);

}  // namespace weft::bundle
