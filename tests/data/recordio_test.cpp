#include "sdk/data/recordio.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "sdk/base/philox.h"
#include "tests/data/support.h"

namespace assay::data {
namespace {

using test::error_of;
using test::TemporaryFolder;
using testing::ElementsAre;
using testing::HasSubstr;

const std::string kMarker = "\x0a\x23\xd7\xce";

std::string framed(const std::vector<std::string>& payloads) {
  std::string bytes;
  for (const std::string& payload : payloads) append_recordio(payload, bytes);
  return bytes;
}

std::vector<std::string> read_all(const std::string& path) {
  const RecordIoFile file(path);
  std::vector<std::string> all(static_cast<size_t>(file.size()));
  for (size_t i = 0; i < all.size(); ++i) file.read(static_cast<int64_t>(i), all[i]);
  return all;
}

// Payloads that contain the format's own marker at aligned and other places, and its halves.
std::vector<std::string> awkward() {
  return {"",
          "a",
          "abcd",
          std::string(61, 'x'),
          kMarker,
          kMarker + kMarker,
          "abc" + kMarker,
          "abcd" + kMarker,
          "abcd" + kMarker + "ef",
          kMarker + "ab" + kMarker + "cd" + kMarker,
          "abcd" + kMarker + "efgh" + kMarker + "ijkl" + kMarker + "mn",
          kMarker.substr(2) + kMarker + kMarker.substr(0, 2)};
}

TEST(RecordIo, BytesOnDisk) {
  using namespace std::string_literals;
  EXPECT_EQ(framed({"hello"}), kMarker + "\x05\0\0\0hello\0\0\0"s);
  // A marker at an aligned place becomes a cut: kinds 1 and 3 in the upper three bits.
  EXPECT_EQ(framed({"abcd" + kMarker + "e"}),
            kMarker + "\x04\0\0\x20"s + "abcd" + kMarker + "\x01\0\0\x60"s + "e\0\0\0"s);
  EXPECT_EQ(framed({"ab" + kMarker}), kMarker + "\x06\0\0\0"s + "ab" + kMarker + "\0\0"s);
  EXPECT_EQ(framed({kMarker + kMarker}),
            kMarker + "\0\0\0\x20"s + kMarker + "\0\0\0\x40"s + kMarker + "\0\0\0\x60"s);
}

TEST(RecordIo, RoundTripWithAndWithoutIndex) {
  const TemporaryFolder folder;
  RecordIoWriter writer(folder.at("x"));
  const auto expected = awkward();
  for (size_t i = 0; i < expected.size(); ++i) writer.write(100 + i, expected[i]);
  writer.finish();
  EXPECT_EQ(read_all(folder.at("x.rec")), expected);
  EXPECT_THAT(read_file(folder.at("x.idx")), testing::StartsWith("100\t0\n101\t8\n102\t20\n"));
  remove_file(folder.at("x.idx"));
  EXPECT_EQ(read_all(folder.at("x.rec")), expected);
  EXPECT_EQ(read_file(folder.at("x.rec")), framed(expected));
}

TEST(RecordIo, RandomPayloadsOfMarkers) {
  const TemporaryFolder folder;
  PhiloxStream random(8, 9);
  std::vector<std::string> expected;
  for (int i = 0; i < 300; ++i) {
    std::string payload;
    for (uint32_t pieces = random.below(12); pieces > 0; --pieces) {
      payload += random.below(2) == 0 ? kMarker : std::string(random.below(6), 'q');
    }
    expected.push_back(payload);
  }
  test::write_quickly(folder.at("x.rec"), framed(expected));
  EXPECT_EQ(read_all(folder.at("x.rec")), expected);
}

// DALI's reading of an index: any order, any keys, equal offsets once.
TEST(RecordIo, IndexInAnyOrder) {
  const TemporaryFolder folder;
  test::write_quickly(folder.at("x.rec"), framed({"a", "bcdef", "g"}));
  test::write_quickly(folder.at("x.idx"), "7\t28\n7\t0\n1\t12\n2\t12");
  EXPECT_THAT(read_all(folder.at("x.rec")), ElementsAre("a", "bcdef", "g"));
}

TEST(RecordIo, WrongIndexIsRefused) {
  const TemporaryFolder folder;
  test::write_quickly(folder.at("x.rec"), framed({"a", "bcdef", "g"}));
  for (const char* index :
       {"0\t0\n1\t13\n", "0\t12\n", "0\t0\n1\t4000\n", "junk", "0 0\n", "0\t-1\n", ""}) {
    test::write_quickly(folder.at("x.idx"), index);
    EXPECT_EQ(error_of([&] { read_all(folder.at("x.rec")); }).code(), Code::kFormat) << index;
  }
}

TEST(RecordIo, EveryTruncationIsDetected) {
  const TemporaryFolder folder;
  const auto expected = awkward();
  const std::string good = framed(expected);
  std::vector<size_t> whole;
  for (size_t n = 0; n <= expected.size(); ++n) {
    whole.push_back(framed({expected.begin(), expected.begin() + static_cast<long>(n)}).size());
  }
  for (size_t length = 0; length < good.size(); ++length) {
    test::write_quickly(folder.at("x.rec"), good.substr(0, length));
    const Error error = error_of([&] { read_all(folder.at("x.rec")); });
    const bool between = std::find(whole.begin(), whole.end(), length) != whole.end();
    ASSERT_EQ(error.code(), between ? Code::kOk : Code::kFormat) << length;
    ASSERT_THAT(error.message(), HasSubstr(between ? "no error" : "at byte ")) << length;
  }
}

TEST(RecordIo, PartsOutOfPlaceAreRefused) {
  const TemporaryFolder folder;
  const std::string cut = framed({"abcd" + kMarker + "e"});
  for (const std::string& bytes :
       {cut.substr(12), cut.substr(0, 12) + framed({"x"}), "junk" + cut, std::string(64, '\0')}) {
    test::write_quickly(folder.at("x.rec"), bytes);
    EXPECT_EQ(error_of([&] { read_all(folder.at("x.rec")); }).code(), Code::kFormat);
  }
}

TEST(RecordIo, ImageHeaders) {
  std::string payload;
  pack_recordio_image(77, 5, "JPEG", payload);
  ASSERT_EQ(payload.size(), 28u);
  const RecordIoImage image = parse_recordio_image(payload);
  EXPECT_EQ(image.id, 77u);
  EXPECT_THAT(image.labels, ElementsAre(5));
  EXPECT_EQ(image.file, "JPEG");
  // Two labels behind the header.
  std::string two = payload.substr(0, 24);
  two[0] = 2;
  const float labels[] = {3, 4};
  two.append(reinterpret_cast<const char*>(labels), sizeof labels).append("PNG");
  EXPECT_THAT(parse_recordio_image(two).labels, ElementsAre(3, 4));
  EXPECT_EQ(parse_recordio_image(two).file, "PNG");
  for (size_t length = 0; length < 24; ++length) {
    EXPECT_EQ(error_of([&] { parse_recordio_image(payload.substr(0, length)); }).code(),
              Code::kFormat);
  }
  std::string hostile = payload;
  std::memset(hostile.data(), 0xff, 4);
  EXPECT_EQ(error_of([&] { parse_recordio_image(hostile); }).code(), Code::kFormat);
}

}  // namespace
}  // namespace assay::data
