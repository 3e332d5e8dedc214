#include "sdk/base/float16.h"

#include <gtest/gtest.h>

#include <limits>

namespace assay {
namespace {

uint16_t half(float value) { return Float16(value).bits; }

TEST(Float16, RoundTripsEveryValue) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    Float16 number;
    number.bits = static_cast<uint16_t>(bits);
    const auto value = static_cast<float>(number);
    if (value != value) continue;
    ASSERT_EQ(half(value), bits) << value;
  }
}

TEST(Float16, RoundsToNearestEven) {
  EXPECT_EQ(half(1.0f + 0x1p-11f), 0x3C00);             // tie, down to even
  EXPECT_EQ(half(1.0f + 0x3p-11f), 0x3C02);             // tie, up to even
  EXPECT_EQ(half(1.0f + 0x1p-11f + 0x1p-20f), 0x3C01);  // above the tie
  EXPECT_EQ(half(65519.99f), 0x7BFF);
  EXPECT_EQ(half(65520.0f), 0x7C00);
  EXPECT_EQ(half(0x1p-25f), 0x0000);  // tie between 0 and the smallest, to even
  EXPECT_EQ(half(0x1.8p-25f), 0x0001);
  EXPECT_EQ(half(-0x1p-24f), 0x8001);
  EXPECT_EQ(half(0x1.ffcp-15f + 0x1p-26f), 0x0400);  // subnormal rounding up to normal
  EXPECT_EQ(half(std::numeric_limits<float>::quiet_NaN()) & 0x7E00, 0x7E00);
}

}  // namespace
}  // namespace assay
