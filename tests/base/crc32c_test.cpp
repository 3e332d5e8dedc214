#include "sdk/base/crc32c.h"

#include <gtest/gtest.h>

#include <string>

namespace assay {
namespace {

// The check value of the CRC catalogue and the vectors of RFC 3720, appendix B.4.
TEST(Crc32c, PublishedVectors) {
  std::string ascending(32, 0), descending(32, 0);
  for (int i = 0; i < 32; ++i) {
    ascending[static_cast<size_t>(i)] = static_cast<char>(i);
    descending[static_cast<size_t>(i)] = static_cast<char>(31 - i);
  }
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43u);
  EXPECT_EQ(crc32c(ascending), 0x46DD794Eu);
  EXPECT_EQ(crc32c(descending), 0x113FDB5Cu);
}

TEST(Crc32c, TablesEqualInstructionAtEveryLengthAndAlignment) {
  std::string bytes(200, 0);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 37 + 11);
  for (size_t begin = 0; begin < 9; ++begin) {
    for (size_t length = 0; begin + length <= bytes.size(); ++length) {
      ASSERT_EQ(detail::crc32c_extend_portable(0, bytes.data() + begin, length),
                crc32c(bytes.data() + begin, length))
          << begin << " " << length;
    }
  }
}

TEST(Crc32c, ExtendingEqualsWhole) {
  const std::string text = "the quick brown fox jumps over the lazy dog";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    const uint32_t head = crc32c(text.data(), cut);
    EXPECT_EQ(crc32c_extend(head, text.data() + cut, text.size() - cut), crc32c(text));
  }
}

}  // namespace
}  // namespace assay
