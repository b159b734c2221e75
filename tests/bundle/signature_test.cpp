#include "tests/bundle/fixture.h"
#include "tests/bundle/pem.h"

/// Signed bundles: who signed what, and what a reader who trusts one key accepts.
namespace weft::bundle {
namespace {

std::string signed_by(unsigned char fill, const std::string& bytes) {
  const auto key = SigningKey::read(private_pem(fill)).value();
  const auto header = decode(bytes, bytes.size(), {}).value();
  return with_signature(bytes, header,
                        Signed{.key = key.public_key(), .signature = key.sign(signed_message(header.root)).value()});
}

Trust trusting(unsigned char fill) { return {.key = read_public_key(private_pem(fill, false)).value()}; }

TEST(Signature, MatchesKeyAndMessage) {
  const auto key = SigningKey::read(private_pem(1)).value();
  const auto signature = key.sign("text").value();
  EXPECT_TRUE(signature_matches(key.public_key(), "text", signature));
  EXPECT_FALSE(signature_matches(key.public_key(), "texu", signature));
  EXPECT_FALSE(signature_matches(SigningKey::read(private_pem(2))->public_key(), "text", signature));
}

TEST(Signature, KeysAreReadAsPemAndDigits) {
  const auto key = SigningKey::read(private_pem(1)).value().public_key();
  EXPECT_EQ(read_public_key(private_pem(1, false)).value(), key);
  EXPECT_EQ(read_public_key(spelled(key) + "\n").value(), key);
  EXPECT_EQ(read_public_key("1234").error().kind, ErrorKind::user);
  EXPECT_FALSE(read_public_key(private_pem(1)).ok()) << "a private key is none to hand around";
  EXPECT_FALSE(SigningKey::read(private_pem(1, false)).ok());
  EXPECT_FALSE(SigningKey::read("").ok());
  EXPECT_FALSE(read_public_key(std::string(64, 'g')).ok());
}

TEST(Signature, TrustedKeyOpens) {
  const auto bytes = signed_by(1, written(sample_kernels()));
  EXPECT_EQ(trouble_in(bytes, trusting(1)), "");
  EXPECT_EQ(trouble_in(bytes), "") << "who trusts everybody reads it, too";
  EXPECT_EQ(opened(bytes).value()->header().by->key, trusting(1).key);
}

TEST(Signature, OthersDoNot) {
  const auto bare = written(sample_kernels());
  EXPECT_NE(trouble_in(bare, trusting(1)).find("not signed"), std::string::npos);
  EXPECT_NE(trouble_in(signed_by(2, bare), trusting(1)).find("another key"), std::string::npos);
  // Signed again by another, and stripped.
  const auto bytes = signed_by(1, bare);
  EXPECT_NE(trouble_in(signed_by(2, bytes), trusting(1)).find("another key"), std::string::npos);
  const auto stripped = with_signature(bytes, decode(bytes, bytes.size(), {}).value(), {});
  EXPECT_EQ(stripped, bare);
  EXPECT_NE(trouble_in(stripped, trusting(1)), "");
}

/// Another's signature under the trusted key's name.
TEST(Signature, BelongsToItsKey) {
  const auto bytes = signed_by(2, written(sample_kernels()));
  auto header = decode(bytes, bytes.size(), {}).value();
  header.by->key = *trusting(1).key;
  const auto renamed = with_signature(bytes, header, header.by);
  EXPECT_NE(trouble_in(renamed, trusting(1)).find("changed after it was signed"), std::string::npos);
  EXPECT_NE(trouble_in(renamed).find("signature is wrong"), std::string::npos) << "verify finds it without a key";
}

/// A signature of another bundle.
TEST(Signature, BelongsToItsBundle) {
  const auto one = signed_by(1, written(sample_kernels())), other = written({sample_kernel("evil")});
  const auto header = decode(other, other.size(), {}).value();
  const auto moved = with_signature(other, header, decode(one, one.size(), {}).value().by);
  EXPECT_NE(trouble_in(moved, trusting(1)).find("changed after it was signed"), std::string::npos);
}

/// Every region, with digests made to fit what is in reach of who has no key.
TEST(Signature, EveryByteIsCovered) {
  const auto bytes = signed_by(1, written({sample_kernel("a", "sm_61", 60)}));
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    auto changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    EXPECT_NE(trouble_in(changed, trusting(1)), "") << at;
    if (at >= 224) continue;
    changed.resize(224);
    const auto digest = sha256(changed);
    changed.append(reinterpret_cast<const char*>(digest.data()), digest.size()) += bytes.substr(256);
    EXPECT_NE(trouble_in(changed, trusting(1)), "") << at << " with the header's digest";
  }
}

/// With a key, a header that is no header at all must not get further than its signature.
TEST(Signature, IsCheckedFirst) {
  auto bytes = signed_by(1, written(sample_kernels()));
  for (std::size_t at = 12; at < 80; ++at) bytes[at] = '\xFF';
  EXPECT_NE(trouble_in(bytes, trusting(1)).find("changed after it was signed"), std::string::npos);
  EXPECT_NE(trouble_in(bytes).find("digest of its header"), std::string::npos) << "the control";
}

TEST(Signature, IsReproducible) {
  EXPECT_EQ(signed_by(1, written(sample_kernels())), signed_by(1, written(sample_kernels())));
}

}  // namespace
}  // namespace weft::bundle
