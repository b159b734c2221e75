#include "kernels_cache/entry.h"

#include "compiler/base/digest.h"
#include "fuzz/require.h"
#include "fuzz/targets.h"
#include "kernels_cache/key.h"
#include "kernels_cache/numbers.h"

#include <string>

namespace weft::fuzz {
namespace {

using namespace weft::cache;

/// What decodes is what encode() writes, to the byte.
void read(std::string_view bytes) {
  const auto decoded = decode(bytes, Check::file_and_sections);
  require(!decoded || decode(bytes, Check::file).ok(), "what holds in full holds");
  const auto key = key_text_of(bytes);
  (void)differences(key, bytes);
  (void)fields_of(bytes);
  if (!decoded) return;
  require(key == decoded->key_text, "the key is where it is looked for");
  require(encode(decoded->key_text, decoded->entry) == bytes, "there is one way to write an entry down");
}

/// The bytes as all behind the lengths, in a file whose magic, format, length and digest are right: what somebody can
/// do who wants to hurt, and a fuzzer cannot.
std::string forged(std::string_view bytes) {
  std::string out = encode("", {}).substr(0, 16);
  put<std::uint64_t>(out, 24 + bytes.size() + sizeof(Sha256));
  out += bytes;
  const Sha256 digest = sha256(out);
  put_bytes(out, digest);
  return out;
}

}  // namespace

void entry(std::string_view bytes) {
  read(bytes);
  read(forged(bytes));
  (void)decode(forged(bytes), Check::file);
}

}  // namespace weft::fuzz
