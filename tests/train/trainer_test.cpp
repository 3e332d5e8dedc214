#include "sdk/train/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <numeric>

#include "sdk/backend/cpu/device.h"
#include "sdk/backend/forwarding_backend.h"
#include "sdk/passes/pipeline.h"
#include "sdk/train/predictor.h"
#include "tests/train/training_setup.h"

namespace assay::train {
namespace {

using test::Batch;
using test::config_of;
using test::kBatch;
using test::kSgd;
using test::new_instance;
using test::persistent_bytes;
using testing::HasSubstr;

std::string error_of(const std::function<void()>& action, Code expected) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), expected) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

TEST(Trainer, Learns) {
  Trainer trainer(new_instance(), config_of(kSgd));
  const double first = trainer.step(Batch(0).tensors()).loss;
  double last = 0;
  for (int i = 1; i < 60; ++i) last = trainer.step(Batch(i).tensors()).loss;
  EXPECT_LT(last, 0.5 * first);
  test::EvalSums sums;
  for (int i = 1000; i < 1010; ++i) {
    const test::EvalSums part = test::evaluate(trainer, Batch(i).tensors());
    sums.top1 += part.top1, sums.top5 += part.top5, sums.samples += part.samples;
  }
  EXPECT_GT(sums.top1, 0.8 * static_cast<double>(sums.samples));
  EXPECT_GE(sums.top5, sums.top1);
}

TEST(Trainer, StepInfoCounts) {
  Trainer trainer(new_instance(), config_of(kSgd));
  trainer.step(Batch(0).tensors());
  const StepInfo info = trainer.step(Batch(1).tensors());
  EXPECT_EQ(info.step, 2);
  EXPECT_EQ(info.samples, 2 * kBatch);
  EXPECT_TRUE(info.updated);
  EXPECT_FALSE(info.skipped);
  EXPECT_GT(info.grad_norm, 0);
  EXPECT_DOUBLE_EQ(info.learning_rate, 0.05);
}

TEST(Trainer, SameSeedSameBits) {
  std::vector<std::vector<std::byte>> results;
  for (const uint64_t seed : {3u, 3u, 4u}) {
    TrainerConfig config = config_of(kSgd);
    config.seed = seed;
    Trainer trainer(new_instance(), config);
    for (int i = 0; i < 5; ++i) trainer.step(Batch(i).tensors());
    results.push_back(persistent_bytes(trainer.instance()));
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_NE(results[0], results[2]);
}

TEST(Trainer, BackwardThenApplyHasTheBitsOfStep) {
  for (const char* precision : {"fp32", "amp-bf16"}) {
    TrainerConfig config = config_of(kSgd);
    config.precision = precision;
    Trainer whole(new_instance(), config);
    Trainer halves(new_instance(), config);
    for (int i = 0; i < 4; ++i) {
      const StepInfo a = whole.step(Batch(i).tensors());
      halves.backward(Batch(i).tensors());
      const StepInfo b = halves.apply();
      EXPECT_EQ(a.loss, b.loss);
      EXPECT_EQ(a.grad_norm, b.grad_norm);
    }
    EXPECT_EQ(persistent_bytes(whole.instance()), persistent_bytes(halves.instance())) << precision;
  }
}

// Without normalisation and dropout, averaging the gradients of two half batches is the gradient of
// the whole batch.
TEST(Trainer, AccumulationAveragesGradients) {
  const std::string plain =
      R"({"image": [12, 12, 1], "conv": [4], "hidden": [8], "batch_norm": false})";
  Trainer whole(new_instance(2, plain), config_of(kSgd, 2 * kBatch));
  TrainerConfig config = config_of(kSgd);
  config.accumulate = 2;
  Trainer accumulated(new_instance(2, plain), config);
  const Batch batch(0, 2 * kBatch);
  const StepInfo expected = whole.step(batch.tensors());
  StepInfo info;
  for (int half = 0; half < 2; ++half) {
    info = accumulated.step(std::vector<HostTensor>{
        {DType::kF32, {kBatch, 12, 12, 1}, batch.images.data() + half * kBatch * 144},
        {DType::kI32, {kBatch}, batch.labels.data() + half * kBatch}});
    EXPECT_EQ(info.updated, half == 1);
  }
  EXPECT_NEAR(info.grad_norm, expected.grad_norm, 1e-5 * expected.grad_norm);
  for (const SegmentTensor& tensor : whole.instance().segments().all()) {
    if (tensor.role != Role::kValue) continue;
    const auto* a = static_cast<const float*>(tensor.data);
    const auto* b = static_cast<const float*>(
        accumulated.instance().segments().tensor(tensor.variable->name, Role::kValue).data);
    for (int64_t i = 0; i < tensor.variable->dims.numel(); ++i)
      EXPECT_NEAR(a[i], b[i], 1e-6) << tensor.variable->name;
  }
}

TEST(Trainer, HalvesInTheWrongOrderAreErrors) {
  Trainer trainer(new_instance(), config_of(kSgd));
  EXPECT_THAT(error_of([&] { trainer.apply(); }, Code::kInvalid),
              HasSubstr("backward calls since the last update is 0, expected 1 before apply"));
  trainer.backward(Batch(0).tensors());
  EXPECT_THAT(error_of([&] { trainer.backward(Batch(1).tensors()); }, Code::kInvalid),
              HasSubstr("call apply first"));
  EXPECT_THAT(error_of([&] { trainer.step(Batch(1).tensors()); }, Code::kInvalid),
              HasSubstr("is 1, expected 0 for this call"));
  trainer.apply();
  trainer.step(Batch(1).tensors());
}

// A power of two as loss scale moves exponents only: the update has the same bits, in fp32.
TEST(Trainer, AStaticLossScaleChangesNothing) {
  Trainer plain(new_instance(), config_of(kSgd));
  TrainerConfig config = config_of(kSgd);
  config.loss_scale.mode = "static";
  config.loss_scale.initial = 1024;
  Trainer scaled(new_instance(), config);
  for (int i = 0; i < 3; ++i) {
    const StepInfo a = plain.step(Batch(i).tensors());
    const StepInfo b = scaled.step(Batch(i).tensors());
    EXPECT_EQ(a.grad_norm, b.grad_norm);
    EXPECT_EQ(b.loss_scale, 1024);
  }
  for (const SegmentTensor& tensor : plain.instance().segments().all()) {
    if (tensor.role != Role::kValue) continue;
    const SegmentTensor other =
        scaled.instance().segments().tensor(tensor.variable->name, Role::kValue);
    EXPECT_EQ(std::memcmp(tensor.data, other.data, tensor.bytes()), 0) << tensor.variable->name;
  }
}

TEST(Trainer, DynamicLossScaleHalvesOnOverflowAndGrowsAgain) {
  TrainerConfig config = config_of(kSgd);
  config.loss_scale.mode = "dynamic";
  config.loss_scale.initial = 8;
  config.loss_scale.interval = 3;
  Trainer trainer(new_instance(), config);
  Batch bad(1);
  bad.images[7] = INFINITY;
  EXPECT_TRUE(trainer.step(bad.tensors()).skipped);
  EXPECT_EQ(trainer.loss_scale(), 4);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(trainer.step(Batch(i).tensors()).updated);
  EXPECT_EQ(trainer.loss_scale(), 8);
}

TEST(Trainer, ASkippedStepChangesNothingButTheScale) {
  TrainerConfig config = config_of(kSgd);
  config.loss_scale.mode = "dynamic";
  Trainer trainer(new_instance(), config);
  trainer.step(Batch(0).tensors());
  const auto bytes_without_state = [&] {
    std::vector<std::byte> all;
    for (const SegmentTensor& tensor : trainer.instance().segments().all()) {
      if (tensor.role == Role::kGradient || tensor.role == Role::kState) continue;
      const auto* data = static_cast<const std::byte*>(tensor.data);
      all.insert(all.end(), data, data + tensor.bytes());
    }
    return all;
  };
  const auto before = bytes_without_state();
  Batch bad(1);
  bad.images[7] = INFINITY;
  ASSERT_TRUE(trainer.step(bad.tensors()).skipped);
  EXPECT_EQ(bytes_without_state(), before);
}

// Rates of three updates whose second is skipped; the rate falls by a fifth with each in the
// schedule.
TEST(Trainer, ASkippedUpdateMovesTheScheduleOnOrHoldsIt) {
  const auto rates = [](const std::string& on_skip) {
    TrainerConfig config = config_of(kSgd);
    config.schedule = {.name = "polynomial", .total_steps = 5, .on_skip = on_skip};
    config.loss_scale.mode = "dynamic";
    Trainer trainer(new_instance(), config);
    std::vector<double> factors;
    for (int i = 0; i < 4; ++i) {
      Batch batch(i);
      if (i == 1) batch.images[7] = INFINITY;
      const StepInfo info = trainer.step(batch.tensors());
      EXPECT_EQ(info.skipped, i == 1);
      EXPECT_EQ(info.step, i + 1);
      factors.push_back(info.learning_rate / 0.05);
    }
    EXPECT_EQ(trainer.update_count(), 3);
    return factors;
  };
  using testing::DoubleEq;
  EXPECT_THAT(rates("advance"),
              testing::ElementsAre(DoubleEq(1), DoubleEq(0.8), DoubleEq(0.6), DoubleEq(0.4)));
  EXPECT_THAT(rates("hold"),
              testing::ElementsAre(DoubleEq(1), DoubleEq(0.8), DoubleEq(0.8), DoubleEq(0.6)));
}

TEST(Trainer, ANanLossIsAnErrorAndLosesNothing) {
  Trainer trainer(new_instance(), config_of(kSgd));
  trainer.step(Batch(0).tensors());
  const auto before = persistent_bytes(trainer.instance());
  Batch bad(1);
  bad.images[7] = std::nanf("");
  EXPECT_THAT(error_of([&] { trainer.step(bad.tensors()); }, Code::kNonFinite),
              HasSubstr("step 2: the loss is nan"));
  EXPECT_EQ(persistent_bytes(trainer.instance()), before);
  EXPECT_EQ(trainer.step_count(), 1);
  EXPECT_EQ(trainer.step(Batch(1).tensors()).step, 2);  // and it goes on
}

std::vector<float> running_mean(const ModelInstance& instance) {
  const SegmentTensor mean = instance.segments().tensor("block1.bn.running_mean", Role::kStatistic);
  const auto* values = static_cast<const float*>(mean.data);
  return {values, values + mean.variable->dims.numel()};
}

// An update that is not done takes back what the backward passes before it did to the statistics.
TEST(Trainer, ARefusedAccumulationLeavesNoTrace) {
  TrainerConfig config = config_of(kSgd);
  config.accumulate = 2;
  Trainer trainer(new_instance(), config), untouched(new_instance(), config);
  for (int i = 0; i < 2; ++i) trainer.step(Batch(i).tensors()), untouched.step(Batch(i).tensors());
  const auto before = persistent_bytes(trainer.instance());
  trainer.step(Batch(2).tensors());
  EXPECT_NE(persistent_bytes(trainer.instance()), before);  // the statistics have moved
  Batch bad(3);
  bad.images[7] = std::nanf("");
  error_of([&] { trainer.step(bad.tensors()); }, Code::kNonFinite);
  EXPECT_EQ(persistent_bytes(trainer.instance()), before);
  EXPECT_EQ(trainer.step_count(), 1);
  EXPECT_EQ(trainer.sample_count(), 2 * kBatch);
  // It goes on as if those batches had never been given; dropout follows the batches counted.
  for (int i = 4; i < 6; ++i) trainer.step(Batch(i).tensors()), untouched.step(Batch(i).tensors());
  EXPECT_EQ(persistent_bytes(trainer.instance()), persistent_bytes(untouched.instance()));
}

TEST(Trainer, ASkippedAccumulationKeepsTheStatistics) {
  TrainerConfig config = config_of(kSgd);
  config.accumulate = 2;
  config.loss_scale.mode = "dynamic";
  const auto instance = new_instance();
  Trainer trainer(instance, config);
  for (int i = 0; i < 2; ++i) trainer.step(Batch(i).tensors());
  const auto before = running_mean(*instance);
  trainer.step(Batch(2).tensors());
  EXPECT_NE(running_mean(*instance), before);
  Batch bad(3);
  bad.images[7] = INFINITY;
  const StepInfo info = trainer.step(bad.tensors());
  EXPECT_TRUE(info.skipped);
  EXPECT_EQ(info.samples, 4 * kBatch);
  EXPECT_EQ(running_mean(*instance), before);
}

TEST(Trainer, BadBatchesNameTheTensor) {
  Trainer trainer(new_instance(), config_of(kSgd));
  const Batch good(0);
  auto batch = good.tensors();
  EXPECT_THAT(error_of([&] { trainer.step(std::span(batch).first(1)); }, Code::kInvalid),
              HasSubstr("a batch of cnn is 1 tensor, expected 2 tensors: image and label"));
  batch[0].dims = {kBatch, 12, 12, 3};
  EXPECT_THAT(error_of([&] { trainer.step(batch); }, Code::kInvalid),
              HasSubstr("batch tensor 0 (image) is f32[16,12,12,3], expected f32[16,12,12,1]"));
  batch = good.tensors();
  batch[1].dtype = DType::kF32;
  EXPECT_THAT(error_of([&] { trainer.step(batch); }, Code::kInvalid),
              HasSubstr("expected i32[16]"));
  Batch labelled(0);
  labelled.labels[3] = 10;
  EXPECT_THAT(error_of([&] { trainer.step(labelled.tensors()); }, Code::kInvalid),
              HasSubstr("label[3] is 10, expected a class in [0, 10)"));
  labelled.labels[3] = -1;  // padding is for evaluation only
  error_of([&] { trainer.step(labelled.tensors()); }, Code::kInvalid);
  EXPECT_EQ(trainer.step_count(), 0);
}

TEST(Trainer, PaddedRowsDoNotCountInEvaluation) {
  Trainer trainer(new_instance(), config_of(kSgd));
  trainer.step(Batch(0).tensors());
  Batch batch(1);
  const test::EvalSums all = test::evaluate(trainer, batch.tensors());
  for (int i = 10; i < kBatch; ++i) batch.labels[i] = -1;
  const test::EvalSums ten = test::evaluate(trainer, batch.tensors());
  EXPECT_EQ(all.samples, kBatch);
  EXPECT_EQ(ten.samples, 10);
  EXPECT_LT(ten.loss, all.loss);
  EXPECT_LE(ten.top1, all.top1);
}

TEST(Trainer, EvaluationAndTrainingDoNotDisturbEachOther) {
  Trainer quiet(new_instance(), config_of(kSgd));
  Trainer watched(new_instance(), config_of(kSgd));
  for (int i = 0; i < 4; ++i) {
    quiet.step(Batch(i).tensors());
    watched.step(Batch(i).tensors());
    watched.eval(Batch(50 + i).tensors());
  }
  EXPECT_EQ(persistent_bytes(quiet.instance()), persistent_bytes(watched.instance()));
}

TEST(Trainer, CancelLeavesTheStateAsItWas) {
  Trainer trainer(new_instance(), config_of(kSgd));
  trainer.step(Batch(0).tensors());
  const auto before = persistent_bytes(trainer.instance());
  trainer.cancel_flag() = true;
  error_of([&] { trainer.step(Batch(1).tensors()); }, Code::kCancelled);
  EXPECT_EQ(persistent_bytes(trainer.instance()), before);
  trainer.cancel_flag() = false;
  EXPECT_EQ(trainer.step(Batch(1).tensors()).step, 2);
}

// A backend that calls `after_run` whenever a program has run.
class WatchedBackend : public ForwardingBackend {
 public:
  WatchedBackend() : ForwardingBackend(cpu::make_backend({.threads = 1})) {}
  std::function<void()> after_run = [] {};

  std::unique_ptr<Executable> make_executable(std::vector<ScheduledLaunch> launches,
                                              size_t cancellable) override {
    return std::make_unique<Watched>(inner().make_executable(std::move(launches), cancellable),
                                     *this);
  }

 private:
  struct Watched : Executable {
    Watched(std::unique_ptr<Executable> program, WatchedBackend& parent)
        : inner(std::move(program)), owner(parent) {}
    void run(const std::atomic<bool>* cancel) override {
      inner->run(cancel);
      owner.after_run();
    }
    std::vector<NodeTime> run_timed() override { return inner->run_timed(); }
    std::unique_ptr<Executable> inner;
    WatchedBackend& owner;
  };
};

TEST(Trainer, CancelBetweenBackwardAndUpdateOfAStepDoesNotSplitIt) {
  const auto backend = std::make_shared<WatchedBackend>();
  const auto instance = std::make_shared<ModelInstance>(
      std::shared_ptr<nn::Model>(models::create_model("cnn", test::kSmallCnn)), backend);
  TrainerConfig config = config_of(kSgd);
  config.accumulate = 2;
  Trainer trainer(instance, config);
  for (int i = 0; i < 3; ++i) trainer.step(Batch(i).tensors());  // everything is compiled
  backend->after_run = [&] { trainer.cancel_flag() = true; };
  const StepInfo info = trainer.step(Batch(3).tensors());
  EXPECT_TRUE(info.updated);
  EXPECT_EQ(info.step, 2);
  backend->after_run = [] {};
  trainer.cancel_flag() = false;
  EXPECT_EQ(trainer.step(Batch(4).tensors()).micro_step, 1);
}

TEST(Trainer, ScheduleDrivesTheRate) {
  Trainer trainer(new_instance(), config_of(R"({"optimizer": {"name": "sgd", "learning_rate": 0.1},
      "schedule": {"name": "cosine", "warmup_steps": 2, "total_steps": 10}})"));
  EXPECT_DOUBLE_EQ(trainer.step(Batch(0).tensors()).learning_rate, 0.05);
  EXPECT_DOUBLE_EQ(trainer.step(Batch(1).tensors()).learning_rate, 0.1);
  EXPECT_DOUBLE_EQ(trainer.step(Batch(2).tensors()).learning_rate, 0.1);
  EXPECT_LT(trainer.step(Batch(3).tensors()).learning_rate, 0.1);
}

// A factor of the schedule may take a rate beyond what the device computes with.
TEST(Trainer, RatesBeyondF32AreRefused) {
  Trainer trainer(new_instance(), config_of(R"({"optimizer": {"name": "sgd", "learning_rate": 1e20},
      "schedule": {"name": "constant", "warmup_steps": 2, "warmup_start": 1e20}})"));
  const auto refusal = [&](auto&& call) {
    try {
      call();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kInvalid);
      EXPECT_EQ(error.detail().argument, "learning_rate");
      EXPECT_THAT(error.detail().expected, HasSubstr("3.4028"));
      return error.detail().actual;
    }
    return std::string("no error");
  };
  EXPECT_EQ(refusal([&] { trainer.step(Batch(0).tensors()); }), "1e+40");
  EXPECT_EQ(refusal([&] { trainer.set("learning_rate", 1e39); }), "1e+39");
  EXPECT_EQ(trainer.step_count(), 0);
  trainer.set("learning_rate", 1e-22);
  EXPECT_NEAR(trainer.step(Batch(0).tensors()).learning_rate, 0.01, 1e-12);
}

TEST(Trainer, ConfigurationsAreCheckedAndResolved) {
  const auto refused = [](const std::string& json) {
    return error_of([&] { Trainer(new_instance(), config_of(json)); }, Code::kInvalid);
  };
  const std::string rest = R"(, "optimizer": {"name": "sgd", "learning_rate": 1}})";
  EXPECT_THAT(refused(R"({"label_smoothing": 1)" + rest), HasSubstr("expected a number in [0, 1)"));
  EXPECT_THAT(refused(R"({"accumulate": -1)" + rest), HasSubstr("accumulate is -1"));
  EXPECT_THAT(refused(R"({"accumulate": 0)" + rest), HasSubstr("accumulate is 0"));
  EXPECT_THAT(refused(R"({"eval_batch_size": 0)" + rest), HasSubstr("eval_batch_size is 0"));
  EXPECT_THAT(refused(R"({"precision": "")" + rest), HasSubstr("precision is not given"));
  EXPECT_THAT(refused(R"({"loss_scale": {"mode": ""})" + rest),
              HasSubstr("loss_scale.mode is not given"));
  EXPECT_THAT(refused(R"({"precision": "bf16")" + rest),
              HasSubstr("precision is \"bf16\", expected \"fp32\""));
  EXPECT_THAT(refused(R"({"schedule": {"warmup_steps": 5})" + rest),
              HasSubstr("schedule.name is not given"));
  EXPECT_THAT(refused(R"({"loss_scale": {"mode": "static", "growth": 3})" + rest),
              HasSubstr("loss_scale.growth belongs to dynamic, not to static"));
  // In f32 its inverse is infinite.
  EXPECT_THAT(refused(R"({"loss_scale": {"mode": "static", "initial": 1e-50})" + rest),
              HasSubstr("loss_scale.initial is 1e-50"));
  EXPECT_THAT(refused(R"({"loss_scale": {"mode": "dynamic", "minimum": 1e-40})" + rest),
              HasSubstr("loss_scale.minimum is 1e-40"));
  EXPECT_THAT(refused(R"({"loss_scale": {"mode": "dynamic", "backoff": 0})" + rest),
              HasSubstr("loss_scale.backoff is 0, expected a number in (0, 1]"));
  const Trainer trainer(new_instance(), config_of(kSgd));
  const std::string resolved = trainer.config_json();
  for (const char* part :
       {R"("momentum_convention":"pytorch")", R"("nesterov":false)", R"("weight_decay":0)",
        R"("schedule":{"name":"constant","warmup_steps":"0")", R"("loss_scale":{"mode":"none"})",
        R"("eval_batch_size":"16")", R"("precision":"fp32")", R"("accumulate":"1")"}) {
    EXPECT_THAT(resolved, HasSubstr(part));
  }
  EXPECT_THAT(resolved, testing::Not(HasSubstr("beta1")));  // of another optimizer
  TrainerConfig again;                                      // what a report shows can be used
  parse_json(resolved, again, "test");
  EXPECT_EQ(Trainer(new_instance(), again).config_json(), resolved);
}

TEST(Trainer, Tf32IsRefusedWhereItDoesNotExist) {
  TrainerConfig config = config_of(kSgd);
  config.precision = "tf32";
  EXPECT_THAT(error_of([&] { Trainer(new_instance(), config); }, Code::kUnsupported),
              HasSubstr("tf32 needs a CUDA device"));
}

TEST(Trainer, SetChecksKeyAndValue) {
  Trainer trainer(new_instance(), config_of(kSgd));
  trainer.set("learning_rate", 0.01);
  EXPECT_DOUBLE_EQ(trainer.step(Batch(0).tensors()).learning_rate, 0.01);
  EXPECT_THAT(error_of([&] { trainer.set("momentum", 0.5); }, Code::kNotFound),
              HasSubstr("there are learning_rate, loss_scale and evaluated_device"));
  error_of([&] { trainer.set("learning_rate", -1); }, Code::kInvalid);
  error_of([&] { trainer.set("loss_scale", 8); }, Code::kInvalid);
}

// One sum of gradients has one scale.
TEST(Trainer, TheLossScaleChangesBetweenUpdatesOnly) {
  TrainerConfig config = config_of(kSgd);
  config.accumulate = 2;
  config.loss_scale.mode = "static";
  Trainer trainer(new_instance(), config);
  trainer.step(Batch(0).tensors());
  error_of([&] { trainer.set("loss_scale", 1024); }, Code::kInvalid);
  trainer.step(Batch(1).tensors());
  trainer.set("loss_scale", 1024);
  error_of([&] { trainer.set("loss_scale", 1e-60); }, Code::kInvalid);
}

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

// Normalisations that backward makes again, in front of convolutions and at the end of blocks.
TEST(Trainer, RematerializationChangesNoBitAndTakesLessMemory) {
  constexpr const char* kModel = R"({"classes": 10, "width": 8})";
  std::vector<float> images(kBatch * 32 * 32 * 3);
  std::vector<int32_t> labels(kBatch);
  PhiloxStream random(7, 0);
  for (float& pixel : images) pixel = random.uniform(-1, 1);
  for (int32_t& label : labels) label = static_cast<int32_t>(random.below(10));
  const std::vector<HostTensor> batch{{DType::kF32, {kBatch, 32, 32, 3}, images.data()},
                                      {DType::kI32, {kBatch}, labels.data()}};
  for (const char* precision : {"fp32", "amp-bf16"}) {
    TrainerConfig config = config_of(kSgd);
    config.precision = precision;
    Trainer again(new_instance(2, kModel, "resnet18"), config);
    config.disabled_pass = {"rematerialize_batch_norm"};
    Trainer kept(new_instance(2, kModel, "resnet18"), config);
    EXPECT_LT(static_cast<double>(again.step_program().memory().arena_bytes),
              0.8 * static_cast<double>(kept.step_program().memory().arena_bytes));
    for (int i = 0; i < 3; ++i) {
      const StepInfo a = again.step(batch);
      const StepInfo b = kept.step(batch);
      EXPECT_EQ(a.loss, b.loss) << precision;
      EXPECT_EQ(a.grad_norm, b.grad_norm) << precision;
    }
    EXPECT_EQ(persistent_bytes(again.instance()), persistent_bytes(kept.instance()));
  }
}

TEST(Trainer, AveragedWeightsAreEvaluatedOnRequest) {
  TrainerConfig config =
      config_of(R"({"optimizer": {"name": "sgd", "learning_rate": 0.05, "ema_decay": 0.999}})");
  Trainer trainer(new_instance(), config);
  const double initial = test::evaluate(trainer, Batch(9).tensors()).loss;
  for (int i = 0; i < 20; ++i) trainer.step(Batch(i).tensors());
  const double now = test::evaluate(trainer, Batch(9).tensors()).loss;
  const double averaged = test::evaluate(trainer, Batch(9).tensors(), true).loss;
  EXPECT_NE(averaged, now);
  EXPECT_NE(averaged, initial);
  Trainer without(new_instance(), config_of(kSgd));
  error_of([&] { test::evaluate(without, Batch(0).tensors(), true); }, Code::kInvalid);
}

std::vector<float> values_of(const ModelInstance& instance, std::string_view name, Role role) {
  const SegmentTensor tensor = instance.segments().tensor(name, role);
  std::vector<float> values(tensor.bytes() / sizeof(float));
  instance.backend()->read(values.data(), tensor.data, tensor.bytes());
  return values;
}

// Averages of weights and of statistics against the formula; an accumulated update moves them once.
TEST(Trainer, AveragesOfStatisticsWarmUpToo) {
  constexpr const char* kNormalised = R"({"image": [12, 12, 1], "conv": [4], "hidden": [16],
      "batch_norm": true})";
  for (const int64_t accumulate : {1, 2}) {
    TrainerConfig config = config_of(R"({"optimizer": {"name": "sgd", "learning_rate": 0.05,
        "ema_decay": 0.9, "ema_warmup": true, "ema_statistics": true}})");
    config.accumulate = accumulate;
    const auto instance = new_instance(2, kNormalised);
    Trainer trainer(instance, config);
    static const struct {
      std::string name;
      Role role;
    } kAveraged[] = {{"block1.conv.weight", Role::kValue},
                     {"block1.bn.running_mean", Role::kStatistic},
                     {"block1.bn.running_var", Role::kStatistic}};
    for (const auto& [name, role] : kAveraged)
      EXPECT_EQ(values_of(*instance, name, average_of(role)), values_of(*instance, name, role));
    for (int t = 1; t <= 4; ++t) {
      std::vector<std::vector<float>> before;
      for (const auto& [name, role] : kAveraged)
        before.push_back(values_of(*instance, name, average_of(role)));
      for (int i = 0; i < accumulate; ++i) trainer.step(Batch(t * 2 + i).tensors());
      const double d = std::min(0.9, (1.0 + t) / (10.0 + t));
      for (size_t i = 0; i < before.size(); ++i) {
        const auto now = values_of(*instance, kAveraged[i].name, kAveraged[i].role);
        const auto average = values_of(*instance, kAveraged[i].name, average_of(kAveraged[i].role));
        for (size_t k = 0; k < now.size(); ++k)
          EXPECT_NEAR(average[k], d * before[i][k] + (1 - d) * now[k],
                      1e-6 + 1e-6 * std::abs(now[k]));
      }
    }
    // Evaluation reads both: with the averages put in their place it gives the same.
    const double averaged = test::evaluate(trainer, Batch(9).tensors(), true).loss;
    EXPECT_NE(averaged, test::evaluate(trainer, Batch(9).tensors()).loss);
    Segments& segments = instance->segments();
    for (const Role role : {Role::kValue, Role::kStatistic}) segments.copy(role, average_of(role));
    EXPECT_EQ(averaged, test::evaluate(trainer, Batch(9).tensors()).loss);
  }
}

// One long gradient among many is cut before the norm of all is taken.
TEST(Trainer, ClipsEachGradientBeforeAllTogether) {
  for (const int64_t accumulate : {1, 2}) {
    TrainerConfig config = config_of(kSgd);
    config.accumulate = accumulate;
    Trainer free(new_instance(), config);
    config.optimizer.clip_each_norm = 0.01;
    Trainer clipped(new_instance(), config);
    StepInfo info;
    for (int i = 0; i < accumulate; ++i) {
      free.step(Batch(i).tensors());
      info = clipped.step(Batch(i).tensors());
    }
    double sum = 0;
    for (const SegmentTensor& gradient : clipped.instance().segments().all(Role::kGradient)) {
      const auto mine = values_of(clipped.instance(), gradient.variable->name, Role::kGradient);
      const auto theirs = values_of(free.instance(), gradient.variable->name, Role::kGradient);
      const auto norm = [&](const std::vector<float>& g) {
        return std::sqrt(std::inner_product(g.begin(), g.end(), g.begin(), 0.0)) /
               static_cast<double>(accumulate);
      };
      const double most = std::min(0.01, norm(theirs));
      EXPECT_NEAR(norm(mine), most, 1e-5) << gradient.variable->name;
      sum += most * most;
    }
    EXPECT_NEAR(info.grad_norm, std::sqrt(sum), 1e-5);
  }
}

// Decay as a part of the loss: its gradient is there before anything is clipped.
TEST(Trainer, DecayInTheLossIsClippedWithTheRest) {
  constexpr double kDecay = 0.25;
  for (const int64_t accumulate : {1, 2}) {
    TrainerConfig config = config_of(kSgd);
    config.accumulate = accumulate;
    config.loss_scale.mode = "static";
    config.loss_scale.initial = 64;
    config.optimizer.group.emplace_back().match.push_back("*.weight");
    config.optimizer.group[0].weight_decay = kDecay;
    Trainer behind(new_instance(), config);
    config.optimizer.decay_in_loss = true;
    Trainer inside(new_instance(), config);
    config.optimizer.clip_each_norm = 0.01;
    Trainer clipped(new_instance(), config);
    double squares = 0;
    for (const SegmentTensor& value : inside.instance().segments().all(Role::kValue)) {
      if (!value.variable->name.ends_with(".weight")) continue;
      for (const float w : values_of(inside.instance(), value.variable->name, Role::kValue))
        squares += static_cast<double>(w) * static_cast<double>(w);
    }
    for (int i = 0; i < accumulate; ++i) {
      for (Trainer* trainer : {&behind, &inside, &clipped}) trainer->step(Batch(i).tensors());
    }
    EXPECT_NEAR(inside.scalar("decay_loss"), kDecay / 2 * squares, 1e-6 * squares);
    for (const SegmentTensor& value : inside.instance().segments().all(Role::kValue)) {
      const std::string& name = value.variable->name;
      const auto a = values_of(behind.instance(), name, Role::kValue);
      const auto b = values_of(inside.instance(), name, Role::kValue);
      for (size_t k = 0; k < a.size(); ++k) EXPECT_NEAR(a[k], b[k], 1e-6) << name;
      const auto g = values_of(clipped.instance(), name, Role::kGradient);
      const double scale = 64.0 * static_cast<double>(accumulate);
      EXPECT_LE(std::sqrt(std::inner_product(g.begin(), g.end(), g.begin(), 0.0)) / scale, 0.010001)
          << name;
    }
  }
}

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
  EXPECT_THAT(error_of([&] { slot.run(nine); }, Code::kInvalid),
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
  EXPECT_THAT(error_of([&] { Predictor(*new_instance(), {}); }, Code::kInvalid),
              HasSubstr("no weights yet"));
}

}  // namespace
}  // namespace assay::train
