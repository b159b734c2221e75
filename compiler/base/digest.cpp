#include "compiler/base/digest.h"

// The functions that OpenSSL 3 would rather have used fetch the algorithm by name each time, under a lock that a child
// of fork() may find taken for good; these only compute.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

namespace weft {

Sha256 sha256(std::string_view bytes) {
  Sha256 out;
  SHA256_CTX state;
  SHA256_Init(&state);
  SHA256_Update(&state, bytes.data(), bytes.size());
  SHA256_Final(out.data(), &state);
  return out;
}

std::string hex(const Sha256& digest) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (std::uint8_t byte : digest) {
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

}  // namespace weft
