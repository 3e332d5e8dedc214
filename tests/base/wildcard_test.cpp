#include "sdk/base/wildcard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace assay {
namespace {

using testing::ElementsAre;

TEST(Wildcard, MatchesRunsOfCharacters) {
  EXPECT_TRUE(wildcard_match("*.bias", "layer1.0.bn1.bias"));
  EXPECT_TRUE(wildcard_match("layer*.bn*.weight", "layer1.0.bn1.weight"));
  EXPECT_TRUE(wildcard_match("*", ""));
  EXPECT_TRUE(wildcard_match("", ""));
  EXPECT_FALSE(wildcard_match("", "a"));
  EXPECT_FALSE(wildcard_match("bn", "bn1"));
  EXPECT_FALSE(wildcard_match("*.bias", "bias"));
  EXPECT_FALSE(wildcard_match("a?[b]", "axb"));  // no other signs
}

TEST(Wildcard, TellsWhatEachRunIs) {
  std::vector<std::string_view> runs;
  ASSERT_TRUE(wildcard_match("layer*.*.weight", "layer1.0.conv.weight", &runs));
  EXPECT_THAT(runs, ElementsAre("1", "0.conv"));
  ASSERT_TRUE(wildcard_match("*a*", "banana", &runs));
  EXPECT_THAT(runs, ElementsAre("b", "nana"));
  ASSERT_TRUE(wildcard_match("**", "ab", &runs));
  EXPECT_THAT(runs, ElementsAre("", "ab"));
  ASSERT_TRUE(wildcard_match("a*", "a", &runs));
  EXPECT_THAT(runs, ElementsAre(""));
}

// Quadratic at worst: trying every split of these would take for ever.
TEST(Wildcard, ManyRunsTakeNoTime) {
  std::string pattern;
  for (int i = 0; i < 30; ++i) pattern += "a*";
  EXPECT_FALSE(wildcard_match(pattern + "b", std::string(2000, 'a')));
}

}  // namespace
}  // namespace assay
