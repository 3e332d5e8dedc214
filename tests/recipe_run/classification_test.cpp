// A classifier through the driver, on made-up pictures: evaluations in parts, and the two halves of
// a timed batch.
#include <assay/assay_data.h>
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <set>

#include "tools/recipe_run/assay/driver.h"
#include "tools/recipe_run/assay/objects.h"
#include "tools/recipe_run/util/error.h"

namespace reciperun {
namespace {

using engine::call;
using engine::text;
using ::testing::HasSubstr;

constexpr int kSide = 28, kClasses = 10, kTrain = 64, kTest = 50;

std::string big_endian(std::initializer_list<uint32_t> numbers) {
  std::string bytes;
  for (const uint32_t n : numbers)
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(n >> shift & 0xFF);
  return bytes;
}

// Pictures in the files of Fashion-MNIST: a bright row where the class says, on grey noise.
void write_pictures(const fs::path& folder, const std::string& prefix, int count) {
  std::string pixels = big_endian({0x803, static_cast<uint32_t>(count), kSide, kSide});
  std::string labels = big_endian({0x801, static_cast<uint32_t>(count)});
  for (int i = 0; i < count; ++i) {
    const int label = i * 7 % kClasses;
    labels += static_cast<char>(label);
    for (int p = 0; p < kSide * kSide; ++p)
      pixels += static_cast<char>(p / kSide == 2 * label ? 255 : (p * 31 + i * 17) % 97);
  }
  write_file_atomic(folder / (prefix + "-images-idx3-ubyte"), pixels);
  write_file_atomic(folder / (prefix + "-labels-idx1-ubyte"), labels);
}

class ClassificationTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    root_ = fs::path(::testing::TempDir()) / ("classification_" + std::to_string(getpid()));
    write_pictures(root_ / "source", "train", kTrain);
    write_pictures(root_ / "source", "t10k", kTest);
    assay_context* context = nullptr;
    call(Exit::kCrashed, assay_context_create, nullptr, nullptr, nullptr, size_t{0}, &context);
    const engine::Context owner(context);
    const std::string from = (root_ / "source").string(), to = (root_ / "fashion_mnist").string();
    call(Exit::kCrashed, assay_dataset_convert, context, text("fashion_mnist"), text(from),
         text(to), text(""), nullptr, uintptr_t{0}, nullptr);
  }
  static void TearDownTestSuite() { fs::remove_all(root_); }

  static v1::Recipe recipe(const std::string& shards = "") {
    v1::Recipe recipe;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        R"(id: "test/cnn" model { arch: "cnn" hparam { key: "image" value: "[28, 28, 1]" }
             hparam { key: "conv" value: "[4]" } hparam { key: "hidden" value: "[8]" } }
           data { id: "train" role: "train" lock: "fashion_mnist" split: "train" }
           data { id: "test" role: "test" lock: "fashion_mnist" split: "test" }
           training { epochs: 2 batch_per_device: 16 optimizer { name: "sgd" lr: 0.01 }
             schedule { kind: "constant" } }
           evaluation { metric: "top1" metric: "top5" when: "end" batch: 8 }
           bench { id: "train" mode: TRAIN batch: 16 input: "real" timing_span: "load+compute" }
           bench { id: "infer" mode: INFER batch: 8 input: "synthetic" timing_span: "step_sync" }
           io { data_root: ")" +
            root_.string() + R"(" workers: 1 })",
        &recipe));
    if (!shards.empty()) (*recipe.mutable_evaluation()->mutable_arg())["shards"] = shards;
    return recipe;
  }

  record::Eval evaluate(const v1::Recipe& made) {
    const auto trial = driver_->start(made, 1);
    for (int i = 0; i < 4; ++i) trial->run_step();
    return trial->evaluate({}, [](double) { return true; });
  }

  static fs::path root_;
  std::unique_ptr<TrainerDriver> driver_ = make_assay_driver("cpu", 1);
};
fs::path ClassificationTest::root_;

TEST_F(ClassificationTest, PartsMakeUpTheWhole) {
  const record::Eval whole = evaluate(recipe());
  EXPECT_TRUE(whole.shard().empty());
  const record::Eval parts = evaluate(recipe("4"));
  ASSERT_EQ(parts.shard_size(), 4);
  double right = 0, loss = 0;
  std::vector<int64_t> samples;
  for (const record::Shard& shard : parts.shard()) {
    samples.push_back(shard.samples());
    right += shard.metric().at("top1") * static_cast<double>(shard.samples());
    loss += shard.metric().at("loss") * static_cast<double>(shard.samples());
    EXPECT_LE(shard.metric().at("top1"), shard.metric().at("top5"));
  }
  EXPECT_EQ(samples, (std::vector<int64_t>{12, 13, 12, 13}));  // of 50, cut at 12.5, 25 and 37.5
  EXPECT_NEAR(right, whole.metric().at("top1") * kTest, 1e-9);
  EXPECT_NEAR(loss, whole.metric().at("loss") * kTest, 1e-5);
  EXPECT_EQ(parts.metric().at("top1"), whole.metric().at("top1"));
  EXPECT_EQ(parts.metric().at("top5"), whole.metric().at("top5"));
}

// The first part is what evaluating only the first records gives.
TEST_F(ClassificationTest, PartsAreContiguous) {
  const record::Eval parts = evaluate(recipe("2"));
  ASSERT_EQ(parts.shard_size(), 2);
  v1::Recipe first_half = recipe();
  first_half.mutable_evaluation()->set_batch(5);
  first_half.mutable_evaluation()->set_batches(5);
  const auto alone = evaluate(first_half).metric();
  EXPECT_EQ(alone.at("top1"), parts.shard(0).metric().at("top1"));
  EXPECT_NEAR(alone.at("loss"), parts.shard(0).metric().at("loss"), 1e-6);
  EXPECT_GT(std::abs(parts.shard(0).metric().at("loss") - parts.shard(1).metric().at("loss")),
            1e-6);
}

// A classifier of 12 classes goes on as one of 10: all but its head, of which the first block stays
// as it is and the last one learns at half the rate.
TEST_F(ClassificationTest, GoesOnWithOtherClasses) {
  v1::Recipe published = recipe();
  (*published.mutable_model()->mutable_hparam())["classes"] = "12";
  const fs::path weights = root_ / "published" / "checkpoint";
  fs::create_directories(weights.parent_path());
  driver_->start(published, 7)->save(weights);

  v1::Recipe made = recipe();
  made.mutable_trials()->set_count(1);
  made.mutable_model()->set_pretrained("published");
  const auto refusal = [&] {
    try {
      driver_->start(made, 1);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(refusal(), HasSubstr("output.weight has another shape"));
  made.mutable_model()->add_fresh("output.*");
  made.mutable_model()->add_fresh("outptu.*");
  EXPECT_THAT(refusal(), HasSubstr("outptu"));
  made.mutable_model()->mutable_fresh()->RemoveLast();

  v1::Optimizer& optimizer = *made.mutable_training()->mutable_optimizer();
  v1::ParameterGroup& frozen = *optimizer.add_group();
  frozen.add_match("block1.*");
  frozen.set_frozen(true);
  v1::ParameterGroup& slow = *optimizer.add_group();
  slow.add_match("hidden1.*");
  slow.set_lr_scale(0.5);
  const auto trial = driver_->start(made, 1);
  const auto unlike_published = [&](const std::string& name) {
    const std::string file = (root_ / name).string(), from = weights.string();
    trial->save(file);
    std::set<std::string> names;
    for (const auto& tensor : engine::objects_of(
             engine::report_of(Exit::kCrashed, assay_checkpoint_diff, text(from), text(file)),
             "tensors"))
      if (engine::name_of(tensor, "role") == "value") names.insert(engine::name_of(tensor));
    return names;
  };
  const std::set<std::string> head = {"output.bias", "output.weight"};
  EXPECT_EQ(unlike_published("begun"), head);
  for (int i = 0; i < 3; ++i) trial->run_step();
  std::set<std::string> trained = unlike_published("trained");
  for (const std::string& name : trained)
    EXPECT_TRUE(name.starts_with("hidden1.") || name.starts_with("output.")) << name;
  EXPECT_GT(trained.size(), head.size());
}

// Each device evaluates its part with its own running statistics; the first device's alone give the
// same for the first part only.
TEST_F(ClassificationTest, EmulatedDevicesEvaluateWithTheirOwnStatistics) {
  v1::Recipe two = recipe();
  two.mutable_topology()->set_devices_per_node(2);
  v1::Recipe asked = two;
  (*asked.mutable_evaluation()->mutable_arg())["shards"] = "3";
  driver_->emulate(two, 2);
  const record::Eval own = evaluate(two);
  const record::Eval first = evaluate(asked);
  ASSERT_EQ(own.shard_size(), 2);
  ASSERT_EQ(first.shard_size(), 3);
  EXPECT_GT(std::abs(own.metric().at("loss") - first.metric().at("loss")), 1e-6);
  v1::Recipe alone = two;
  alone.mutable_evaluation()->set_batch(5);
  alone.mutable_evaluation()->set_batches(5);
  (*alone.mutable_evaluation()->mutable_arg())["shards"] = "1";
  EXPECT_NEAR(own.shard(0).metric().at("loss"), evaluate(alone).metric().at("loss"), 1e-6);
}

TEST_F(ClassificationTest, ShardsFollowTheDevicesAndAreChecked) {
  v1::Recipe eight = recipe();
  eight.mutable_topology()->set_devices_per_node(8);
  EXPECT_EQ(evaluate(eight).shard_size(), 8);
  EXPECT_EQ(evaluate(recipe("60")).shard_size(), 50) << "no part is empty";
  EXPECT_TRUE(evaluate(recipe("1")).shard().empty());
  for (const char* bad : {"0", "-1", "x", "2.5", "5000", "9999999999"}) {
    try {
      evaluate(recipe(bad));
      FAIL() << bad << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), Exit::kUsage);
      EXPECT_THAT(error.what(), HasSubstr("evaluation.arg.shards"));
    }
  }
}

TEST_F(ClassificationTest, ATriedEvaluationTakesSomeOfEachPart) {
  v1::Recipe made = recipe("2");
  made.mutable_evaluation()->set_batches(1);
  const record::Eval some = evaluate(made);
  ASSERT_EQ(some.shard_size(), 2);
  EXPECT_EQ(some.shard(0).samples(), 8) << "a whole batch, whatever is asked for";
}

// As the recipes of DLPerf.
TEST_F(ClassificationTest, WhatOnlyMeasuresNeedsNoDataToEvaluate) {
  v1::Recipe made = recipe();
  made.mutable_data(0)->set_role("bench");
  made.mutable_data()->RemoveLast();
  EXPECT_NO_THROW(driver_->check(made));
  EXPECT_GT(driver_->bench(made, {"train", 1, 16}, "")->run_batch(), 0);
  made.mutable_trials()->set_count(1);
  EXPECT_THROW(driver_->check(made), Error);
}

TEST_F(ClassificationTest, TheHalvesOfABatchAreTimedAlone) {
  const v1::Recipe made = recipe();
  const auto train = driver_->bench(made, {"train", 1, 16}, "");
  for (int i = 0; i < 3; ++i) EXPECT_GT(train->run_batch(), 0);
  for (int i = 0; i < 12; ++i) EXPECT_GT(train->load_batch(), 0);
  for (int i = 0; i < 12; ++i) EXPECT_GT(train->compute_batch(), 0);
  const auto infer = driver_->bench(made, {"infer", 1, 8}, "");
  EXPECT_GT(infer->run_batch(), 0);
  EXPECT_EQ(infer->load_batch(), 0) << "nothing is loaded in its span";
  EXPECT_EQ(infer->compute_batch(), 0);
}

}  // namespace
}  // namespace reciperun
