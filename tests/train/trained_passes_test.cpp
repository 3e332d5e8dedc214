// What passes change of a training: nothing that it computes, or only its rounding.
#include <gtest/gtest.h>

#include "sdk/passes/pipeline.h"
#include "tests/train/training_setup.h"

namespace assay::train {
namespace {

using test::Batch;
using test::config_of;
using test::kBatch;
using test::kSgd;
using test::new_instance;
using test::persistent_bytes;

// Every fusion can be switched off, and fused and unfused training agree within rounding.
TEST(Trainer, FusedEqualsUnfused) {
  Trainer fused(new_instance(), config_of(kSgd));
  TrainerConfig config = config_of(kSgd);
  const Target target = fused.instance().backend()->target();
  for (const auto passes :
       {forward_passes(), training_passes(target), finishing_passes(), gpu_passes(target)}) {
    for (const Pass& pass : passes)
      if (pass.name != "lower_biases") config.disabled_pass.emplace_back(pass.name);  // no fusion
  }
  Trainer unfused(new_instance(), config);
  EXPECT_LT(fused.step_program().graph().nodes().size(),
            unfused.step_program().graph().nodes().size());
  for (int i = 0; i < 3; ++i) {
    const StepInfo a = fused.step(Batch(i).tensors());
    const StepInfo b = unfused.step(Batch(i).tensors());
    EXPECT_NEAR(a.loss, b.loss, 1e-5 * a.loss);
    EXPECT_NEAR(a.grad_norm, b.grad_norm, 1e-4 * a.grad_norm);
  }
}

// What is kept beside an activation, and chains, are rounded as if nothing had been joined.
TEST(Trainer, KeptActivationsAndChainsChangeNoBit) {
  for (const char* kind : {"gelu", "gelu_tanh", "swish"}) {
    const std::string model = cat(R"({"image": [12, 12, 1], "conv": [4, 6], "hidden": [16], )",
                                  R"("batch_norm": false, "activation": ")", kind, R"("})");
    for (const char* precision : {"fp32", "amp-bf16"}) {
      TrainerConfig config = config_of(kSgd);
      config.precision = precision;
      Trainer joined(new_instance(2, model), config);
      config.disabled_pass = {"fuse_kept_activation", "fuse_pointwise"};
      Trainer apart(new_instance(2, model), config);
      EXPECT_LT(joined.step_program().graph().nodes().size(),
                apart.step_program().graph().nodes().size());
      for (int i = 0; i < 3; ++i) {
        const StepInfo a = joined.step(Batch(i).tensors());
        const StepInfo b = apart.step(Batch(i).tensors());
        EXPECT_EQ(a.loss, b.loss) << kind << " " << precision;
        EXPECT_EQ(a.grad_norm, b.grad_norm) << kind << " " << precision;
      }
    }
  }
}

std::vector<float> noise(int64_t n) {
  std::vector<float> values(static_cast<size_t>(n));
  PhiloxStream random(7, 0);
  for (float& value : values) value = random.uniform(-1, 1);
  return values;
}

// The same bits with less than `most` of the memory.
void expect_cheaper_with_rematerialization(const std::string& name, const std::string& model,
                                           const std::vector<HostTensor>& batch, double most) {
  for (const char* precision : {"fp32", "amp-bf16"}) {
    const std::string what = cat(name, " ", precision);
    TrainerConfig config = config_of(kSgd);
    config.precision = precision;
    Trainer again(new_instance(2, model, name), config);
    config.disabled_pass = {"rematerialize"};
    Trainer kept(new_instance(2, model, name), config);
    EXPECT_LT(static_cast<double>(again.step_program().memory().arena_bytes),
              most * static_cast<double>(kept.step_program().memory().arena_bytes))
        << what;
    for (int i = 0; i < 3; ++i) {
      const StepInfo a = again.step(batch);
      const StepInfo b = kept.step(batch);
      EXPECT_EQ(a.loss, b.loss) << what;
      EXPECT_EQ(a.grad_norm, b.grad_norm) << what;
    }
    EXPECT_EQ(persistent_bytes(again.instance()), persistent_bytes(kept.instance())) << what;
  }
}

// Normalisations that backward makes again, in front of convolutions and at the end of blocks.
TEST(Trainer, RematerializedNormalisationsChangeNoBitAndTakeLessMemory) {
  const std::vector<float> images = noise(kBatch * 32 * 32 * 3);
  std::vector<int32_t> labels(kBatch);
  for (int64_t i = 0; i < kBatch; ++i)
    labels[static_cast<size_t>(i)] = static_cast<int32_t>(i % 10);
  expect_cheaper_with_rematerialization(
      "resnet18", R"({"classes": 10, "width": 8})",
      {{DType::kF32, {kBatch, 32, 32, 3}, images.data()}, {DType::kI32, {kBatch}, labels.data()}},
      0.8);
}

// Pools whose x is kept for their own gradient.
TEST(Trainer, RematerializedPoolsChangeNoBitAndTakeLessMemory) {
  const std::vector<float> images = noise(kBatch * 92 * 92);
  const std::vector<float> targets(kBatch * 52 * 52 * 2, 0.5f);
  expect_cheaper_with_rematerialization("unet_medical",
                                        R"({"image": [92, 92, 1], "depth": 2, "width": 8})",
                                        {{DType::kF32, {kBatch, 92, 92, 1}, images.data()},
                                         {DType::kF32, {kBatch, 52, 52, 2}, targets.data()}},
                                        0.98);
}

}  // namespace
}  // namespace assay::train
