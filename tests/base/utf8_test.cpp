#include "sdk/base/utf8.h"

#include <gtest/gtest.h>

namespace assay {
namespace {

TEST(Utf8, IsStrict) {
  EXPECT_TRUE(is_utf8("plain"));
  EXPECT_TRUE(is_utf8("\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"));
  EXPECT_FALSE(is_utf8("\xC0\x80"));          // over-long
  EXPECT_FALSE(is_utf8("\xE0\x80\x80"));      // over-long
  EXPECT_FALSE(is_utf8("\xED\xA0\x80"));      // surrogate
  EXPECT_FALSE(is_utf8("\xF4\x90\x80\x80"));  // beyond U+10FFFF
  EXPECT_FALSE(is_utf8("\xE2\x82"));          // cut short
  EXPECT_FALSE(is_utf8("\x80"));
}

TEST(Utf8, PrintableTextIsOneLineOfUtf8) {
  EXPECT_EQ(printable("plain \xC3\xA9"), "plain \xC3\xA9");
  EXPECT_EQ(printable(std::string_view("a\0\n\x7F", 4)), "a\\x00\\x0A\\x7F");
  EXPECT_EQ(printable("\xC3(\xFF"), "\\xC3(\\xFF");
  EXPECT_EQ(printable("cut \xE2\x82"), "cut \\xE2\\x82");
  EXPECT_EQ(printable(""), "");
}

TEST(Utf8, ExcerptsEndBetweenCharacters) {
  EXPECT_EQ(excerpt("short"), "\"short\"");
  EXPECT_EQ(excerpt(std::string(40, 'a')), '"' + std::string(40, 'a') + '"');
  EXPECT_EQ(excerpt(std::string(41, 'a')), '"' + std::string(40, 'a') + "...\"");
  EXPECT_EQ(excerpt(std::string(39, 'a') + "\xC3\xA9"), '"' + std::string(39, 'a') + "...\"");
  EXPECT_EQ(excerpt(std::string(39, 'a') + "\xE2\x82\xAC"), '"' + std::string(39, 'a') + "...\"");
}

}  // namespace
}  // namespace assay
