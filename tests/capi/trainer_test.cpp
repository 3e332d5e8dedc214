#include <cmath>
#include <limits>

#include "tests/capi/support.h"

namespace assay::test {
namespace {

using testing::HasSubstr;

class TrainerTest : public SmallModel {};

TEST_F(TrainerTest, LearnsAndCounts) {
  const auto model = make_model();
  const auto trainer = make_trainer(model.get());
  const assay_step_info first = step(trainer.get(), batch);
  EXPECT_EQ(first.step, 1);
  EXPECT_EQ(first.samples, kBatch);
  EXPECT_EQ(first.flags, uint32_t{ASSAY_STEP_UPDATED});
  EXPECT_EQ(first.learning_rate, 0.05);
  EXPECT_GT(first.grad_norm, 0);
  EXPECT_GT(first.seconds, 0);
  assay_step_info last = first;
  for (int i = 0; i < 30; ++i) last = step(trainer.get(), batch);
  EXPECT_EQ(last.step, 31);
  EXPECT_LT(last.loss, first.loss / 2);
  assay_eval_info eval{.struct_size = sizeof eval};
  batch.labels()[5] = -1;
  ok(assay_trainer_eval, trainer.get(), batch.tensors(), size_t{2}, 0u, &eval);
  EXPECT_EQ(eval.samples, 5);
  EXPECT_GE(eval.top1, 0);
  EXPECT_LE(eval.top1, 5);
  EXPECT_EQ(eval.top5, 5);  // of three classes
}

TEST_F(TrainerTest, ScalarsOfTheLastBatch) {
  const auto model = make_model();
  const auto trainer = make_trainer(model.get());
  double value = 0;
  fails(ASSAY_E_INVALID, assay_trainer_scalar, trainer.get(), text("loss"), &value);
  const assay_step_info first = step(trainer.get(), batch);
  ok(assay_trainer_scalar, trainer.get(), text("loss"), &value);
  EXPECT_EQ(value, first.loss);
  EXPECT_THAT(fails(ASSAY_E_NOT_FOUND, assay_trainer_scalar, trainer.get(), text("top1"), &value),
              HasSubstr("loss"));
  assay_eval_info eval{.struct_size = sizeof eval};
  ok(assay_trainer_eval, trainer.get(), batch.tensors(), size_t{2}, 0u, &eval);
  ok(assay_trainer_scalar, trainer.get(), text("top1"), &value);
  EXPECT_EQ(value, eval.top1);
}

// The logits of an evaluation are those that its counts come from. The copy outlives the next
// batch.
TEST_F(TrainerTest, TensorsOfTheLastEvaluation) {
  const auto model = make_model();
  const auto trainer = make_trainer(model.get());
  assay_tensor* none = nullptr;
  const auto refused = [&] {
    return fails(ASSAY_E_INVALID, assay_trainer_output, trainer.get(), text("logits"), &none);
  };
  EXPECT_THAT(refused(), HasSubstr("not evaluated"));
  for (int i = 0; i < 5; ++i) step(trainer.get(), batch);
  refused();
  assay_eval_info eval{.struct_size = sizeof eval};
  ok(assay_trainer_eval, trainer.get(), batch.tensors(), size_t{2}, 0u, &eval);
  const auto logits = make<assay_tensor>(assay_trainer_output, trainer.get(), text("logits"));
  EXPECT_THAT(fails(ASSAY_E_NOT_FOUND, assay_trainer_output, trainer.get(), text("logit"), &none),
              HasSubstr("\"logits\""));
  step(trainer.get(), batch);
  refused();
  ok(assay_trainer_eval, trainer.get(), batch.tensors(), size_t{2}, 0u, nullptr);
  report(assay_trainer_profile, trainer.get(), 1);
  refused();
  EXPECT_EQ(none, nullptr);

  assay_tensor_info info{.struct_size = sizeof info};
  ok(assay_tensor_get_info, logits.get(), &info);
  ASSERT_EQ(info.dtype, ASSAY_F32);
  ASSERT_EQ(info.ndim, 2);
  ASSERT_EQ(info.shape[0], kBatch);
  const auto* rows = static_cast<const float*>(info.data);
  double right = 0, loss = 0;
  for (int64_t n = 0; n < kBatch; ++n) {
    const float* row = rows + n * info.shape[1];
    const int32_t label = batch.labels()[n];
    right += std::max_element(row, row + info.shape[1]) - row == label;
    double sum = 0;
    for (int64_t c = 0; c < info.shape[1]; ++c) sum += std::exp(double(row[c]) - row[label]);
    loss += std::log(sum);
  }
  EXPECT_EQ(right, eval.top1);
  EXPECT_NEAR(loss, eval.loss_sum, 1e-5 * loss);
}

TEST_F(TrainerTest, ScalarsOfAnAccumulatedUpdate) {
  const auto model = make_model();
  const auto trainer = make_trainer(
      model.get(), R"({"accumulate": 2, "optimizer": {"name": "sgd", "momentum": 0.9}})");
  double value = 0;
  step(trainer.get(), batch);
  fails(ASSAY_E_NOT_FOUND, assay_trainer_scalar, trainer.get(), text("grad_norm"), &value);
  const assay_step_info update = step(trainer.get(), batch);
  ok(assay_trainer_scalar, trainer.get(), text("grad_norm"), &value);
  EXPECT_EQ(value, update.grad_norm);
  ok(assay_trainer_scalar, trainer.get(), text("loss"), &value);
  EXPECT_EQ(value, update.loss);
}

TEST_F(TrainerTest, SameSeedSameBits) {
  std::vector<std::byte> weights[2];
  for (auto& result : weights) {
    const auto model = make_model();
    const auto trainer = make_trainer(model.get());
    for (int i = 0; i < 3; ++i) step(trainer.get(), batch);
    result = bits(model.get(), "output.weight");
  }
  EXPECT_EQ(weights[0], weights[1]);
}

// Taken over ahead of their steps, in order, with the same bits.
TEST_F(TrainerTest, PrefetchedBatchesGiveTheSameBits) {
  const auto one = make_model(), two = make_model();
  const auto plain = make_trainer(one.get()), ahead = make_trainer(two.get());
  const auto prefetch = [&] {
    ok(assay_trainer_prefetch, ahead.get(), batch.tensors(), size_t{2});
  };
  const auto next = [&](assay_step_info& info) {
    const assay_tensor* const* none = nullptr;
    ok(assay_trainer_step, ahead.get(), none, size_t{0}, &info);
  };
  assay_step_info info{.struct_size = sizeof info};
  std::vector<double> expected, got;
  for (int i = 0; i < 3; ++i) {
    batch.labels()[0] = i;  // of three classes
    expected.push_back(step(plain.get(), batch).loss);
  }
  batch.labels()[0] = 0;
  prefetch();
  batch.labels()[0] = 1;  // the first was taken over
  prefetch();
  next(info), got.push_back(info.loss);
  batch.labels()[0] = 2;  // so is the second, after that step
  prefetch();
  next(info), got.push_back(info.loss);
  next(info), got.push_back(info.loss);
  EXPECT_EQ(got, expected);
  EXPECT_EQ(bits(one.get(), "output.weight"), bits(two.get(), "output.weight"));
}

// Batches that wait are memory of the context: counted, and kept within its limit.
TEST_F(TrainerTest, PrefetchedBatchesCountAsMemory) {
  const auto in_use = [this] {
    assay_mem_stats stats{.struct_size = sizeof stats};
    ok(assay_context_mem_stats, context.get(), device_under_test, &stats);
    return stats.in_use;
  };
  uint64_t batch_bytes = 0;
  for (const assay_tensor* tensor : {batch.tensors()[0], batch.tensors()[1]}) {
    assay_tensor_info described{.struct_size = sizeof described};
    ok(assay_tensor_get_info, tensor, &described);
    batch_bytes += described.bytes;
  }
  const auto model = make_model();
  const auto trainer = make_trainer(model.get());
  const uint64_t before = in_use();
  ok(assay_trainer_prefetch, trainer.get(), batch.tensors(), size_t{2});
  const uint64_t after = in_use();
  if (on_cpu()) {
    EXPECT_EQ(after, before + 2 * batch_bytes);
  } else {  // in memory of the host and of the device, with gaps
    EXPECT_GE(after, before + 4 * batch_bytes);
  }
}

TEST_F(TrainerTest, PrefetchKeepsToItsRules) {
  const auto model = make_model();
  auto trainer = make_trainer(model.get());
  const assay_tensor* const* none = nullptr;
  assay_step_info info{.struct_size = sizeof info};
  EXPECT_THAT(fails(ASSAY_E_INVALID, assay_trainer_step, trainer.get(), none, size_t{0}, &info),
              HasSubstr("no prefetched batch waits"));
  fails(ASSAY_E_INVALID, assay_trainer_prefetch, trainer.get(), batch.tensors(), size_t{1});
  ok(assay_trainer_prefetch, trainer.get(), batch.tensors(), size_t{2});
  ok(assay_trainer_prefetch, trainer.get(), batch.tensors(), size_t{2});
  EXPECT_THAT(
      fails(ASSAY_E_INVALID, assay_trainer_prefetch, trainer.get(), batch.tensors(), size_t{2}),
      HasSubstr("two prefetched batches"));
  // The second one's tensors are in use until the next step has read them.
  auto* images = const_cast<assay_tensor*>(batch.tensors()[0]);
  assay_tensor_info described{.struct_size = sizeof described};
  ok(assay_tensor_get_info, images, &described);
  const std::vector<std::byte> zeros(described.bytes);
  fails(ASSAY_E_BUSY, assay_tensor_write, images, static_cast<const void*>(zeros.data()),
        zeros.size());
  // A batch of its own is out of turn; what waits stays.
  EXPECT_THAT(
      fails(ASSAY_E_INVALID, assay_trainer_step, trainer.get(), batch.tensors(), size_t{2}, &info),
      HasSubstr("a prefetched batch waits"));
  ok(assay_trainer_step, trainer.get(), none, size_t{0}, &info);
  ok(assay_tensor_write, images, static_cast<const void*>(zeros.data()), zeros.size());
  ok(assay_trainer_step, trainer.get(), none, size_t{0}, &info);
  EXPECT_EQ(info.step, 2);
  EXPECT_EQ(step(trainer.get(), batch).step, 3);
  // A step that fails drops what waits.
  batch.images()[0] = std::numeric_limits<float>::quiet_NaN();
  for (int i = 0; i < 2; ++i) ok(assay_trainer_prefetch, trainer.get(), batch.tensors(), size_t{2});
  fails(ASSAY_E_NONFINITE, assay_trainer_step, trainer.get(), none, size_t{0}, &info);
  fails(ASSAY_E_INVALID, assay_trainer_step, trainer.get(), none, size_t{0}, &info);
  batch.images()[0] = 0;
  ok(assay_trainer_prefetch, trainer.get(), batch.tensors(), size_t{2});
  ok(assay_trainer_prefetch, trainer.get(), batch.tensors(), size_t{2});
  trainer.reset();  // with a batch held
  ok(assay_tensor_write, images, static_cast<const void*>(zeros.data()), zeros.size());
}

TEST_F(TrainerTest, LoadingACheckpointGivesPrefetchedTensorsBack) {
  const TemporaryFolder folder;
  const std::string path = folder.at("a.ckpt");
  const auto model = make_model();
  const auto trainer = make_trainer(model.get());
  ok(assay_checkpoint_save, trainer.get(), text(path), uint32_t{0});
  for (int i = 0; i < 2; ++i) ok(assay_trainer_prefetch, trainer.get(), batch.tensors(), size_t{2});
  ok(assay_checkpoint_load, trainer.get(), text(path), uint32_t{0}, nullptr);
  const std::vector<float> zeros(kBatch * 64);
  ok(assay_tensor_write, const_cast<assay_tensor*>(batch.tensors()[0]),
     static_cast<const void*>(zeros.data()), zeros.size() * sizeof(float));
  ok(assay_trainer_prefetch, trainer.get(), batch.tensors(), size_t{2});
}

TEST_F(TrainerTest, BackwardAndApplyEqualStep) {
  const auto one = make_model(), two = make_model();
  const auto whole = make_trainer(one.get()), halves = make_trainer(two.get());
  for (int i = 0; i < 3; ++i) {
    const assay_step_info expected = step(whole.get(), batch);
    assay_step_info info{.struct_size = sizeof info};
    ok(assay_trainer_backward, halves.get(), batch.tensors(), size_t{2}, &info);
    EXPECT_EQ(info.micro_step, 1);
    EXPECT_EQ(info.flags, 0u);
    ok(assay_trainer_apply, halves.get(), &info);
    EXPECT_EQ(info.loss, expected.loss);
    EXPECT_EQ(info.grad_norm, expected.grad_norm);
    EXPECT_EQ(info.step, expected.step);
  }
  EXPECT_EQ(bits(one.get(), "block1.conv.weight"), bits(two.get(), "block1.conv.weight"));
}

TEST_F(TrainerTest, GradientsMayBeEditedBetweenTheHalves) {
  const auto model = make_model();
  const auto trainer = make_trainer(model.get());
  ok(assay_trainer_backward, trainer.get(), batch.tensors(), size_t{2}, nullptr);
  const auto bias = bits(model.get(), "output.bias");
  const auto gradient =
      make<assay_tensor>(assay_model_tensor, model.get(), text("output.bias"), ASSAY_KIND_GRADIENT);
  const float zeros[3] = {};
  ok(assay_tensor_write, gradient.get(), zeros, sizeof zeros);
  ok(assay_trainer_apply, trainer.get(), nullptr);
  EXPECT_EQ(bits(model.get(), "output.bias"), bias);
}

TEST_F(TrainerTest, HalvesInTheWrongOrder) {
  const auto model = make_model();
  const auto trainer = make_trainer(model.get());
  fails(ASSAY_E_INVALID, assay_trainer_apply, trainer.get(), nullptr);
  ok(assay_trainer_backward, trainer.get(), batch.tensors(), size_t{2}, nullptr);
  EXPECT_THAT(fails(ASSAY_E_INVALID, assay_trainer_backward, trainer.get(), batch.tensors(),
                    size_t{2}, nullptr),
              HasSubstr("apply"));
  fails(ASSAY_E_INVALID, assay_trainer_step, trainer.get(), batch.tensors(), size_t{2}, nullptr);
  assay_report* out = nullptr;
  fails(ASSAY_E_INVALID, assay_trainer_profile, trainer.get(), 1, &out);
  ok(assay_trainer_apply, trainer.get(), nullptr);
}

TEST_F(TrainerTest, AccumulationUpdatesEveryKthCall) {
  const auto model = make_model();
  const assay_trainer_options options{
      .struct_size = sizeof options, .batch_size = kBatch, .accumulate = 2, .learning_rate = 0.05};
  const auto trainer = make<assay_trainer>(assay_trainer_create, model.get(), &options, text(kSgd));
  EXPECT_EQ(step(trainer.get(), batch).flags, 0u);
  EXPECT_EQ(step(trainer.get(), batch).flags, uint32_t{ASSAY_STEP_UPDATED});
}

TEST_F(TrainerTest, BadBatches) {
  const auto model = make_model();
  const auto trainer = make_trainer(model.get());
  const auto fail_step = [&](const assay_tensor* const* tensors, size_t n) {
    return fails(ASSAY_E_INVALID, assay_trainer_step, trainer.get(), tensors, n, nullptr);
  };
  const assay_tensor* swapped[] = {batch.tensors()[1], batch.tensors()[0]};
  EXPECT_THAT(fail_step(swapped, 2), HasSubstr("image"));
  EXPECT_THAT(fail_step(batch.tensors(), 1),
              HasSubstr("is 1 tensor, expected 2 tensors: image and label"));
  EXPECT_THAT(fail_step(nullptr, 2), HasSubstr("batch"));
  const assay_tensor* with_null[] = {batch.tensors()[0], nullptr};
  EXPECT_THAT(fail_step(with_null, 2), HasSubstr("batch[1] is NULL"));
  const std::vector<const assay_tensor*> many(40, batch.tensors()[0]);
  EXPECT_THAT(fail_step(many.data(), many.size()), HasSubstr("40"));
  const int64_t wrong_shape[] = {kBatch, 8, 1, 8};
  const auto wrong =
      make<assay_tensor>(assay_tensor_new, context.get(), kCpu, ASSAY_F32, wrong_shape, 4);
  const assay_tensor* misshapen[] = {wrong.get(), batch.tensors()[1]};
  EXPECT_THAT(fail_step(misshapen, 2), HasSubstr("f32[6,8,1,8]"));
  batch.labels()[2] = 3;
  EXPECT_THAT(fail_step(batch.tensors(), 2), HasSubstr("label[2] is 3"));
  batch.labels()[2] = -1;  // padding is for evaluation
  EXPECT_THAT(fail_step(batch.tensors(), 2), HasSubstr("label[2] is -1"));
  batch.labels()[2] = 0;
  EXPECT_EQ(step(trainer.get(), batch).step, 1);
}

TEST_F(TrainerTest, NonFiniteLossChangesNothing) {
  const auto model = make_model();
  const auto trainer = make_trainer(model.get());
  step(trainer.get(), batch);
  const auto weights = bits(model.get(), "block1.conv.weight");
  const auto momentum = bits(model.get(), "block1.conv.weight", ASSAY_KIND_MOMENT1);
  const auto mean = bits(model.get(), "block1.bn.running_mean", ASSAY_KIND_STATISTIC);
  const float before = batch.images()[7];
  batch.images()[7] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(fails(ASSAY_E_NONFINITE, assay_trainer_step, trainer.get(), batch.tensors(),
                    size_t{2}, nullptr),
              HasSubstr("nothing was updated"));
  EXPECT_EQ(bits(model.get(), "block1.conv.weight"), weights);
  EXPECT_EQ(bits(model.get(), "block1.conv.weight", ASSAY_KIND_MOMENT1), momentum);
  EXPECT_EQ(bits(model.get(), "block1.bn.running_mean", ASSAY_KIND_STATISTIC), mean);
  batch.images()[7] = before;
  EXPECT_EQ(step(trainer.get(), batch).step, 2);
}

TEST_F(TrainerTest, DynamicLossScalingSkipsAndTells) {
  std::vector<std::string> warnings;
  const assay_host host{
      .struct_size = sizeof host,
      .user = reinterpret_cast<uintptr_t>(&warnings),
      .log = [](uintptr_t user, int32_t, assay_str, assay_str message) {
        reinterpret_cast<std::vector<std::string>*>(user)->push_back(string(message));
      }};
  context = make<assay_context>(assay_context_create, nullptr, &host, nullptr, size_t{0});
  const auto model = make_model();
  const auto trainer = make_trainer(
      model.get(), R"({"optimizer": {"name": "sgd"}, "loss_scale": {"mode": "dynamic"}})");
  batch.images()[0] = std::numeric_limits<float>::infinity();
  const assay_step_info info = step(trainer.get(), batch);
  EXPECT_EQ(info.flags, uint32_t{ASSAY_STEP_SKIPPED_NONFINITE});
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_THAT(warnings[0], HasSubstr("skipped"));
}

TEST_F(TrainerTest, OptionsAndJsonTogether) {
  const auto model = make_model();
  assay_trainer_options options{
      .struct_size = sizeof options, .batch_size = kBatch, .learning_rate = 0.1};
  assay_trainer* out = nullptr;
  const auto fail_create = [&](std::string_view config) {
    return call(assay_trainer_create, model.get(), &options, text(config), &out);
  };
  for (const auto& [config, key] : std::initializer_list<std::pair<const char*, const char*>>{
           {R"({"batch_size": 6, "optimizer": {"name": "sgd"}})", "batch_size"},
           {R"({"optimizer": {"name": "sgd", "learning_rate": 0.1}})", "learning_rate"}}) {
    const Outcome outcome = fail_create(config);
    EXPECT_EQ(outcome.status, ASSAY_E_INVALID);
    EXPECT_EQ(outcome.argument, key);
  }
  options = {.struct_size = sizeof options,
             .batch_size = kBatch,
             .eval_batch_size = 2,
             .accumulate = 1,
             .seed = 1,
             .learning_rate = 0.1,
             .precision = ASSAY_PRECISION_AMP_BF16};
  for (const char* key : {"eval_batch_size", "accumulate", "seed"}) {
    EXPECT_EQ(fail_create("{\"" + std::string(key) + "\": 1}").argument, key);
  }
  EXPECT_EQ(fail_create(R"({"precision": "fp32"})").argument, "precision");
  options.precision = 5;
  EXPECT_EQ(fail_create(kSgd).argument, "precision");
}

// What a program can act on without reading the message.
TEST_F(TrainerTest, ErrorsComeInParts) {
  const auto model = make_model();
  assay_trainer* none = nullptr;
  const auto refused = [&](std::string_view config) {
    return call(assay_trainer_create, model.get(), nullptr, text(config), &none);
  };
  Outcome outcome = refused(R"({"batch_size": 6, "optimizer": {"name": "sdg"}})");
  EXPECT_EQ(outcome.argument, "optimizer.name");
  EXPECT_EQ(outcome.actual, "\"sdg\"");
  EXPECT_EQ(outcome.expected, "\"sgd\", \"adam\", \"adamw\" or \"lamb\"");
  EXPECT_EQ(outcome.hint, "did you mean \"sgd\"?");
  outcome = refused(R"({"batch_size": 6, "optimizer": {"name": "sgd", "learning_rate": 1,
                        "momentum": 2}})");
  EXPECT_EQ(outcome.argument, "optimizer.momentum");
  EXPECT_EQ(outcome.actual, "2");
  EXPECT_EQ(outcome.expected, "a number in [0, 1)");
  outcome = refused(R"({"optimizer": {"name": "sgd", "learning_rate": 1}})");
  EXPECT_EQ(outcome.message, "trainer: batch_size is not given, expected 1 to 2^30");
  EXPECT_EQ(refused(R"({"batch_size": 0})").actual, "0");
  outcome = refused(R"({"batch_size": 6, "optimizer": {"name": "sgd"}})");
  EXPECT_EQ(outcome.argument, "optimizer.learning_rate");
  EXPECT_EQ(outcome.actual, "not given");
  outcome = refused(R"({"batch_size": 6, "optimizer": {"name": "sgd", "learning_rate": 1},
                        "schedule": {"name": "cosine"}})");
  EXPECT_EQ(outcome.argument, "schedule.total_steps");
  EXPECT_EQ(outcome.actual, "not given");
  outcome = refused(R"({"batch_sizes": 6})");
  EXPECT_EQ(outcome.argument, "batch_sizes");
  EXPECT_EQ(outcome.hint, "did you mean \"batch_size\"?");
  if (on_cpu()) {
    outcome = refused(R"({"batch_size": 6, "precision": "tf32",
                          "optimizer": {"name": "sgd", "learning_rate": 1}})");
    EXPECT_EQ(outcome.status, ASSAY_E_UNSUPPORTED);
    EXPECT_EQ(outcome.argument, "precision");
    EXPECT_EQ(outcome.expected, "\"fp32\" or \"amp-bf16\"");
  }

  const auto trainer = make_trainer(model.get());
  const auto wrong_step = [&](assay_dtype dtype, std::initializer_list<int64_t> shape) {
    const auto wrong = make<assay_tensor>(assay_tensor_new, context.get(), kCpu, dtype,
                                          shape.begin(), static_cast<int32_t>(shape.size()));
    const assay_tensor* tensors[] = {wrong.get(), batch.tensors()[1]};
    return call(assay_trainer_step, trainer.get(), tensors, size_t{2}, nullptr);
  };
  outcome = wrong_step(ASSAY_F32, {kBatch, 8, 9, 1});
  EXPECT_EQ(outcome.argument, "image");
  EXPECT_EQ(outcome.actual, "f32[6,8,9,1]");
  EXPECT_EQ(outcome.expected, "f32[6,8,8,1]");
  EXPECT_EQ(wrong_step(ASSAY_U8, {kBatch, 8, 8, 1}).actual, "u8[6,8,8,1]");
  batch.labels()[2] = 3;
  outcome = call(assay_trainer_step, trainer.get(), batch.tensors(), size_t{2}, nullptr);
  EXPECT_EQ(outcome.argument, "label");
  EXPECT_EQ(outcome.actual, "3");
  outcome = call(assay_trainer_set, trainer.get(), text("learning_rat"), 1.0);
  EXPECT_EQ(outcome.hint, "did you mean \"learning_rate\"?");
  assay_tensor* tensor = nullptr;
  outcome =
      call(assay_model_tensor, model.get(), text("block1.conv.wieght"), ASSAY_KIND_VALUE, &tensor);
  EXPECT_EQ(outcome.status, ASSAY_E_NOT_FOUND);
  EXPECT_EQ(outcome.hint, "did you mean \"block1.conv.weight\"?");
  assay_model* other = nullptr;
  outcome = call(assay_model_named, context.get(), text("resnet8"), text(""), &other);
  EXPECT_EQ(outcome.argument, "arch");
  EXPECT_EQ(outcome.hint, "did you mean \"resnet18\"?");
  outcome = call(assay_model_named, context.get(), text("cnn"), text(R"({"kernel": 4})"), &other);
  EXPECT_EQ(outcome.argument, "kernel");
  EXPECT_EQ(outcome.actual, "4");
}

TEST_F(TrainerTest, ReservedMustBeZero) {
  const auto model = make_model();
  const assay_trainer_options options{
      .struct_size = sizeof options, .batch_size = kBatch, .learning_rate = 0.1, .reserved = 1};
  assay_trainer* out = nullptr;
  const Outcome outcome = call(assay_trainer_create, model.get(), &options, text(kSgd), &out);
  EXPECT_EQ(outcome.status, ASSAY_E_INVALID);
  EXPECT_EQ(outcome.argument, "options.reserved");
}

TEST_F(TrainerTest, BadConfigurations) {
  const auto model = make_model();
  assay_trainer* out = nullptr;
  const auto fail_create = [&](std::string_view config) {
    return fails(ASSAY_E_INVALID, assay_trainer_create, model.get(), nullptr, text(config), &out);
  };
  EXPECT_THAT(fail_create(""), HasSubstr("batch_size"));
  EXPECT_THAT(fail_create(R"({"batch_size": -3})"), HasSubstr("-3"));
  EXPECT_THAT(fail_create(R"({"batchsize": 3})"), HasSubstr("batchsize"));
  EXPECT_THAT(fail_create(R"({"batch_size": 2, "optimizer": {"name": "sdg"}})"), HasSubstr("sdg"));
  EXPECT_THAT(fail_create(R"({"batch_size": 2, "optimizer": {"name": "sgd"}})"),
              HasSubstr("learning_rate"));
  EXPECT_THAT(fail_create(R"({"batch_size": 2, "precision": "fp8",
                              "optimizer": {"name": "sgd", "learning_rate": 1}})"),
              HasSubstr("fp8"));
}

TEST_F(TrainerTest, OneAtATimeAndEachStartsFresh) {
  const auto model = make_model();
  auto trainer = make_trainer(model.get());
  assay_trainer* second = nullptr;
  const std::string config = R"({"batch_size": 6, "optimizer": {"name": "sgd", "momentum": 0.9,
      "learning_rate": 0.05}})";
  EXPECT_THAT(
      fails(ASSAY_E_INVALID, assay_trainer_create, model.get(), nullptr, text(config), &second),
      HasSubstr("has a trainer"));
  step(trainer.get(), batch);
  trainer.reset();
  const auto weights = bits(model.get(), "output.weight");
  trainer = make_trainer(model.get());
  EXPECT_EQ(bits(model.get(), "output.weight"), weights);
  const auto momentum = bits(model.get(), "output.weight", ASSAY_KIND_MOMENT1);
  EXPECT_EQ(momentum, std::vector<std::byte>(momentum.size()));
  EXPECT_EQ(step(trainer.get(), batch).step, 1);
}

// Weights of a seed that was never answered with a trainer would be a surprise later.
TEST_F(TrainerTest, ATrainerWithoutRoomLeavesFreshWeightsFresh) {
  const std::string_view network =
      R"({"image": [8, 8, 1], "classes": 3, "conv": [4], "kernel": 3, "hidden": [4000]})";
  const assay_context_options tight{.struct_size = sizeof tight, .mem_limit = size_t{3} << 19};
  const auto small = make<assay_context>(assay_context_create, &tight, nullptr, nullptr, size_t{0});
  const auto model = make<assay_model>(assay_model_named, small.get(), text("cnn"), text(network));
  const assay_trainer_options options{
      .struct_size = sizeof options, .batch_size = kBatch, .seed = 1, .learning_rate = 0.05};
  assay_trainer* none = nullptr;
  fails(ASSAY_E_OOM_HOST, assay_trainer_create, model.get(), &options, text(kSgd), &none);
  EXPECT_FALSE(at(report(assay_model_report, model.get()), "initialized").bool_value());
}

TEST_F(TrainerTest, MovingAveragesAreEvaluated) {
  const auto model = make_model();
  const auto plain = make_trainer(make_model().get());
  fails(ASSAY_E_INVALID, assay_trainer_eval, plain.get(), batch.tensors(), size_t{2},
        uint32_t{ASSAY_EVAL_EMA}, nullptr);
  fails(ASSAY_E_INVALID, assay_trainer_eval, plain.get(), batch.tensors(), size_t{2}, 6u, nullptr);
  const auto trainer =
      make_trainer(model.get(), R"({"optimizer": {"name": "sgd", "ema_decay": 0.99}})");
  for (int i = 0; i < 10; ++i) step(trainer.get(), batch);
  assay_eval_info now{.struct_size = sizeof now}, averaged{.struct_size = sizeof averaged};
  ok(assay_trainer_eval, trainer.get(), batch.tensors(), size_t{2}, 0u, &now);
  ok(assay_trainer_eval, trainer.get(), batch.tensors(), size_t{2}, uint32_t{ASSAY_EVAL_EMA},
     &averaged);
  EXPECT_NE(now.loss_sum, averaged.loss_sum);
}

TEST_F(TrainerTest, SettingsAndMetadata) {
  const auto model = make_model();
  const auto trainer = make_trainer(model.get());
  ok(assay_trainer_set, trainer.get(), text("learning_rate"), 0.5);
  EXPECT_EQ(step(trainer.get(), batch).learning_rate, 0.5);
  EXPECT_THAT(fails(ASSAY_E_NOT_FOUND, assay_trainer_set, trainer.get(), text("momentum"), 0.5),
              HasSubstr("learning_rate"));
  fails(ASSAY_E_INVALID, assay_trainer_set, trainer.get(), text("learning_rate"), -1.0);
  fails(ASSAY_E_INVALID, assay_trainer_set, trainer.get(), text("learning_rate"),
        std::numeric_limits<double>::quiet_NaN());
  fails(ASSAY_E_INVALID, assay_trainer_set, trainer.get(), text("loss_scale"), 8.0);

  assay_str value{};
  fails(ASSAY_E_NOT_FOUND, assay_trainer_get_metadata, trainer.get(), text("note"), &value);
  ok(assay_trainer_set_metadata, trainer.get(), text("note"), text("hello"));
  ok(assay_trainer_get_metadata, trainer.get(), text("note"), &value);
  EXPECT_EQ(string(value), "hello");
  ok(assay_trainer_set_metadata, trainer.get(), text("note"), assay_str{nullptr, 0});
  fails(ASSAY_E_NOT_FOUND, assay_trainer_get_metadata, trainer.get(), text("note"), &value);
  fails(ASSAY_E_INVALID, assay_trainer_set_metadata, trainer.get(), text(""), text("x"));
  fails(ASSAY_E_INVALID, assay_trainer_set_metadata, trainer.get(), text("assay.x"), text("x"));
  fails(ASSAY_E_INVALID, assay_trainer_set_metadata, trainer.get(), text(std::string(256, 'k')),
        text("x"));
  // What a checkpoint could not hold.
  fails(ASSAY_E_INVALID, assay_trainer_set_metadata, trainer.get(), text("a\tb"), text("x"));
  const std::string big((size_t{16} << 20) + 1, 'x');
  EXPECT_EQ(
      call(assay_trainer_set_metadata, trainer.get(), text("assay.cursor"), text(big)).argument,
      "value");
}

TEST_F(TrainerTest, TakesLabelsOf64BitsAndNamesWhatCounted) {
  const auto model = make_model(), other = make_model();
  const auto trainer = make_trainer(model.get()), plain = make_trainer(other.get());
  std::vector<int64_t> wide(batch.labels().begin(), batch.labels().end());
  const int64_t shape[] = {kBatch};
  const auto labels =
      make<assay_tensor>(assay_tensor_borrow, context.get(), static_cast<void*>(wide.data()),
                         wide.size() * sizeof(int64_t), ASSAY_I64, shape, 1, nullptr, 0);
  const assay_tensor* const tensors[] = {batch.tensors()[0], labels.get()};
  assay_step_info info{.struct_size = sizeof info};
  ok(assay_trainer_step, trainer.get(), tensors, size_t{2}, &info);
  EXPECT_EQ(info.loss, step(plain.get(), batch).loss);
  wide[0] = -1;
  assay_eval_info eval{.struct_size = sizeof eval};
  ok(assay_trainer_eval, trainer.get(), tensors, size_t{2}, uint32_t{0}, &eval);
  EXPECT_EQ(eval.samples, kBatch - 1);
  double weight = 0;
  ok(assay_trainer_scalar, trainer.get(), text("top1.weight"), &weight);
  EXPECT_EQ(weight, kBatch - 1);
  wide[0] = 3;
  EXPECT_THAT(fails(ASSAY_E_INVALID, assay_trainer_step, trainer.get(), tensors, size_t{2}, &info),
              testing::HasSubstr("label[0] is 3, expected a class in [0, 3)"));
}

TEST_F(TrainerTest, ReportAndProfileChangeNothing) {
  const auto model = make_model(), other = make_model();
  const auto trainer = make_trainer(model.get()), plain = make_trainer(other.get());
  step(trainer.get(), batch), step(plain.get(), batch);
  const auto described = report(assay_trainer_report, trainer.get());
  EXPECT_EQ(number(described, "step"), 1);
  EXPECT_EQ(at(described, "groups").list_value().values_size(), 5);
  EXPECT_GT(at(described, "plan").list_value().values_size(), 10);

  const auto profile = report(assay_trainer_profile, trainer.get(), 3);
  double seconds = 0;
  bool saw_backward = false;
  for (const auto& row : at(profile, "rows").list_value().values()) {
    seconds += number(row.struct_value(), "seconds");
    saw_backward |= at(row.struct_value(), "direction").string_value() == "backward";
  }
  EXPECT_NEAR(number(profile, "seconds"), seconds, 1e-9);
  EXPECT_GT(seconds, 0);
  EXPECT_TRUE(saw_backward);
  assay_report* out = nullptr;
  fails(ASSAY_E_INVALID, assay_trainer_profile, trainer.get(), 0, &out);

  const assay_step_info a = step(trainer.get(), batch), b = step(plain.get(), batch);
  EXPECT_EQ(a.loss, b.loss);
  EXPECT_EQ(a.step, b.step);
  EXPECT_EQ(bits(model.get(), "output.weight"), bits(other.get(), "output.weight"));
}

TEST_F(TrainerTest, FreesComeInAnyOrder) {
  auto model = make_model();
  auto trainer = make_trainer(model.get());
  model.reset();
  context.reset();
  EXPECT_EQ(step(trainer.get(), batch).step, 1);
}

}  // namespace
}  // namespace assay::test
