// Tensors from and to other libraries, which share their memory.
#include <numeric>
#include <thread>

#include "tests/capi/dlpack_tensors.h"

namespace assay::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class DlpackTest : public SmallModel {
 protected:
  Owned<assay_tensor> taken(Foreign& foreign) const {
    return make<assay_tensor>(assay_tensor_from_dlpack, context.get(), &foreign.dl);
  }
  // Expects a refusal, behind which the tensor is still the caller's.
  Outcome refused(assay_status status, Foreign& foreign) const {
    assay_tensor* out = nullptr;
    Outcome outcome = call(assay_tensor_from_dlpack, context.get(), &foreign.dl, &out);
    EXPECT_EQ(outcome.status, status) << outcome.message;
    EXPECT_EQ(out, nullptr);
    EXPECT_EQ(foreign.deleted, 0);
    return outcome;
  }
};

TEST_F(DlpackTest, OthersSeeTheSameMemory) {
  float memory[6];
  int released = 0;
  const int64_t shape[] = {2, 3};
  auto tensor = make<assay_tensor>(
      assay_tensor_borrow, context.get(), static_cast<void*>(memory), sizeof memory, ASSAY_F32,
      shape, 2, +[](uintptr_t user) { ++*reinterpret_cast<int*>(user); },
      reinterpret_cast<uintptr_t>(&released));
  Dl dl = exported(tensor.get());
  EXPECT_EQ(dl->version.major, 1u);
  EXPECT_EQ(dl->flags, 0u);
  const DLTensor& seen = dl->dl_tensor;
  EXPECT_EQ(seen.data, memory);
  EXPECT_EQ(seen.byte_offset, 0u);
  EXPECT_EQ(seen.device.device_type, kDLCPU);
  EXPECT_EQ(seen.device.device_id, 0);
  EXPECT_EQ(seen.ndim, 2);
  EXPECT_THAT(std::vector(seen.shape, seen.shape + 2), ElementsAre(2, 3));
  EXPECT_THAT(std::vector(seen.strides, seen.strides + 2), ElementsAre(3, 1));
  Dl again = exported(tensor.get());
  tensor.reset();
  context.reset();
  EXPECT_EQ(released, 0);
  std::thread([&] { dl.reset(); }).join();
  EXPECT_EQ(released, 0);
  again.reset();
  EXPECT_EQ(released, 1);
}

TEST_F(DlpackTest, EveryTypeBothWays) {
  const int64_t shape[] = {2, 1, 4};
  for (const auto& [dtype, code, bits] : {std::tuple(ASSAY_F32, kDLFloat, 32),
                                          {ASSAY_BF16, kDLBfloat, 16},
                                          {ASSAY_F16, kDLFloat, 16},
                                          {ASSAY_F64, kDLFloat, 64},
                                          {ASSAY_I32, kDLInt, 32},
                                          {ASSAY_I64, kDLInt, 64},
                                          {ASSAY_U8, kDLUInt, 8}}) {
    auto tensor = make<assay_tensor>(assay_tensor_new, context.get(), kCpu, dtype, shape, 3);
    std::vector<unsigned char> bytes(info_of(tensor.get()).bytes), back(bytes.size());
    std::iota(bytes.begin(), bytes.end(), '\1');
    ok(assay_tensor_write, tensor.get(), bytes.data(), bytes.size());
    Dl dl = exported(tensor.get());
    EXPECT_EQ(dl->dl_tensor.dtype.code, code);
    EXPECT_EQ(dl->dl_tensor.dtype.bits, bits);
    EXPECT_EQ(dl->dl_tensor.dtype.lanes, 1);
    EXPECT_EQ(bytes.size(), 8u * static_cast<size_t>(bits) / 8);
    tensor = make<assay_tensor>(assay_tensor_from_dlpack, context.get(), dl.release());
    EXPECT_EQ(info_of(tensor.get()).dtype, dtype);
    EXPECT_EQ(info_of(tensor.get()).ndim, 3);
    ok(assay_tensor_read, tensor.get(), back.data(), back.size());
    EXPECT_EQ(back, bytes);
  }
  assay_mem_stats stats{.struct_size = sizeof stats};
  ok(assay_context_mem_stats, context.get(), kCpu, &stats);
  EXPECT_EQ(stats.in_use, 0u);
}

TEST_F(DlpackTest, ScalarsAndEmptyOnes) {
  const int64_t none[] = {0, 4};
  const auto scalar =
      make<assay_tensor>(assay_tensor_new, context.get(), kCpu, ASSAY_F64, nullptr, 0);
  auto empty = make<assay_tensor>(assay_tensor_new, context.get(), kCpu, ASSAY_U8, none, 2);
  EXPECT_EQ(exported(scalar.get())->dl_tensor.ndim, 0);
  Dl dl = exported(empty.get());
  EXPECT_EQ(dl->dl_tensor.data, nullptr);
  EXPECT_THAT(std::vector(dl->dl_tensor.shape, dl->dl_tensor.shape + 2), ElementsAre(0, 4));
  empty = make<assay_tensor>(assay_tensor_from_dlpack, context.get(), dl.release());
  EXPECT_EQ(info_of(empty.get()).bytes, 0u);
  Foreign foreign;
  foreign.dl.dl_tensor.ndim = 0;
  foreign.dl.dl_tensor.shape = nullptr, foreign.dl.dl_tensor.strides = nullptr;
  float number = 0;
  ok(assay_tensor_read, taken(foreign).get(), &number, sizeof number);
  EXPECT_EQ(number, 1);
}

TEST_F(DlpackTest, WeightsAndResults) {
  const auto model = make_model();
  ok(assay_model_initialize, model.get(), uint64_t{1});
  const auto predictor = make<assay_predictor>(assay_predictor_create, model.get(), text(""));
  const auto slot = make<assay_slot>(assay_slot_create, predictor.get());
  assay_tensor* out = nullptr;
  ok(assay_predictor_run, predictor.get(), slot.get(), batch.tensors(), size_t{1}, &out, size_t{1});
  const Owned<assay_tensor> result(out);
  EXPECT_EQ(exported(out)->flags, DLPACK_FLAG_BITMASK_READ_ONLY);
  Dl weight;
  {
    const auto tensor = make<assay_tensor>(assay_model_tensor, model.get(), text("output.bias"),
                                           int32_t{ASSAY_KIND_VALUE});
    weight = exported(tensor.get());
  }
  EXPECT_EQ(weight->flags, 0u);
  static_cast<float*>(weight->dl_tensor.data)[1] = 42;
  float now[3];
  std::memcpy(now, bits(model.get(), "output.bias").data(), sizeof now);
  EXPECT_EQ(now[1], 42);
}

TEST_F(DlpackTest, TrainingTakesWhatOthersHold) {
  const auto one = make_model(), other = make_model();
  const auto trainer = make_trainer(one.get()), same = make_trainer(other.get());
  step(trainer.get(), batch);
  Dl image = exported(batch.tensors()[0]), label = exported(batch.tensors()[1]);
  const auto images = make<assay_tensor>(assay_tensor_from_dlpack, context.get(), image.release()),
             labels = make<assay_tensor>(assay_tensor_from_dlpack, context.get(), label.release());
  const assay_tensor* const tensors[] = {images.get(), labels.get()};
  ok(assay_trainer_step, same.get(), +tensors, size_t{2}, nullptr);
  EXPECT_EQ(bits(one.get(), "output.weight"), bits(other.get(), "output.weight"));
}

TEST_F(DlpackTest, TakesMemoryInPlace) {
  Foreign foreign;
  auto tensor = taken(foreign);
  const assay_tensor_info info = info_of(tensor.get());
  EXPECT_EQ(info.data, foreign.numbers);
  EXPECT_EQ(info.dtype, ASSAY_F32);
  EXPECT_EQ(info.shape[0] * 10 + info.shape[1], 23);
  EXPECT_EQ(info.flags, 0u);
  const float nines[] = {9, 9, 9, 9, 9, 9};
  ok(assay_tensor_write, tensor.get(), nines, sizeof nines);
  EXPECT_EQ(foreign.numbers[5], 9);
  Owned<assay_tensor> second(assay_tensor_retain(tensor.get()));
  tensor.reset();
  EXPECT_EQ(foreign.deleted, 0);
  second.reset();
  EXPECT_EQ(foreign.deleted, 1);

  // From the third number on; of those strides that say nothing.
  Foreign later;
  later.dl.dl_tensor.byte_offset = 8, later.dl.dl_tensor.ndim = 3;
  later.shape[0] = 1, later.shape[1] = 3, later.shape[2] = 2;
  later.strides[0] = -77, later.strides[1] = 2, later.strides[2] = 1;
  later.dl.dl_tensor.device = {kDLCUDAHost, 0};
  EXPECT_EQ(info_of(taken(later).get()).data, later.numbers + 2);
  EXPECT_EQ(later.deleted, 1);
  later.dl.dl_tensor.strides = nullptr;
  later.dl.deleter = nullptr;
  EXPECT_EQ(info_of(taken(later).get()).data, later.numbers + 2);

  Foreign truth;
  truth.dl.dl_tensor.dtype = {kDLBool, 8, 1};
  EXPECT_EQ(info_of(taken(truth).get()).dtype, ASSAY_U8);
}

TEST_F(DlpackTest, ReadOnlyStaysReadOnly) {
  Foreign foreign;
  foreign.dl.flags = DLPACK_FLAG_BITMASK_READ_ONLY | DLPACK_FLAG_BITMASK_IS_COPIED;
  const auto tensor = taken(foreign);
  EXPECT_EQ(info_of(tensor.get()).flags, uint32_t{ASSAY_TENSOR_READ_ONLY});
  const float nines[] = {9, 9, 9, 9, 9, 9};
  fails(ASSAY_E_INVALID, assay_tensor_write, tensor.get(), nines, sizeof nines);
  EXPECT_EQ(foreign.numbers[0], 1);
  EXPECT_EQ(exported(tensor.get())->flags, DLPACK_FLAG_BITMASK_READ_ONLY);
}

TEST_F(DlpackTest, RefusesWhatItCannotUseInPlace) {
  Foreign newer;
  newer.dl.version = {2, 0};
  EXPECT_THAT(refused(ASSAY_E_VERSION, newer).message, HasSubstr("DLPack 2.0"));
  Foreign columns;
  columns.strides[0] = 1, columns.strides[1] = 2;
  EXPECT_THAT(refused(ASSAY_E_UNSUPPORTED, columns).hint, HasSubstr("copy"));
  columns.strides[0] = 6, columns.strides[1] = 1;  // every second row
  EXPECT_EQ(refused(ASSAY_E_UNSUPPORTED, columns).actual, "6");
  columns.strides[0] = 3, columns.strides[1] = -1;
  refused(ASSAY_E_UNSUPPORTED, columns);
  Foreign other;
  for (const DLDataType type : {DLDataType{kDLFloat, 8, 1},
                                {kDLInt, 8, 1},
                                {kDLComplex, 64, 1},
                                {kDLFloat, 32, 4},
                                {kDLBool, 1, 1}}) {
    other.dl.dl_tensor.dtype = type;
    EXPECT_THAT(refused(ASSAY_E_UNSUPPORTED, other).expected, HasSubstr("bf16"));
  }
  Foreign odd;
  odd.dl.dl_tensor.byte_offset = 2;
  EXPECT_THAT(refused(ASSAY_E_UNSUPPORTED, odd).expected, HasSubstr("multiple of 4"));
  Foreign elsewhere;
  elsewhere.dl.dl_tensor.device = {kDLCUDA, 0};
  EXPECT_THAT(refused(ASSAY_E_NOT_FOUND, elsewhere).expected, HasSubstr("the context's"));
  elsewhere.dl.dl_tensor.device = {kDLROCM, 0};
  refused(ASSAY_E_NOT_FOUND, elsewhere);
  Foreign wrong;
  const auto said = [&] {
    const Outcome outcome = refused(ASSAY_E_INVALID, wrong);
    EXPECT_EQ(outcome.argument, "dl");
    return outcome.message;
  };
  wrong.dl.dl_tensor.ndim = 9;
  EXPECT_THAT(said(), HasSubstr("dl's ndim is 9"));
  wrong.dl.dl_tensor.ndim = 2, wrong.shape[1] = -3;
  EXPECT_THAT(said(), HasSubstr("dl's shape[1] is -3"));
  wrong.shape[0] = wrong.shape[1] = int64_t{1} << 40;
  EXPECT_THAT(said(), HasSubstr("dl's shape is too large"));
  wrong.dl.dl_tensor.shape = nullptr;
  EXPECT_THAT(said(), HasSubstr("dl's shape must not be NULL"));
  Foreign nothing;
  nothing.dl.dl_tensor.data = nullptr;
  EXPECT_EQ(refused(ASSAY_E_INVALID, nothing).argument, "dl");
}

}  // namespace
}  // namespace assay::test
