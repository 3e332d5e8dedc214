#include "sdk/data/record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sdk/base/crc32c.h"
#include "sdk/data/record_source.h"
#include "tests/data/support.h"

namespace assay::data {
namespace {

using test::error_of;
using test::TemporaryFolder;
using testing::HasSubstr;

std::vector<std::string> payloads(int count) {
  std::vector<std::string> all;
  for (int i = 0; i < count; ++i)
    all.push_back(std::string(static_cast<size_t>(i * 7), static_cast<char>('a' + i)));
  return all;
}

std::string framed(const std::vector<std::string>& all) {
  std::string bytes;
  for (const std::string& payload : all) append_record(payload, bytes);
  return bytes;
}

// All payloads of a file; fails as reading does.
std::vector<std::string> read_all(const std::string& path) {
  const RecordFile file(path);
  std::vector<std::string> all(static_cast<size_t>(file.size()));
  for (size_t i = 0; i < all.size(); ++i) file.read(static_cast<int64_t>(i), all[i]);
  return all;
}

TEST(Record, RoundTripInAnyOrder) {
  const TemporaryFolder folder;
  const auto expected = payloads(5);
  RecordWriter writer(folder.at("x"));
  for (const std::string& payload : expected) writer.write(payload);
  EXPECT_EQ(folder.entries(), 1);  // the temporary file only
  const RecordFileInfo info = writer.finish();
  EXPECT_EQ(info.records, 5);
  EXPECT_EQ(info.bytes, framed(expected).size());
  EXPECT_EQ(info.crc32c, crc32c(framed(expected)));
  const RecordFile file(folder.at("x"));
  ASSERT_EQ(file.size(), 5);
  std::string payload;
  for (const int64_t i : {4, 0, 3, 1, 2}) {
    file.read(i, payload);
    EXPECT_EQ(payload, expected[static_cast<size_t>(i)]);
  }
  EXPECT_EQ(error_of([&] { file.read(5, payload); }).code(), Code::kInvalid);
  EXPECT_EQ(error_of([&] { file.read(-1, payload); }).code(), Code::kInvalid);
}

// Records around the size of the scan window, so that headers fall on and across its end.
TEST(Record, ScanCrossesItsWindow) {
  const TemporaryFolder folder;
  std::vector<std::string> expected;
  for (size_t size = 0; size < 40; ++size) expected.push_back(std::string(size, 'x'));
  for (size_t near = 0; near < 40; ++near) {
    expected.push_back(std::string((size_t{1} << 18) - 20 + near, 'y'));
    for (int k = 0; k < 3; ++k) expected.push_back(std::string(near, 'z'));
  }
  for (int k = 0; k < 20000; ++k) expected.push_back(std::string(17, 'w'));
  test::write_quickly(folder.at("x"), framed(expected));
  EXPECT_EQ(read_all(folder.at("x")), expected);
}

TEST(Record, EmptyFileHoldsNoRecords) {
  const TemporaryFolder folder;
  EXPECT_EQ(RecordWriter(folder.at("x")).finish().records, 0);
  EXPECT_EQ(RecordFile(folder.at("x")).size(), 0);
}

TEST(Record, EveryFlippedBitIsDetected) {
  const TemporaryFolder folder;
  const std::string good = framed(payloads(4));
  for (size_t i = 0; i < good.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ (1 << bit));
      test::write_quickly(folder.at("x"), bad);
      const Error error = error_of([&] { read_all(folder.at("x")); });
      ASSERT_EQ(error.code(), Code::kFormat) << i << " " << bit;
      ASSERT_THAT(error.message(), HasSubstr(folder.at("x"))) << i;
      ASSERT_THAT(error.message(), HasSubstr("at byte ")) << i;
    }
  }
}

TEST(Record, EveryTruncationIsDetected) {
  const TemporaryFolder folder;
  const auto expected = payloads(4);
  const std::string good = framed(expected);
  std::vector<size_t> whole;
  for (size_t n = 0; n <= expected.size(); ++n) {
    whole.push_back(framed({expected.begin(), expected.begin() + static_cast<long>(n)}).size());
  }
  for (size_t length = 0; length < good.size(); ++length) {
    test::write_quickly(folder.at("x"), good.substr(0, length));
    const Error error = error_of([&] { read_all(folder.at("x")); });
    // Cut between records, a file is a shorter file: the manifest's counts detect that.
    const bool between = std::find(whole.begin(), whole.end(), length) != whole.end();
    ASSERT_EQ(error.code(), between ? Code::kOk : Code::kFormat) << length;
  }
}

TEST(Record, HostileLengthAllocatesNothing) {
  const TemporaryFolder folder;
  for (const uint64_t length : {kMaxRecordBytes + 1, uint64_t{1} << 62, ~uint64_t{0}}) {
    std::string bytes(reinterpret_cast<const char*>(&length), 8);
    const uint32_t crc = mask_crc(crc32c(bytes));
    bytes.append(reinterpret_cast<const char*>(&crc), 4);
    bytes.append(100, 'x');
    test::write_quickly(folder.at("x"), bytes);
    const Error error = error_of([&] { read_all(folder.at("x")); });
    EXPECT_EQ(error.code(), Code::kFormat);
    EXPECT_THAT(error.message(), HasSubstr("more than the limit"));
  }
}

TEST(Record, IndexReplacesTheScan) {
  const TemporaryFolder folder;
  const auto expected = payloads(5);
  test::write_quickly(folder.at("x"), framed(expected));
  test::write_quickly(folder.at("x.idx"), "0 16\n16 23\n39 30\n69 37\n106 44\n");
  EXPECT_EQ(read_all(folder.at("x")), expected);
}

TEST(Record, WrongIndexIsRefused) {
  const TemporaryFolder folder;
  test::write_quickly(folder.at("x"), framed(payloads(3)));  // 16 + 23 + 30 bytes
  for (const char* index :
       {"", "0 16\n16 23\n", "0 16\n16 23\n39 31\n", "0 16\n17 22\n39 30\n", "0 16\n16 53", "0 x\n",
        "0 15\n15 54\n", "junk", "0 16\n16 18446744073709551615\n", "0 69\n69 16\n"}) {
    test::write_quickly(folder.at("x.idx"), index);
    EXPECT_EQ(error_of([&] { read_all(folder.at("x")); }).code(), Code::kFormat) << index;
  }
  // One that covers the file but not at its records is found out by the records' own lengths.
  test::write_quickly(folder.at("x.idx"), "0 39\n39 30\n");
  EXPECT_EQ(error_of([&] { read_all(folder.at("x")); }).code(), Code::kFormat);
}

TEST(Record, MissingFile) {
  const Error error = error_of([] { RecordFile("/nowhere/x.tfrecord"); });
  EXPECT_EQ(error.code(), Code::kNotFound);
}

TEST(RecordSet, NumbersRecordsAcrossFiles) {
  const TemporaryFolder folder;
  test::write_quickly(folder.at("a"), framed({"0", "1"}));
  test::write_quickly(folder.at("b"), "");
  test::write_quickly(folder.at("c"), framed({"2", "3", "4"}));
  const RecordSet set({folder.at("a"), folder.at("b"), folder.at("c")});
  ASSERT_EQ(set.size(), 5);
  std::string payload;
  for (int64_t i = 0; i < 5; ++i) {
    set.read(i, payload);
    EXPECT_EQ(payload, cat(i));
  }
  EXPECT_EQ(set.where(1), folder.at("a") + ", record 1");
  EXPECT_EQ(set.where(2), folder.at("c") + ", record 0");
  EXPECT_EQ(error_of([&] { set.read(5, payload); }).code(), Code::kInvalid);
}

}  // namespace
}  // namespace assay::data
