#include "sdk/train/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <numeric>

#include "sdk/backend/cpu/device.h"
#include "sdk/backend/forwarding_backend.h"
#include "tests/train/training_setup.h"

namespace assay::train {
namespace {

using test::Batch;
using test::config_of;
using test::error_of;
using test::kBatch;
using test::kSgd;
using test::new_instance;
using test::persistent_bytes;
using test::values_of;
using testing::HasSubstr;

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
  EXPECT_THAT(error_of([&] { trainer.apply(); }),
              HasSubstr("backward calls since the last update is 0, expected 1 before apply"));
  trainer.backward(Batch(0).tensors());
  EXPECT_THAT(error_of([&] { trainer.backward(Batch(1).tensors()); }),
              HasSubstr("call apply first"));
  EXPECT_THAT(error_of([&] { trainer.step(Batch(1).tensors()); }),
              HasSubstr("is 1, expected 0 for this call"));
  trainer.apply();
  trainer.step(Batch(1).tensors());
}

TEST(Trainer, BadBatchesNameTheTensor) {
  Trainer trainer(new_instance(), config_of(kSgd));
  const Batch good(0);
  auto batch = good.tensors();
  EXPECT_THAT(error_of([&] { trainer.step(std::span(batch).first(1)); }),
              HasSubstr("a batch of cnn is 1 tensor, expected 2 tensors: image and label"));
  batch[0].dims = {kBatch, 12, 12, 3};
  EXPECT_THAT(error_of([&] { trainer.step(batch); }),
              HasSubstr("batch tensor 0 (image) is f32[16,12,12,3], expected f32[16,12,12,1]"));
  batch = good.tensors();
  batch[1].dtype = DType::kF32;
  EXPECT_THAT(error_of([&] { trainer.step(batch); }), HasSubstr("expected i32[16]"));
  Batch labelled(0);
  labelled.labels[3] = 10;
  EXPECT_THAT(error_of([&] { trainer.step(labelled.tensors()); }),
              HasSubstr("label[3] is 10, expected a class in [0, 10)"));
  labelled.labels[3] = -1;  // padding is for evaluation only
  error_of([&] { trainer.step(labelled.tensors()); });
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
    return error_of([&] { Trainer(new_instance(), config_of(json)); });
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
  error_of([&] { trainer.set("learning_rate", -1); });
  error_of([&] { trainer.set("loss_scale", 8); });
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
  error_of([&] { test::evaluate(without, Batch(0).tensors(), true); });
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

}  // namespace
}  // namespace assay::train
