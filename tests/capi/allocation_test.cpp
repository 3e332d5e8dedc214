// Steady state allocates nothing: ten calls after the first few, whoever allocates.
//
// oneDNN builds a small map of arguments for every primitive it executes; these allocations come
// from libdnnl (and from libstdc++ on its behalf) and are not counted as ours.
#include "tests/capi/allocations.h"

#include "tests/capi/support.h"

namespace assay::test {
namespace {

class AllocationTest : public SmallModel {
 protected:
  // Allocations of this library during ten calls of `body`, after three more.
  template <class Body>
  int64_t ours(const Body& body) {
    for (int i = 0; i < 3; ++i) body();
    start_counting();
    for (int i = 0; i < 10; ++i) body();
    const auto counts = stop_counting();
    for (const auto& [library, count] : counts) {
      RecordProperty(library, std::to_string(count));
    }
    const auto found = counts.find("libassay");
    return found == counts.end() ? 0 : found->second;
  }
};

TEST_F(AllocationTest, TheCounterCounts) {
  EXPECT_GE(ours([&] { make_context(); }), 10);
}

TEST_F(AllocationTest, Steps) {
  const auto model = make_model();
  const auto trainer = make_trainer(model.get());
  assay_step_info info{.struct_size = sizeof info};
  EXPECT_EQ(ours([&] { assay_trainer_step(trainer.get(), batch.tensors(), 2, &info, nullptr); }),
            0);
  EXPECT_EQ(info.step, 13);
}

TEST_F(AllocationTest, Evaluations) {
  const auto model = make_model();
  const auto trainer = make_trainer(model.get());
  assay_eval_info info{.struct_size = sizeof info};
  EXPECT_EQ(ours([&] { assay_trainer_eval(trainer.get(), batch.tensors(), 2, 0, &info, nullptr); }),
            0);
  EXPECT_EQ(info.samples, kBatch);
}

TEST_F(AllocationTest, Predictions) {
  const auto model = make_model();
  ok(assay_model_initialize, model.get(), uint64_t{1});
  const auto predictor = make<assay_predictor>(assay_predictor_create, model.get(), text(""));
  const auto slot = make<assay_slot>(assay_slot_create, predictor.get());
  assay_status status = ASSAY_OK;
  EXPECT_EQ(ours([&] {
              assay_tensor* out = nullptr;
              status = assay_predictor_run(predictor.get(), slot.get(), batch.tensors(), 1, &out, 1,
                                           nullptr);
              assay_tensor_release(out);
            }),
            0);
  EXPECT_EQ(status, ASSAY_OK);
}

// Its release is called when its last owner is gone.
Owned<assay_tensor> borrowed(const assay_context* context, std::vector<float>& data,
                             int& released) {
  const int64_t shape[] = {kBatch, 8, 8, 1};
  return make<assay_tensor>(
      assay_tensor_borrow, context, static_cast<void*>(data.data()), data.size() * sizeof(float),
      ASSAY_F32, shape, 4, [](uintptr_t count) { ++*reinterpret_cast<int*>(count); },
      reinterpret_cast<uintptr_t>(&released));
}

TEST_F(AllocationTest, APrefetchThatFailsKeepsNoTensor) {
  const auto model = make_model();
  std::vector<float> images(kBatch * 64, 0.5f);
  int64_t calls = 0, failed = 0;
  for (int64_t n = 0; n <= calls; ++n) {
    int released = 0;
    auto trainer = make_trainer(model.get());
    auto image = borrowed(context.get(), images, released);
    const assay_tensor* const tensors[] = {image.get(), batch.tensors()[1]};
    assay_error* error = nullptr;
    fail_allocation(n);
    failed += assay_trainer_prefetch(trainer.get(), tensors, 2, &error) != ASSAY_OK;
    const int64_t made = fail_allocation(0);
    if (n == 0) calls = made;
    assay_error_free(error);
    trainer.reset();
    image.reset();
    EXPECT_EQ(released, 1) << "allocation " << n;
  }
  EXPECT_GT(failed, 2);
}

}  // namespace
}  // namespace assay::test
