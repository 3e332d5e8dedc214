#include "sdk/train/predictor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/train/training_setup.h"

namespace assay::train {
namespace {

using test::Batch;
using test::config_of;
using test::error_of;
using test::kSgd;
using test::new_instance;
using testing::HasSubstr;

TEST(Predictor, IsASnapshot) {
  Trainer trainer(new_instance(), config_of(kSgd));
  trainer.step(Batch(0).tensors());
  const Predictor predictor(trainer.instance(), {});
  PredictorSlot slot(predictor);
  const auto predict = [&] {
    const Batch batch(5, 3);
    const std::vector<HostTensor> images{batch.tensors()[0]};
    const Program::Port& output = slot.run(images).output("probabilities");
    const auto* values = static_cast<const float*>(output.data);
    return std::vector<float>(values, values + output.type.numel());
  };
  const auto first = predict();
  for (int row = 0; row < 3; ++row) {
    EXPECT_NEAR(std::accumulate(first.begin() + row * 10, first.begin() + row * 10 + 10, 0.0), 1.0,
                1e-6);
  }
  for (int i = 0; i < 3; ++i) trainer.step(Batch(i).tensors());
  EXPECT_EQ(predict(), first);
}

TEST(Predictor, TakesAnyBatchUpToItsLimit) {
  Trainer trainer(new_instance(), config_of(kSgd));
  const Predictor predictor(trainer.instance(), {.max_batch = 8});
  PredictorSlot slot(predictor);
  const Batch batch(0, 16);
  std::vector<float> one_by_one, together;
  for (int64_t i = 0; i < 8; ++i) {
    const std::vector<HostTensor> image{
        {DType::kF32, {1, 12, 12, 1}, batch.images.data() + i * 144}};
    const auto* values = static_cast<const float*>(slot.run(image).output("logits").data);
    one_by_one.insert(one_by_one.end(), values, values + 10);
  }
  const std::vector<HostTensor> eight{{DType::kF32, {8, 12, 12, 1}, batch.images.data()}};
  const auto* values = static_cast<const float*>(slot.run(eight).output("logits").data);
  for (int i = 0; i < 80; ++i) EXPECT_NEAR(values[i], one_by_one[i], 1e-5);
  const std::vector<HostTensor> nine{{DType::kF32, {9, 12, 12, 1}, batch.images.data()}};
  EXPECT_THAT(error_of([&] { slot.run(nine); }),
              HasSubstr("batch is 9, expected 1 to max_batch (8)"));
}

TEST(Predictor, KeepsTheProgramsUsedLast) {
  Trainer trainer(new_instance(), config_of(kSgd));
  const Predictor predictor(trainer.instance(), {});
  PredictorSlot slot(predictor);
  std::vector<std::weak_ptr<Program>> programs;
  for (int64_t batch = 1; batch <= 8; ++batch) programs.push_back(slot.prepare(batch));
  slot.prepare(1);  // used again
  slot.prepare(9);
  EXPECT_TRUE(programs[1].expired());  // 2 is the one not used for longest
  EXPECT_EQ(slot.prepare(1), programs[0].lock());
  for (int i = 2; i < 8; ++i) EXPECT_FALSE(programs[i].expired()) << i + 1;
}

TEST(Predictor, NeedsWeights) {
  EXPECT_THAT(error_of([&] { Predictor(*new_instance(), {}); }), HasSubstr("no weights yet"));
}

}  // namespace
}  // namespace assay::train
