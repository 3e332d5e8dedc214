// A model of text through the driver, on made-up sentences: from words to evaluations by name.
#include <assay/assay_data.h>
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>

#include "tools/recipe_run/assay/driver.h"
#include "tools/recipe_run/assay/objects.h"
#include "tools/recipe_run/util/error.h"

namespace reciperun {
namespace {

using engine::call;
using engine::text;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

// Letters are words; a sentence goes up the alphabet, so that masked letters can be told.
std::string letters() {
  std::string lines = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  for (char c = 'a'; c <= 'z'; ++c) lines += {c, '\n'};
  return lines;
}
std::string documents() {
  std::string lines;
  for (int document = 0; document < 40; ++document) {
    for (int sentence = 0; sentence < 4; ++sentence) {
      for (int word = 0; word < 5; ++word)
        lines += {static_cast<char>('a' + (document * 5 + sentence * 6 + word) % 26), ' '};
      lines += '\n';
    }
    lines += '\n';
  }
  return lines;
}

class TextRecipeTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    root_ = fs::path(::testing::TempDir()) / ("text_" + std::to_string(getpid()));
    write_file_atomic(root_ / "source" / "text.txt", documents());
    write_file_atomic(root_ / "vocabulary", letters());
    assay_context* context = nullptr;
    call(Exit::kCrashed, assay_context_create, nullptr, nullptr, nullptr, size_t{0}, &context);
    const engine::Context owner(context);
    const std::string from = (root_ / "source").string();
    const std::string to = (root_ / "bert_pretraining_16").string();
    const std::string keys =
        R"({"max_length": 16, "max_predictions": 3, "held_out": 4, "vocabulary": ")" +
        (root_ / "vocabulary").string() + "\"}";
    call(Exit::kCrashed, assay_dataset_convert, context, text("bert_pretraining"), text(from),
         text(to), text(keys), nullptr, uintptr_t{0}, nullptr);
  }
  static void TearDownTestSuite() { fs::remove_all(root_); }

  static v1::Recipe recipe(const std::string& pipeline =
                               R"(pipeline { op: "tokens" arg { key: "length" value: "16" }
                                             arg { key: "slots" value: "3" } })") {
    v1::Recipe recipe;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        R"(id: "test/bert" model { arch: "bert_base" init: "truncated_normal_0.02"
             hparam { key: "vocabulary" value: "31" } hparam { key: "layers" value: "1" }
             hparam { key: "hidden" value: "16" } hparam { key: "heads" value: "2" }
             hparam { key: "inner" value: "32" } hparam { key: "dropout" value: "0" }
             hparam { key: "attention_dropout" value: "0" } }
           data { id: "train" role: "train" lock: "bert_pretraining_16" split: "train" )" +
            pipeline + R"( }
           data { id: "test" role: "test" lock: "bert_pretraining_16" split: "test" )" +
            pipeline + R"( }
           training { steps: 200 batch_per_device: 16
             optimizer { name: "adamw" lr: 0.01 no_decay: "layer_norm" no_decay: "bias" }
             schedule { kind: "constant" } }
           evaluation { evaluator: "masked_words" evaluator_version: "1" metric: "mlm_loss"
             metric: "masked_accuracy" when: "end" batch: 8 }
           bench { id: "train" mode: TRAIN batch: 16 input: "real" timing_span: "load+compute" }
           io { data_root: ")" +
            root_.string() + R"(" workers: 1 })",
        &recipe));
    return recipe;
  }
  std::string refusal(const v1::Recipe& made) {
    try {
      driver_->check(made);
    } catch (const Error& error) {
      return std::string(error.what()) + " | " + error.hint();
    }
    return "";
  }

  static fs::path root_;
  std::unique_ptr<TrainerDriver> driver_ = make_assay_driver("cpu", 1);
};
fs::path TextRecipeTest::root_;

TEST_F(TextRecipeTest, LearnsWhichLettersFollow) {
  ASSERT_EQ(refusal(recipe()), "");
  const auto trial = driver_->start(recipe(), 1);
  EXPECT_THAT(trial->metrics(), UnorderedElementsAre("loss", "masked_accuracy", "mlm_loss",
                                                     "next_sentence_accuracy", "nsp_loss"));
  const auto evaluate = [&] { return trial->evaluate([](double) { return true; }).metric(); };
  const auto before = evaluate();
  EXPECT_NEAR(before.at("mlm_loss"), std::log(31.0), 0.2);  // as good as a guess
  EXPECT_NEAR(before.at("loss"), before.at("mlm_loss") + before.at("nsp_loss"), 1e-4);
  for (int i = 0; i < 200; ++i) trial->run_step();
  const auto after = evaluate();
  // Better than what knowing how frequent each letter is gives.
  EXPECT_LT(after.at("mlm_loss"), std::log(26.0) - 0.5);
  EXPECT_GT(after.at("masked_accuracy"), 3.0 / 26);
}

TEST_F(TextRecipeTest, BenchesTakeAsManyTensorsAsTheModelWants) {
  const v1::Recipe made = recipe();
  const auto bench = driver_->bench(made, {.bench = "train", .devices = 1, .batch = 16}, {});
  EXPECT_GT(bench->run_batch(), 0);
  EXPECT_EQ(bench->items_per_batch(), 16);
}

TEST_F(TextRecipeTest, ShapesOfBatchesArePinned) {
  EXPECT_THAT(refusal(recipe("")), HasSubstr("does not say how long its sequences are"));
  EXPECT_THAT(refusal(recipe(R"(pipeline { op: "tokens" arg { key: "length" value: "32" }
                                           arg { key: "slots" value: "3" } })")),
              HasSubstr("length"));
  EXPECT_THAT(refusal(recipe(R"(pipeline { op: "scale" arg { key: "by" value: "1" } })")),
              HasSubstr("'scale' is not offered by this engine for such data | tokens"));
  v1::Recipe accuracy = recipe();
  accuracy.mutable_evaluation()->set_metric(0, "accuracy");
  EXPECT_THAT(refusal(accuracy), HasSubstr("does not measure 'accuracy' of such a model"));
}

}  // namespace
}  // namespace reciperun
