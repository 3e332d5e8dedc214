#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sdk/train/checkpoint/archive.h"
#include "sdk/train/checkpoint/tensor_layout.h"

namespace assay::checkpoint {
namespace {

std::optional<uint64_t> bytes_of(std::vector<int64_t> dims, DType dtype) {
  return tensor_bytes(dims, dtype);
}

TEST(TensorBytes, Products) {
  EXPECT_EQ(bytes_of({}, DType::kF32), 4u);
  EXPECT_EQ(bytes_of({3, 5}, DType::kBf16), 30u);
  EXPECT_EQ(bytes_of({0, 5}, DType::kF64), 0u);
  EXPECT_EQ(bytes_of({65536, 65536}, DType::kF32), uint64_t{1} << 34);
  EXPECT_EQ(bytes_of({int64_t{1} << 60}, DType::kF32), uint64_t{1} << 62);
}

TEST(TensorBytes, RefusesWhatDoesNotFit) {
  EXPECT_FALSE(bytes_of({-1}, DType::kF32));
  EXPECT_FALSE(bytes_of({0, -1}, DType::kF32));
  EXPECT_FALSE(bytes_of({INT64_MAX}, DType::kF32));
  EXPECT_FALSE(bytes_of({int64_t{1} << 61}, DType::kF32));
  EXPECT_FALSE(bytes_of({int64_t{1} << 32, int64_t{1} << 32}, DType::kU8));
  EXPECT_FALSE(bytes_of({INT64_MIN}, DType::kU8));
  EXPECT_FALSE(bytes_of({1}, DType{0}));
  // Empty in this order; in another one the product of the others overflows before the zero.
  constexpr int64_t kBig = int64_t{1} << 53;
  EXPECT_FALSE(bytes_of({kBig, 0, kBig, kBig}, DType::kF32));
}

TEST(Inside, DoesNotWrap) {
  EXPECT_TRUE(inside(10, 5, 10, 15));
  EXPECT_FALSE(inside(10, 6, 10, 15));
  EXPECT_FALSE(inside(9, 1, 10, 15));
  EXPECT_FALSE(inside(UINT64_MAX, 2, 0, 15));
  EXPECT_FALSE(inside(12, UINT64_MAX, 10, 15));
}

TEST(Names, HaveAtMost1024Bytes) {
  EXPECT_FALSE(is_tensor_name(std::string(1025, 'a')));
  EXPECT_TRUE(is_tensor_name(std::string(1024, 'a')));
}

// Headers, padding and zip64 fields around payloads far too large to allocate here.
TEST(PlanOffsets, CountsInto64Bits) {
  const std::vector<std::string> names = {"manifest.pb", "value/0000.a", "value/0001.b",
                                          "value/0002.c"};
  const std::vector<uint64_t> sizes = {1000, uint64_t{5} << 30, 10, uint64_t{1} << 40};
  const std::vector<uint64_t> offsets = plan_offsets(names, sizes);
  ASSERT_EQ(offsets.size(), 4u);
  uint64_t end = 0;
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(offsets[i] % kAlignment, 0u);
    EXPECT_GE(offsets[i], end + 30 + names[i].size() + 6 + (sizes[i] > UINT32_MAX ? 20 : 0));
    EXPECT_LT(offsets[i], end + 30 + names[i].size() + 6 + 20 + 64);
    end = offsets[i] + sizes[i];
  }
}

}  // namespace
}  // namespace assay::checkpoint
