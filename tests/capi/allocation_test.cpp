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

// A whole life of the library in which one allocation fails, for the first thousand places and
// then every so often: each call succeeds or says that memory ran out, and everything can be freed.
class OutOfMemoryTest : public SmallModel {
 protected:
  // Stops at the first call that does not succeed.
  struct Life {
    assay_context* context = nullptr;
    assay_model* model = nullptr;
    assay_trainer* trainer = nullptr;
    assay_predictor* predictor = nullptr;
    assay_slot* slot = nullptr;
    assay_tensor* out = nullptr;
    assay_report* report = nullptr;
    ~Life() {
      assay_report_free(report);
      assay_tensor_release(out);
      assay_slot_free(slot);
      assay_predictor_free(predictor);
      assay_trainer_free(trainer);
      assay_model_free(model);
      assay_context_free(context);
    }
  };
  assay_status live(assay_error** err) const {
    Life life;
    const assay_trainer_options options{
        .struct_size = sizeof options, .batch_size = kBatch, .learning_rate = 0.05};
    const std::string path = folder.at("life.ckpt");
    assay_status status = assay_context_create(nullptr, nullptr, nullptr, 0, &life.context, err);
    const auto then = [&](auto f, auto... arguments) {
      if (status == ASSAY_OK) status = f(arguments..., err);
    };
    then(assay_model_named, life.context, text("cnn"), text(kSmallCnn), &life.model);
    then(assay_trainer_create, life.model, &options, text(kSgd), &life.trainer);
    then(assay_trainer_step, life.trainer, batch.tensors(), size_t{2}, nullptr);
    then(assay_trainer_set_metadata, life.trainer, text("a note of the host"), text("x"));
    then(assay_checkpoint_save, life.trainer, text(path), 0u);
    then(assay_checkpoint_load, life.trainer, text(path), 0u, &life.report);
    then(assay_predictor_create, life.model, text(R"({"max_batch": 8})"), &life.predictor);
    then(assay_slot_create, life.predictor, &life.slot);
    then(assay_predictor_run, life.predictor, life.slot, batch.tensors(), size_t{1}, &life.out,
         size_t{1});
    return status;
  }
  TemporaryFolder folder;
};

TEST_F(OutOfMemoryTest, AnyAllocationMayFail) {
  assay_error* error = nullptr;
  ASSERT_EQ(live(&error), ASSAY_OK);
  fail_allocation(0);
  ASSERT_EQ(live(&error), ASSAY_OK);
  const int64_t calls = fail_allocation(0);
  ASSERT_GT(calls, 1000);
  int failed = 0;
  for (int64_t n = 1; n <= calls; n += n < 1000 ? 1 : n / 200) {
    fail_allocation(n);
    const assay_status status = live(&error);
    fail_allocation(0);
    EXPECT_TRUE(status == ASSAY_E_OOM_HOST || status == ASSAY_OK) << "allocation " << n;
    failed += status != ASSAY_OK;
    assay_error_free(error);
    error = nullptr;
  }
  EXPECT_GT(failed, 200);
  EXPECT_EQ(live(&error), ASSAY_OK);
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

TEST_F(OutOfMemoryTest, APrefetchThatFailsKeepsNoTensor) {
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
