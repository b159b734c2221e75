#include "kernels_cache/bundle/key_file.h"

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <algorithm>

namespace weft::bundle {
namespace {

using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using Context = std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)>;
using Stream = std::unique_ptr<BIO, decltype(&BIO_free)>;

const unsigned char* raw(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }

/// Never asks on a terminal: a key with a passphrase is refused.
int no_passphrase(char*, int, int, void*) { return -1; }

Stream stream_of(std::string_view text) {
  return {BIO_new_mem_buf(text.data(), static_cast<int>(std::min<std::size_t>(text.size(), 1U << 20))), &BIO_free};
}

bool is_ed25519(const Key& key) { return key != nullptr && EVP_PKEY_get_base_id(key.get()) == EVP_PKEY_ED25519; }

bool public_part(const EVP_PKEY* key, PublicKey& out) {
  std::size_t size = out.size();
  return EVP_PKEY_get_raw_public_key(key, out.data(), &size) == 1 && size == out.size();
}

int value_of(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  return digit >= 'A' && digit <= 'F' ? digit - 'A' + 10 : -1;
}

bool read_digits(std::string_view text, PublicKey& out) {
  if (text.size() != 2 * out.size()) return false;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const int high = value_of(text[2 * i]), low = value_of(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    out[i] = static_cast<std::uint8_t>(high * 16 + low);
  }
  return true;
}

}  // namespace

std::string spelled(const PublicKey& key) {
  std::string out;
  for (const auto byte : key) out += fmt::format("{:02x}", byte);
  return out;
}

Result<PublicKey> read_public_key(std::string_view text) {
  PublicKey out;
  const auto end = text.find_last_not_of(" \t\r\n");
  if (read_digits(text.substr(0, end == std::string_view::npos ? 0 : end + 1), out)) return out;
  const auto stream = stream_of(text);
  const Key key(PEM_read_bio_PUBKEY(stream.get(), nullptr, &no_passphrase, nullptr), &EVP_PKEY_free);
  ERR_clear_error();
  if (is_ed25519(key) && public_part(key.get(), out)) return out;
  auto error = user_error("this is no public key of Ed25519");
  error.notes.emplace_back("`openssl pkey -in private.pem -pubout -out public.pem` makes one of a private key");
  return error;
}

void SigningKey::Free::operator()(void* key) const { EVP_PKEY_free(static_cast<EVP_PKEY*>(key)); }

Result<SigningKey> SigningKey::read(std::string_view pem) {
  const auto stream = stream_of(pem);
  Key key(PEM_read_bio_PrivateKey(stream.get(), nullptr, &no_passphrase, nullptr), &EVP_PKEY_free);
  ERR_clear_error();
  SigningKey out;
  if (!is_ed25519(key) || !public_part(key.get(), out.public_key_)) {
    auto error = user_error("this is no private key of Ed25519 without a passphrase");
    error.notes.emplace_back("`openssl genpkey -algorithm ed25519 -out private.pem` makes one");
    return error;
  }
  out.key_.reset(key.release());
  return out;
}

Result<Signature> SigningKey::sign(std::string_view message) const {
  const Context context(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  Signature out;
  std::size_t size = out.size();
  if (EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, static_cast<EVP_PKEY*>(key_.get())) != 1 ||
      EVP_DigestSign(context.get(), out.data(), &size, raw(message), message.size()) != 1 || size != out.size()) {
    ERR_clear_error();
    return internal_error("libcrypto does not sign");
  }
  return out;
}

bool signature_matches(const PublicKey& key, std::string_view message, const Signature& signature) {
  const Key from(EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, key.data(), key.size()), &EVP_PKEY_free);
  const Context context(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  const bool matches =
      from != nullptr && EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, from.get()) == 1 &&
      EVP_DigestVerify(context.get(), signature.data(), signature.size(), raw(message), message.size()) == 1;
  ERR_clear_error();
  return matches;
}

}  // namespace weft::bundle
