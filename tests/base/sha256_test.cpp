#include "sdk/base/sha256.h"

#include <gtest/gtest.h>

namespace assay {
namespace {

// The examples of FIPS 180-4 and the million-letter test of its predecessor.
TEST(Sha256, PublishedVectors) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_hex(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PiecesEqualWhole) {
  std::string text(200, 0);
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7);
  for (size_t length = 0; length <= text.size(); ++length) {
    Sha256 sum;
    sum.update(text.data(), length / 3);
    sum.update(text.data() + length / 3, length - length / 3);
    ASSERT_EQ(sum.hex(), sha256_hex(text.substr(0, length))) << length;
  }
}

TEST(Sha256, ACopyGoesOnByItself) {
  Sha256 sum;
  sum.update("ab");
  Sha256 copy = sum;
  sum.update("c");
  copy.update("d");
  EXPECT_EQ(sum.hex(), sha256_hex("abc"));
  EXPECT_EQ(copy.hex(), sha256_hex("abd"));
}

}  // namespace
}  // namespace assay
