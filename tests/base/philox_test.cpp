#include "sdk/base/philox.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace assay {
namespace {

// Known answers of the Random123 distribution (kat_vectors, philox4x32 with 10 rounds).
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, StreamIsTheDocumentedFunctionOfItsCoordinates) {
  const uint64_t a = 0x0123456789abcdef;
  PhiloxStream stream(7, 9, a, 5);
  for (uint32_t n = 0; n < 12; ++n) {
    const auto block = philox4x32({n / 4, 5, 0x89abcdef, 0x01234567}, philox_key(7, 9));
    EXPECT_EQ(stream.bits(), block[n % 4]) << n;
  }
}

TEST(Philox, EveryCoordinateMatters) {
  std::set<uint32_t> first;
  for (const auto& [seed, stream, a, b] :
       std::vector<std::array<uint64_t, 4>>{{1, 2, 3, 4},
                                            {2, 2, 3, 4},
                                            {1 + (uint64_t{1} << 32), 2, 3, 4},
                                            {1, 3, 3, 4},
                                            {1, 2 + (uint64_t{1} << 32), 3, 4},
                                            {1, 2, 4, 4},
                                            {1, 2, 3 + (uint64_t{1} << 32), 4},
                                            {1, 2, 3, 5}}) {
    first.insert(PhiloxStream(seed, stream, a, static_cast<uint32_t>(b)).bits());
  }
  EXPECT_EQ(first.size(), 8u);
}

TEST(Philox, UniformStaysBelowOne) {
  EXPECT_EQ(philox_uniform(0), 0.0f);
  EXPECT_EQ(philox_uniform(0x80000000u), 0.5f);
  EXPECT_LT(philox_uniform(0xFFFFFFFFu), 1.0f);
  PhiloxStream stream(1, 1);
  EXPECT_FALSE(stream.bernoulli(0.0f));
  EXPECT_TRUE(stream.bernoulli(1.0f));
}

TEST(Philox, BelowIsUniform) {
  constexpr uint32_t kBound = 6;
  constexpr int kDraws = 60000;
  std::array<int, kBound> counts{};
  PhiloxStream stream(3, 1);
  for (int i = 0; i < kDraws; ++i) {
    const uint32_t value = stream.below(kBound);
    ASSERT_LT(value, kBound);
    ++counts[value];
  }
  double chi_square = 0;
  for (const int count : counts) {
    const double expected = static_cast<double>(kDraws) / kBound;
    chi_square += (count - expected) * (count - expected) / expected;
  }
  EXPECT_LT(chi_square, 20.5);  // 0.999 quantile with 5 degrees of freedom
  EXPECT_EQ(stream.below(1), 0u);
}

// A bound of 3 * 2^30 shows plain multiply or modulo at once: a third of the values would appear
// twice as often.
TEST(Philox, BelowRejectsTheBiasedRemainder) {
  PhiloxStream stream(4, 1);
  int low = 0;
  constexpr int kDraws = 30000;
  for (int i = 0; i < kDraws; ++i) low += stream.below(3u << 30) < (1u << 30);
  EXPECT_NEAR(low / static_cast<double>(kDraws), 1.0 / 3, 0.012);  // 4.4 standard deviations
}

TEST(Philox, NormalHasItsMoments) {
  constexpr int kDraws = 100000;
  PhiloxStream stream(5, 1);
  double sum = 0, squares = 0, fourth = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double x = stream.normal();
    sum += x;
    squares += x * x;
    fourth += x * x * x * x;
  }
  EXPECT_NEAR(sum / kDraws, 0, 0.014);
  EXPECT_NEAR(squares / kDraws, 1, 0.02);
  EXPECT_NEAR(fourth / kDraws, 3, 0.14);
  EXPECT_TRUE(std::isfinite(philox_normal_pair(0, 0)[0]));
}

}  // namespace
}  // namespace assay
