#include "runtime/nvrtc/wire.h"

#include <gtest/gtest.h>

namespace weft::nvrtc {
namespace {

const std::vector<std::string> kFields = {"", "text", std::string("a\0b", 3), std::string(70'000, 'x')};

TEST(Wire, WhatIsPackedComesBack) {
  EXPECT_EQ(unpack(pack(kFields)), kFields);
  EXPECT_EQ(unpack(pack({})), std::vector<std::string>{});
}

TEST(Wire, TheLengthShowsAsSoonAsItCan) {
  const std::string message = pack(kFields);
  for (std::size_t have = 0; have < 40; ++have) {
    EXPECT_EQ(message_length(message.substr(0, have)), have < 16 ? 0U : message.size()) << have;
  }
}

TEST(Wire, DamageIsNoMessage) {
  const std::string message = pack({"one", "two"});
  for (std::size_t cut = 0; cut < message.size(); ++cut) EXPECT_EQ(unpack(message.substr(0, cut)), std::nullopt) << cut;
  EXPECT_EQ(unpack(message + "x"), std::nullopt);
  for (std::size_t at = 0; at < 24; ++at) {  // the mark, both kinds of length
    std::string broken = message;
    broken[at] = static_cast<char>(broken[at] ^ 0x80);
    EXPECT_EQ(unpack(broken), std::nullopt) << at;
  }
  EXPECT_EQ(message_length("HTTP/1.1"), std::nullopt);
}

}  // namespace
}  // namespace weft::nvrtc
