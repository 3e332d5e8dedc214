#include "datasets/idx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "tests/data/support.h"

namespace assay::datasets {
namespace {

using test::error_of;
using test::TemporaryFolder;
using testing::ElementsAre;
using testing::HasSubstr;

// Two images of 2 x 3.
const std::string kGood = std::string("\0\0\x08\x03\0\0\0\2\0\0\0\2\0\0\0\3", 16) + "abcdefghijkl";

std::string gzip(const std::string& bytes) {
  std::string out(bytes.size() + 100, 0);
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

TEST(Idx, Parses) {
  const IdxArray array = parse_idx(kGood, 3, "x");
  EXPECT_THAT(array.dims, ElementsAre(2, 2, 3));
  EXPECT_EQ(array.data()[0], 'a');
  EXPECT_EQ(array.data()[11], 'l');
}

TEST(Idx, RefusesEveryTruncationAndExtension) {
  for (size_t length = 0; length < kGood.size(); ++length) {
    ASSERT_EQ(error_of([&] { parse_idx(kGood.substr(0, length), 3, "x"); }).code(), Code::kFormat)
        << length;
  }
  EXPECT_EQ(error_of([&] { parse_idx(kGood + "m", 3, "x"); }).code(), Code::kFormat);
}

TEST(Idx, RefusesEveryChangeOfTheHeader) {
  for (size_t i = 0; i < 16; ++i) {
    for (int value = 0; value < 256; ++value) {
      std::string bad = kGood;
      bad[i] = static_cast<char>(value);
      if (bad == kGood) continue;
      ASSERT_EQ(error_of([&] { parse_idx(bad, 3, "x"); }).code(), Code::kFormat) << i << value;
    }
  }
}

TEST(Idx, MessagesNameFileAndReason) {
  const auto message = [](std::string bytes) {
    return error_of([&] { parse_idx(std::move(bytes), 3, "folder/x"); }).message();
  };
  std::string bad = kGood;
  bad[3] = 1;
  EXPECT_THAT(message(bad), HasSubstr("folder/x: its first four bytes are 2049, expected 2051"));
  bad = kGood;
  bad[7] = 0;
  EXPECT_THAT(message(bad), HasSubstr("dimension 0 is 0"));
  bad = kGood;
  for (size_t i = 4; i < 16; ++i) bad[i] = '\xff';
  EXPECT_THAT(message(bad), HasSubstr("asks for more than"));
  EXPECT_THAT(message(kGood.substr(0, 20)), HasSubstr("holds 4 bytes of data"));
}

TEST(Idx, ReadsPlainAndCompressed) {
  const TemporaryFolder folder;
  test::write_quickly(folder.at("plain"), kGood);
  test::write_quickly(folder.at("packed.gz"), gzip(kGood));
  for (const char* name : {"plain", "packed.gz"}) {
    EXPECT_EQ(read_idx(folder.at(name), 3).bytes, kGood) << name;
  }
}

TEST(Idx, DamagedCompressionIsDetected) {
  const TemporaryFolder folder;
  const std::string good = gzip(kGood);
  for (size_t length = 0; length < good.size(); ++length) {
    test::write_quickly(folder.at("x.gz"), good.substr(0, length));
    ASSERT_EQ(error_of([&] { read_idx(folder.at("x.gz"), 3); }).code(), Code::kFormat) << length;
  }
  // Bytes 4 to 9 of the gzip header are time stamp, hints and system: no content.
  for (size_t i = 0; i < good.size(); ++i) {
    if (i >= 4 && i < 10) continue;
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x55);
    test::write_quickly(folder.at("x.gz"), bad);
    ASSERT_EQ(error_of([&] { read_idx(folder.at("x.gz"), 3); }).code(), Code::kFormat) << i;
  }
}

TEST(Idx, UnreadablePaths) {
  const TemporaryFolder folder;
  EXPECT_EQ(error_of([&] { read_idx(folder.at("x"), 3); }).code(), Code::kNotFound);
  EXPECT_EQ(error_of([&] { read_idx(folder.path(), 3); }).code(), Code::kIo);
}

}  // namespace
}  // namespace assay::datasets
