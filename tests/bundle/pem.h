#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>

#include <string>

namespace weft::bundle {

/// Fixed keys, so that failures repeat: as PEM text, from 32 equal bytes.
inline std::string private_pem(unsigned char fill, bool secret = true) {
  const std::string seed(32, static_cast<char>(fill));
  EVP_PKEY* key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr,
                                               reinterpret_cast<const unsigned char*>(seed.data()), seed.size());
  BIO* out = BIO_new(BIO_s_mem());
  if (secret)
    PEM_write_bio_PrivateKey(out, key, nullptr, nullptr, 0, nullptr, nullptr);
  else
    PEM_write_bio_PUBKEY(out, key);
  char* text = nullptr;
  const auto size = BIO_get_mem_data(out, &text);
  std::string pem(text, static_cast<std::size_t>(size));
  BIO_free(out);
  EVP_PKEY_free(key);
  return pem;
}

}  // namespace weft::bundle
