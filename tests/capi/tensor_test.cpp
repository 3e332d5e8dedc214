#include <numeric>

#include "tests/capi/support.h"

namespace assay::test {
namespace {

using testing::HasSubstr;

class TensorTest : public testing::Test {
 protected:
  Owned<assay_context> context = make_context();
  const int64_t shape[2] = {2, 3};
};

assay_tensor_info info_of(const assay_tensor* tensor) {
  assay_tensor_info info{.struct_size = sizeof info};
  ok(assay_tensor_get_info, tensor, &info);
  return info;
}

TEST_F(TensorTest, NewOnesAreZeroAndCounted) {
  auto tensor = make<assay_tensor>(assay_tensor_new, context.get(), kCpu, ASSAY_I64, shape, 2);
  const assay_tensor_info info = info_of(tensor.get());
  EXPECT_EQ(info.dtype, ASSAY_I64);
  EXPECT_EQ(info.ndim, 2);
  EXPECT_EQ(info.shape[0], 2);
  EXPECT_EQ(info.shape[1], 3);
  EXPECT_EQ(info.bytes, 48u);
  EXPECT_EQ(info.flags, 0u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(info.data) % 64, 0u);
  int64_t values[6] = {1, 1, 1, 1, 1, 1};
  ok(assay_tensor_read, tensor.get(), values, sizeof values);
  EXPECT_THAT(values, testing::Each(0));
  assay_mem_stats stats{.struct_size = sizeof stats};
  ok(assay_context_mem_stats, context.get(), kCpu, &stats);
  EXPECT_EQ(stats.in_use, 48u);
  EXPECT_EQ(stats.blocks, 1u);
  tensor.reset();
  ok(assay_context_mem_stats, context.get(), kCpu, &stats);
  EXPECT_EQ(stats.in_use, 0u);
  EXPECT_EQ(stats.peak, 48u);
}

TEST_F(TensorTest, WriteAndRead) {
  const auto tensor =
      make<assay_tensor>(assay_tensor_new, context.get(), kCpu, ASSAY_F32, shape, 2);
  float values[6], back[6];
  std::iota(values, values + 6, 1.0f);
  ok(assay_tensor_write, tensor.get(), values, sizeof values);
  ok(assay_tensor_read, tensor.get(), back, sizeof back);
  EXPECT_THAT(back, testing::ElementsAreArray(values));
  EXPECT_THAT(fails(ASSAY_E_INVALID, assay_tensor_read, tensor.get(), back, sizeof back - 1),
              HasSubstr("24"));
  fails(ASSAY_E_INVALID, assay_tensor_write, tensor.get(), values, sizeof values + 1);
  fails(ASSAY_E_INVALID, assay_tensor_write, tensor.get(), nullptr, sizeof values);
}

TEST_F(TensorTest, ScalarsAndEmptyOnes) {
  const auto scalar =
      make<assay_tensor>(assay_tensor_new, context.get(), kCpu, ASSAY_F64, nullptr, 0);
  EXPECT_EQ(info_of(scalar.get()).bytes, 8u);
  const int64_t empty_shape[] = {0, 4};
  const auto empty =
      make<assay_tensor>(assay_tensor_new, context.get(), kCpu, ASSAY_U8, empty_shape, 2);
  EXPECT_EQ(info_of(empty.get()).bytes, 0u);
  ok(assay_tensor_read, empty.get(), nullptr, size_t{0});
}

TEST_F(TensorTest, BorrowedMemoryIsUsedInPlaceAndReleasedOnce) {
  float memory[6] = {1, 2, 3, 4, 5, 6};
  int released = 0;
  const auto release = [](uintptr_t user) { ++*reinterpret_cast<int*>(user); };
  auto tensor = make<assay_tensor>(assay_tensor_borrow, context.get(), static_cast<void*>(memory),
                                   sizeof memory, ASSAY_F32, shape, 2, +release,
                                   reinterpret_cast<uintptr_t>(&released));
  EXPECT_EQ(info_of(tensor.get()).data, memory);
  const float value[6] = {9, 9, 9, 9, 9, 9};
  ok(assay_tensor_write, tensor.get(), value, sizeof value);
  EXPECT_EQ(memory[5], 9);
  const Owned<assay_tensor> second(assay_tensor_retain(tensor.get()));
  EXPECT_EQ(second.get(), tensor.get());
  tensor.reset();
  context.reset();  // a tensor keeps what it needs of its context
  EXPECT_EQ(released, 0);
  const_cast<Owned<assay_tensor>&>(second).reset();
  EXPECT_EQ(released, 1);
}

TEST_F(TensorTest, BadShapesAndTypes) {
  assay_tensor* out = nullptr;
  const int64_t negative[] = {2, -1};
  const int64_t huge[] = {int64_t{1} << 40, int64_t{1} << 40};
  const int64_t many[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
  const auto fail_new = [&](int32_t dtype, const int64_t* dims, int32_t ndim) {
    return fails(ASSAY_E_INVALID, assay_tensor_new, context.get(), kCpu, dtype, dims, ndim, &out);
  };
  EXPECT_THAT(fail_new(ASSAY_F32, negative, 2), HasSubstr("shape[1] is -1"));
  EXPECT_THAT(fail_new(ASSAY_F32, huge, 2), HasSubstr("shape is too large"));
  EXPECT_THAT(fail_new(ASSAY_F32, many, 9), HasSubstr("9"));
  EXPECT_THAT(fail_new(0, shape, 2), HasSubstr("dtype is 0"));
  EXPECT_THAT(fail_new(99, shape, 2), HasSubstr("dtype is 99"));
  EXPECT_THAT(fail_new(ASSAY_F32, nullptr, 2), HasSubstr("shape"));
  EXPECT_THAT(fail_new(ASSAY_F32, shape, -1), HasSubstr("ndim"));
  fails(ASSAY_E_NOT_FOUND, assay_tensor_new, context.get(), assay_device_id{ASSAY_DEVICE_CUDA, 0},
        ASSAY_F32, shape, 2, &out);
}

TEST_F(TensorTest, BadBorrows) {
  alignas(8) char memory[32];
  assay_tensor* out = nullptr;
  const auto fail_borrow = [&](void* data, size_t bytes) {
    return fails(ASSAY_E_INVALID, assay_tensor_borrow, context.get(), data, bytes, ASSAY_F32, shape,
                 2, nullptr, 0, &out);
  };
  EXPECT_THAT(fail_borrow(memory, 23), HasSubstr("24"));
  EXPECT_THAT(fail_borrow(nullptr, 24), HasSubstr("data"));
  EXPECT_THAT(fail_borrow(memory + 1, 24), HasSubstr("aligned"));
}

TEST(TensorLimit, IsKept) {
  const assay_context_options options{.struct_size = sizeof options, .mem_limit = 1000};
  const auto context =
      make<assay_context>(assay_context_create, &options, nullptr, nullptr, size_t{0});
  const int64_t size = 600;
  assay_tensor* second = nullptr;
  auto first = make<assay_tensor>(assay_tensor_new, context.get(), kCpu, ASSAY_U8, &size, 1);
  const Outcome outcome = call(assay_tensor_new, context.get(), kCpu, ASSAY_U8, &size, 1, &second);
  EXPECT_EQ(outcome.status, ASSAY_E_OOM_HOST);
  EXPECT_EQ(outcome.flags, uint32_t{ASSAY_ERROR_RETRY});
  EXPECT_THAT(outcome.message, HasSubstr("limit"));
  first.reset();
  make<assay_tensor>(assay_tensor_new, context.get(), kCpu, ASSAY_U8, &size, 1);
}

TEST(TensorHuge, IsOutOfMemoryAndNothingWorse) {
  const auto context = make_context();
  const int64_t size = int64_t{1} << 55;
  assay_tensor* tensor = nullptr;
  fails(ASSAY_E_OOM_HOST, assay_tensor_new, context.get(), kCpu, ASSAY_U8, &size, 1, &tensor);
  assay_mem_stats stats{.struct_size = sizeof stats};
  ok(assay_context_mem_stats, context.get(), kCpu, &stats);
  EXPECT_EQ(stats.peak, 0u);  // what was never had is no peak
}

}  // namespace
}  // namespace assay::test
