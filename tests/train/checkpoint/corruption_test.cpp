// Every missing byte and every altered byte is noticed, and said in a sentence.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "sdk/base/crc32c.h"
#include "sdk/train/checkpoint/manifest.pb.h"
#include "sdk/train/checkpoint/seal.h"
#include "tests/train/checkpoint/sample.h"

namespace assay::checkpoint {
namespace {

using testing::HasSubstr;

std::string sample_bytes() { return write_to_string(sample_state(), sample_tensors().records()); }

Outcome load(std::string bytes) {
  return outcome_of([&] { open_string(std::move(bytes)).verify_all(); });
}

TEST(CheckpointCorruption, SampleIsGood) { EXPECT_EQ(load(sample_bytes()).message, ""); }

TEST(CheckpointCorruption, EveryTruncationIsNoticed) {
  const std::string bytes = sample_bytes();
  for (size_t length = 0; length < bytes.size(); ++length) {
    const Outcome outcome = load(bytes.substr(0, length));
    ASSERT_EQ(outcome.code, Code::kFormat) << length;
    ASSERT_THAT(outcome.message, HasSubstr("sample: ")) << length;
  }
}

TEST(CheckpointCorruption, EveryFlippedByteIsNoticed) {
  const std::string bytes = sample_bytes();
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (const int mask : {0x01, 0x20, 0x80, 0xFF}) {  // 0x20: the case of a letter
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(damaged[at] ^ mask);
      const Outcome outcome = load(std::move(damaged));
      ASSERT_EQ(outcome.code, Code::kFormat) << "byte " << at << " mask " << mask;
    }
  }
}

TEST(CheckpointCorruption, AppendedRemovedAndSwappedBytesAreNoticed) {
  const std::string bytes = sample_bytes();
  EXPECT_EQ(load(bytes + "\n").code, Code::kFormat);
  EXPECT_EQ(load(bytes + bytes).code, Code::kFormat);
  EXPECT_EQ(load(bytes.substr(1)).code, Code::kFormat);
  EXPECT_EQ(load(bytes.substr(0, 100) + bytes.substr(101)).code, Code::kFormat);
  std::string swapped = bytes;
  std::swap_ranges(swapped.begin() + 10, swapped.begin() + 74, swapped.begin() + 200);
  EXPECT_EQ(load(swapped).code, Code::kFormat);
}

TEST(CheckpointCorruption, OtherFilesAreRefused) {
  EXPECT_THAT(load("").message, HasSubstr("not a checkpoint"));
  EXPECT_THAT(load("hello").message, HasSubstr("not a checkpoint"));
  EXPECT_THAT(load(std::string(100000, '\0')).message, HasSubstr("not a checkpoint"));
}

TEST(CheckpointCorruption, DamageIsLocated) {
  std::string bytes = sample_bytes();
  const uint64_t offset = open_string(bytes).find("fc.weight", Role::kGradient)->offset;
  bytes[offset + 3] ^= 1;
  const CheckpointReader reader = open_string(bytes);  // the rest of the file is still good
  std::array<std::byte, 72> good{};
  reader.read(reader.tensors()[0], good);
  EXPECT_THAT(load(bytes).message, HasSubstr("gradient of tensor fc.weight is damaged"));
}

// The seal with one field changed and its own sum made right again.
template <class Change>
std::string reseal(const std::string& bytes, Change&& change) {
  const size_t body = bytes.size() - kSealBytes;
  Seal seal = parse_seal(std::string_view(bytes).substr(body), "sample");
  change(seal);
  return bytes.substr(0, body) + seal_text(seal);
}

TEST(CheckpointCorruption, NewerFormatNamesBothVersions) {
  const Outcome outcome = load(reseal(sample_bytes(), [](Seal& s) { s.format_version = 7; }));
  EXPECT_EQ(outcome.code, Code::kVersion);
  EXPECT_EQ(outcome.message,
            "sample: it has checkpoint format 7, this library reads formats 1 to 1; update the "
            "library");
  EXPECT_EQ(load(reseal(sample_bytes(), [](Seal& s) { s.format_version = 0; })).code,
            Code::kVersion);
}

TEST(CheckpointCorruption, ForgedSealsCannotMakeUsReadElsewhere) {
  const auto forged = [](auto change) { return load(reseal(sample_bytes(), change)).code; };
  for (const uint64_t value : {uint64_t{0}, uint64_t{1} << 32, UINT64_MAX, UINT64_MAX - 64}) {
    EXPECT_EQ(forged([&](Seal& s) { s.file_bytes = value; }), Code::kFormat);
    EXPECT_EQ(forged([&](Seal& s) { s.manifest_offset = value; }), Code::kFormat);
    EXPECT_EQ(forged([&](Seal& s) { s.manifest_bytes = value; }), Code::kFormat);
  }
}

// A file whose sums are all right but whose manifest was changed by someone who knows the format:
// nothing in it may be believed.
template <class Change>
Outcome load_forged(Change&& change) {
  const std::string bytes = sample_bytes();
  const size_t body = bytes.size() - kSealBytes;
  Seal seal = parse_seal(std::string_view(bytes).substr(body), "sample");
  pb::Manifest manifest;
  EXPECT_TRUE(manifest.ParseFromString(bytes.substr(seal.manifest_offset, seal.manifest_bytes)));
  change(manifest);
  const std::string forged = manifest.SerializeAsString();
  // Behind everything else, where its length does not matter.
  seal.manifest_offset = body;
  seal.manifest_bytes = forged.size();
  seal.manifest_crc32c = crc32c(forged);
  seal.file_bytes = body + forged.size() + kSealBytes;
  return load(bytes.substr(0, body) + forged + seal_text(seal));
}

TEST(CheckpointCorruption, ForgedManifestsAreRefused) {
  const auto expect = [](const char* text, auto change) {
    const Outcome outcome = load_forged(change);
    EXPECT_EQ(outcome.code, Code::kFormat) << text;
    EXPECT_THAT(outcome.message, HasSubstr(text));
  };
  using M = pb::Manifest;
  expect("takes 72 bytes, it has 71", [](M& m) { m.mutable_tensors(0)->set_size(71); });
  expect("negative size or is too large", [](M& m) { m.mutable_tensors(0)->set_dims(0, -1); });
  expect("negative size or is too large",
         [](M& m) { m.mutable_tensors(0)->set_dims(0, int64_t{1} << 62); });
  expect("9 dimensions", [](M& m) {
    for (int i = 0; i < 5; ++i) m.mutable_tensors(0)->add_dims(1);
  });
  expect("element type 12 is unknown",
         [](M& m) { m.mutable_tensors(0)->set_dtype(static_cast<pb::DataType>(12)); });
  expect("role 9 is unknown",
         [](M& m) { m.mutable_tensors(0)->set_role(static_cast<pb::Role>(9)); });
  expect("belongs to none of the parts", [](M& m) { m.set_parts(kMoments); });
  expect("parts 32 are unknown", [](M& m) { m.set_parts(32); });
  expect("no multiple of 64", [](M& m) { m.mutable_tensors(0)->set_offset(1); });
  expect("outside of the space", [](M& m) { m.mutable_tensors(0)->set_offset(UINT64_MAX - 63); });
  expect("outside of the space",
         [](M& m) { m.mutable_tensors(1)->set_offset(m.tensors(0).offset()); });
  expect("occurs twice", [](M& m) {
    m.mutable_tensors(3)->set_name("conv1.weight"), m.mutable_tensors(3)->set_role(pb::ROLE_VALUE);
  });
  expect("is used twice", [](M& m) { m.mutable_tensors(1)->set_entry(m.tensors(0).entry()); });
  for (const char* entry :
       {"", "../../etc/passwd", "/etc/passwd", "a//b", "a\\b", "a/./b", "a/.."}) {
    expect("plain relative path", [&](M& m) { m.mutable_tensors(0)->set_entry(entry); });
  }
  expect("its name is not", [](M& m) { m.mutable_tensors(0)->set_name("\xFF"); });
  expect("metadata key occurs twice", [](M& m) { *m.add_metadata() = m.metadata(0); });
  expect("model_name is not UTF-8", [](M& m) { m.mutable_state()->set_model_name("\xC0\x80"); });
  const Outcome version = load_forged([](M& m) { m.set_format_version(2); });
  EXPECT_EQ(version.code, Code::kVersion);
}

}  // namespace
}  // namespace assay::checkpoint
