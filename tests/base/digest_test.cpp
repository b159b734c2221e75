#include "compiler/base/digest.h"

#include <gtest/gtest.h>

namespace weft {

// FIPS 180-4, the published example for "abc".
TEST(Digest, KnownAnswer) {
  EXPECT_EQ(hex(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace weft
