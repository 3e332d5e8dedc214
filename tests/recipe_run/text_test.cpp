// A model of text through the driver, on made-up sentences: from words to evaluations by name.
#include <assay/assay_data.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <vector>

#include "tests/recipe_run/real_engine.h"
#include "tools/recipe_run/assay/objects.h"
#include "tools/recipe_run/util/file.h"

namespace reciperun {
namespace {

using engine::call;
using engine::text;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
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

// Eight questions about the same 16 letters, two windows each: which letter follows this one? In
// version 2.0 those for letters that are not there have no answer.
std::string squad(const std::string& version) {
  const bool second = version == "2.0";
  std::string questions;
  for (int i = 0; i < 8; ++i) {
    const bool impossible = second && i % 2 == 1;
    const char letter = static_cast<char>((impossible ? 'q' : 'a') + i);
    questions +=
        fmt::format(R"({}{{"id": "{}", "question": "{}", {} "answers": [{}]}})", i > 0 ? ", " : "",
                    i, letter, second ? fmt::format(R"("is_impossible": {},)", impossible) : "",
                    impossible ? ""
                               : fmt::format(R"({{"text": "{}", "answer_start": {}}})",
                                             static_cast<char>(letter + 1), 2 * (i + 1)));
  }
  return fmt::format(
      R"({{"version": "{}", "data": [{{"title": "t", "paragraphs": [
          {{"context": "a b c d e f g h i j k l m n o p", "qas": [{}]}}]}}]}})",
      version, questions);
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
        R"({"sequence_length": 16, "prediction_slots": 3, "held_out": 4, "vocabulary": ")" +
        (root_ / "vocabulary").string() + "\"}";
    call(Exit::kCrashed, assay_dataset_convert, context, text("bert_pretraining"), text(from),
         text(to), text(keys), nullptr, uintptr_t{0}, nullptr);
    for (const std::string version : {"1.1", "2.0"}) {
      write_file_atomic(root_ / "source" / ("dev-v" + version + ".json"), squad(version));
      const std::string squads = (root_ / ("squad_v" + version)).string();
      const std::string cuts = R"({"sequence_length": 16, "stride": 4, "max_question": 2,
                                   "version": ")" +
                               version + R"(", "vocabulary": ")" + (root_ / "vocabulary").string() +
                               "\"}";
      call(Exit::kCrashed, assay_dataset_convert, context, text("squad"), text(from), text(squads),
           text(cuts), nullptr, uintptr_t{0}, nullptr);
    }
  }
  static void TearDownTestSuite() { fs::remove_all(root_); }

  static v1::Recipe recipe(const std::string& pipeline =
                               R"(pipeline { op: "tokens" arg { key: "sequence_length" value: "16" }
                                             arg { key: "prediction_slots" value: "3" } })") {
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
  std::string refusal(const v1::Recipe& made) { return refusal_by(*driver_, made); }

  static fs::path root_;
  std::unique_ptr<TrainerDriver> driver_ = make_assay_driver("cpu", 1);
};
fs::path TextRecipeTest::root_;

TEST_F(TextRecipeTest, LearnsWhichLettersFollow) {
  ASSERT_EQ(refusal(recipe()), "");
  const auto trial = driver_->start(recipe(), 1);
  EXPECT_THAT(trial->metrics(), UnorderedElementsAre("loss", "masked_accuracy", "mlm_loss",
                                                     "next_sentence_accuracy", "nsp_loss"));
  const auto evaluate = [&] { return trial->evaluate({}, [](double) { return true; }).metric(); };
  const auto before = evaluate();
  EXPECT_NEAR(before.at("mlm_loss"), std::log(31.0), 0.2);  // as good as a guess
  EXPECT_NEAR(before.at("loss"), before.at("mlm_loss") + before.at("nsp_loss"), 1e-4);
  for (int i = 0; i < 200; ++i) trial->run_step();
  const auto after = evaluate();
  // Better than what knowing how frequent each letter is gives.
  EXPECT_LT(after.at("mlm_loss"), std::log(26.0) - 0.5);
  EXPECT_GT(after.at("masked_accuracy"), 3.0 / 26);
}

TEST_F(TextRecipeTest, SaysHowMissingDataAreMade) {
  v1::Recipe made = recipe(
      R"(pipeline { op: "tokens" arg { key: "sequence_length" value: "16" }
                                 arg { key: "stride" value: "4" } arg { key: "packed" value: "true" } })");
  made.mutable_io()->set_data_root((root_ / "nowhere").string());
  const auto command = [&](const std::string& kind, const std::string& lock) {
    return "dataset-convert " + kind + " --from FOLDER --to " +
           (root_ / "nowhere" / lock).string() +
           " --set vocabulary=FILE --set sequence_length=16 --set stride=4";
  };
  EXPECT_THAT(
      driver_->missing_data(made),
      HasSubstr(command("bert_pretraining", "bert_pretraining_16") + " --set held_out=20 ("));
  made.mutable_data(0)->set_lock("squad_v2.0");
  EXPECT_THAT(driver_->missing_data(made),
              HasSubstr(command("squad", "squad_v2.0") + " --set version=2.0 ("));
}

// A word would be asked for that has no row, or the wrong ones be masked.
TEST_F(TextRecipeTest, RefusesAnotherVocabulary) {
  v1::Recipe made = recipe();
  (*made.mutable_model()->mutable_hparam())["vocabulary"] = "30";
  EXPECT_THAT(refusal(made), AllOf(HasSubstr("its vocabulary has 31 pieces"), HasSubstr("for 30"),
                                   HasSubstr("model.hparam.vocabulary")));
  (*made.mutable_model()->mutable_hparam())["vocabulary"] = "32";
  EXPECT_EQ(refusal(made), "");

  made.mutable_model()->set_arch("electra_base_pretraining");
  for (const char* key : {"generator_hidden", "generator_inner"})
    (*made.mutable_model()->mutable_hparam())[key] = "16";
  const auto takes = [&](const char* key, const char* number) {
    (*made.mutable_model()->mutable_hparam())[key] = number;
    return refusal(made);
  };
  takes("cls", "2"), takes("sep", "3");
  EXPECT_THAT(takes("mask", "5"),
              AllOf(HasSubstr("[MASK] is piece 4 of its vocabulary, the model takes 5 for it"),
                    HasSubstr("model.hparam.mask")));
  EXPECT_THAT(takes("mask", "4"), Not(HasSubstr("vocabulary")));
}

// Two phases of eight steps, each step on the same records, without anything random.
v1::Recipe in_phases(v1::Recipe recipe) {
  recipe.clear_bench();
  recipe.mutable_data()->DeleteSubrange(1, 1);
  recipe.mutable_data(0)->mutable_range()->set_count(16);
  v1::Training& training = *recipe.mutable_training();
  training.set_steps(8);
  training.mutable_optimizer()->set_no_bias_correction(true);
  const v1::Training part = training;
  training.Clear();
  for (const char* name : {"one", "two"}) {
    v1::Phase& phase = *training.add_phase();
    phase.set_name(name);
    *phase.mutable_training() = part;
  }
  recipe.mutable_trials()->set_count(1);
  recipe.mutable_evaluation()->set_evaluator("training_loss");
  recipe.mutable_evaluation()->clear_metric();
  recipe.mutable_evaluation()->add_metric("loss");
  return recipe;
}

std::vector<double> losses_of(TrainingTrial& trial, int64_t until) {
  std::vector<double> losses;
  while (trial.step() < until) losses.push_back(trial.run_step().loss);
  return losses;
}

TEST_F(TextRecipeTest, PhasesGoOnWithWeightsAndMoments) {
  const v1::Recipe phased = in_phases(recipe());
  v1::Recipe whole = phased;
  *whole.mutable_training() = phased.training().phase(0).training();
  whole.mutable_training()->set_steps(16);
  ASSERT_EQ(refusal(phased), "");
  const auto trial = driver_->start(phased, 1);
  EXPECT_EQ(trial->total_steps(), 16);
  EXPECT_EQ(trial->steps_per_epoch(), 1);
  const std::vector<double> losses = losses_of(*trial, 16);
  const std::vector<double> at_once = losses_of(*driver_->start(whole, 1), 16);
  ASSERT_EQ(losses.size(), at_once.size());
  // But for the order in which rows are added.
  for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], at_once[i], 1e-3) << i;
  EXPECT_LT(losses[15], losses[8] - 0.1);

  // The score is the mean of the last ten.
  const auto metrics = trial->evaluate({}, [](double) { return true; }).metric();
  EXPECT_THAT(trial->metrics(), ElementsAre("loss"));
  EXPECT_NEAR(metrics.at("loss"), std::accumulate(losses.begin() + 6, losses.end(), 0.0) / 10,
              1e-12);
}

TEST_F(TextRecipeTest, PhasesGoOnWithTheLossScale) {
  v1::Recipe phased = in_phases(recipe());
  phased.mutable_numerics()->set_compute(v1::Numerics::AMP_BF16);
  phased.mutable_numerics()->set_loss_scale("dynamic:1024/3");
  const auto trial = driver_->start(phased, 1);
  std::vector<double> scales;
  for (const int64_t step : {8, 9, 11}) {
    losses_of(*trial, step);
    trial->save(root_ / "scaled");
    scales.push_back(assay::tools::at(engine::report_of(Exit::kTampered, assay_checkpoint_inspect,
                                                        text((root_ / "scaled").string())),
                                      "loss_scale")
                         .number_value());
  }
  EXPECT_THAT(scales, ElementsAre(4096, 4096, 8192));  // steps 3, 6, and 3 of the second
}

TEST_F(TextRecipeTest, TrialsAreResumedInTheirPhase) {
  const v1::Recipe phased = in_phases(recipe());
  const auto first = driver_->start(phased, 1);
  for (const int64_t stop : {8, 11}) {  // where the second begins, and in it
    losses_of(*first, stop);
    first->save(root_ / "stopped");
    const auto second = driver_->resume(phased, 1, root_ / "stopped");
    EXPECT_EQ(second->step(), stop);
    if (stop == 8) continue;
    StepResult a, b;
    while (first->step() < 16) {
      a = first->run_step(), b = second->run_step();
      EXPECT_EQ(a.loss, b.loss);
      EXPECT_EQ(a.step, b.step);
    }
    EXPECT_EQ(a.samples, 16 * 16);
    EXPECT_EQ(b.samples, 16 * 16);
    const Tick go = [](double) { return true; };
    EXPECT_EQ(first->evaluate({}, go).metric().at("loss"),
              second->evaluate({}, go).metric().at("loss"));
  }
}

TEST_F(TextRecipeTest, PhasesShareTheirOptimizer) {
  v1::Recipe phased = in_phases(recipe());
  v1::Optimizer& other =
      *phased.mutable_training()->mutable_phase(1)->mutable_training()->mutable_optimizer();
  other.Clear();
  other.set_name("sgd");
  other.set_lr(0.1);
  EXPECT_THAT(refusal(phased), HasSubstr("cannot go on with the moments of 'adamw'"));
}

// A model that answers questions of such a version: all of them learned by heart.
v1::Recipe answering(const fs::path& root, const std::string& model, const std::string& version) {
  const std::string pipeline =
      R"(pipeline { op: "tokens" arg { key: "sequence_length" value: "16" }
                    arg { key: "stride" value: "4" } arg { key: "max_question" value: "2" } })";
  v1::Recipe recipe;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"(id: "test/questions" model { )" + model +
          R"( init: "truncated_normal_0.02"
           hparam { key: "vocabulary" value: "31" } hparam { key: "layers" value: "2" }
           hparam { key: "hidden" value: "32" } hparam { key: "heads" value: "2" }
           hparam { key: "inner" value: "64" } hparam { key: "dropout" value: "0" }
           hparam { key: "attention_dropout" value: "0" } }
         data { id: "train" role: "train" lock: "squad_v)" +
          version + R"(" split: "dev" )" + pipeline + R"( }
         data { id: "dev" role: "eval" lock: "squad_v)" +
          version + R"(" split: "dev" )" + pipeline + R"( }
         training { steps: 600 batch_per_device: 8 clip_global_norm: 1
           optimizer { name: "adamw" lr: 0.003 }
           schedule { kind: "constant" } }
         trials { count: 1 }
         evaluation { evaluator: "squad_v)" +
          version + R"(" evaluator_version: ")" + version +
          R"(" metric: "exact_match" metric: "f1" batch: 3 }
         io { data_root: ")" +
          root.string() + R"(" workers: 1 })",
      &recipe));
  return recipe;
}

TEST_F(TextRecipeTest, AnswersQuestions) {
  const std::string electra = R"(arch: "electra_base_qa")";
  for (const auto& [model, version] :
       {std::pair{electra, "1.1"},
        std::pair{electra + R"( hparam { key: "version" value: "\"2.0\"" })", "2.0"}}) {
    v1::Recipe made = answering(root_, model, version);
    if (version == std::string("2.0")) {
      (*made.mutable_evaluation()->mutable_arg())["null_score_threshold"] = "0";
      for (v1::DataRef& data : *made.mutable_data())
        (*data.mutable_pipeline(0)->mutable_arg())["packed"] = "true";
    }
    ASSERT_EQ(refusal(made), "");
    const auto trial = driver_->start(made, 1);
    for (int i = 0; i < 600; ++i) trial->run_step();
    const auto metrics = trial->evaluate(root_, [](double) { return true; }).metric();
    EXPECT_DOUBLE_EQ(metrics.at("exact_match"), 1) << model;
    EXPECT_DOUBLE_EQ(metrics.at("f1"), 1);
    EXPECT_LT(metrics.at("loss"), 0.1);
    EXPECT_THAT(read_file(root_ / "predictions.json"), HasSubstr(R"("0":"b")"));

    // Its checkpoint says what the words are.
    trial->save(root_ / "checkpoint");
    const std::string checkpoint = (root_ / "checkpoint").string();
    EXPECT_NO_THROW(
        engine::made<engine::Text>(Exit::kCrashed, assay_text_create, text(checkpoint), text("")));
  }
}

// As the published fine-tunings read them: in the order of the file, through a small buffer.
TEST_F(TextRecipeTest, LearnsFromAStreamOfWindows) {
  v1::Recipe made = answering(root_, R"(arch: "electra_base_qa")", "1.1");
  v1::DataRef& train = *made.mutable_data(0);
  *train.add_pipeline() = train.pipeline(0);
  train.mutable_pipeline(0)->Clear();
  train.mutable_pipeline(0)->set_op("shuffle_stream");
  (*train.mutable_pipeline(0)->mutable_arg())["buffer_batches"] = "3";
  made.mutable_training()->set_steps(60);
  ASSERT_EQ(refusal(made), "");
  const auto trial = driver_->start(made, 1);
  EXPECT_EQ(trial->total_steps(), 60);
  const double first = trial->run_step().loss;
  for (int i = 1; i < 59; ++i) trial->run_step();
  EXPECT_LT(trial->run_step().loss, first - 0.5);
}

// BERT tells scores of all positions instead of candidates.
TEST_F(TextRecipeTest, AnswersQuestionsByScoresOfPositions) {
  const v1::Recipe made =
      answering(root_, R"(arch: "bert_base" hparam { key: "head" value: "span" })", "1.1");
  ASSERT_EQ(refusal(made), "");
  const auto trial = driver_->start(made, 1);
  trial->run_step();
  const auto metrics = trial->evaluate(root_, [](double) { return true; }).metric();
  EXPECT_LE(metrics.at("exact_match"), metrics.at("f1"));
  const std::string predictions = read_file(root_ / "predictions.json");
  EXPECT_EQ(std::count(predictions.begin(), predictions.end(), ':'), 8);
  EXPECT_THAT(predictions, Not(HasSubstr("\"\"")));  // it always has an answer
}

TEST_F(TextRecipeTest, ScoresTheQuestionsThatWereAsked) {
  v1::Recipe made = answering(root_, R"(arch: "electra_base_qa")", "1.1");
  for (v1::DataRef& data : *made.mutable_data()) {  // windows 3 to 6: questions 2 and 3, half of 1
    data.mutable_range()->set_first(3);
    data.mutable_range()->set_count(5);
  }
  made.mutable_training()->set_batch_per_device(5);
  ASSERT_EQ(refusal(made), "");
  const auto trial = driver_->start(made, 1);
  for (int i = 0; i < 600; ++i) trial->run_step();
  EXPECT_DOUBLE_EQ(trial->evaluate(root_, [](double) { return true; }).metric().at("exact_match"),
                   1);
  const std::string predictions = read_file(root_ / "predictions.json");
  EXPECT_THAT(predictions, AllOf(HasSubstr(R"("2":"d")"), HasSubstr(R"("3":"e")")));
  EXPECT_THAT(predictions, Not(HasSubstr(R"("1":)")));
}

TEST_F(TextRecipeTest, BeginsWithPretrainedBlocks) {
  const std::string model = R"(arch: "electra_base_qa")";
  v1::Recipe made = answering(root_, model, "1.1");
  made.mutable_training()->mutable_optimizer()->set_layerwise_lr_decay(0.8);
  made.mutable_model()->set_pretrained("weights");
  v1::Recipe timed = made;
  timed.mutable_trials()->set_count(0);
  EXPECT_EQ(refusal(timed), "");
  EXPECT_THAT(refusal(made), HasSubstr("there are no weights 'weights'"));

  const v1::Recipe scratch = answering(root_, model, "1.1");
  fs::create_directories(root_ / "weights");
  driver_->start(scratch, 7)->save(root_ / "weights" / "checkpoint");
  const auto differing = [&](const v1::Recipe& recipe) {
    driver_->start(recipe, 1)->save(root_ / "begun");
    const std::string a = (root_ / "weights" / "checkpoint").string();
    const std::string b = (root_ / "begun").string();
    std::set<std::string> names;
    for (const auto& tensor : engine::objects_of(
             engine::report_of(Exit::kCrashed, assay_checkpoint_diff, text(a), text(b)), "tensors"))
      names.insert(engine::name_of(tensor));
    return names;
  };
  const std::string words = "electra.embeddings.word_embeddings.weight";
  EXPECT_TRUE(differing(scratch).contains(words));
  ASSERT_EQ(refusal(made), "");
  made.mutable_model()->set_pretrained_sha256(std::string(64, '0'));
  EXPECT_THAT(refusal(made), HasSubstr("checkpoint: its SHA-256 is "));
  made.mutable_model()->set_pretrained_sha256(sha256_of_file(root_ / "weights" / "checkpoint"));
  ASSERT_EQ(refusal(made), "");
  EXPECT_FALSE(differing(made).contains(words));
  made.mutable_model()->clear_pretrained_sha256();
  // Names as another program has them, in a file of weights.
  const std::string from = (root_ / "weights" / "checkpoint").string();
  const std::string to = (root_ / "weights" / "model.safetensors").string();
  const std::string map =
      R"({"rules": [{"file": "theirs.*", "model": "electra.*"}], "partial": true})";
  engine::report_of(Exit::kCrashed, assay_checkpoint_convert, text(from), text(to),
                    text("safetensors"), text(map), int32_t{0});
  EXPECT_THAT(refusal(made), HasSubstr("no tensor of the file has the name"));
  write_file_atomic(root_ / "weights" / "names.json", map);
  ASSERT_EQ(refusal(made), "");
  const std::set<std::string> heads = differing(made);
  EXPECT_FALSE(heads.contains(words));
  EXPECT_TRUE(heads.contains("start_logits.start_logit_pooler_dense.weight"))
      << testing::PrintToString(heads);

  (*made.mutable_model()->mutable_hparam())["inner"] = "48";
  EXPECT_THAT(refusal(made), HasSubstr("has another shape"));
}

// Of every published row of BERT and ELECTRA it can be said what would become of it.
TEST_F(TextRecipeTest, EveryPublishedRecipeIsOffered) {
  const fs::path recipes = fs::path(ASSAY_SOURCE_DIR) / "recipes";
  int checked = 0;
  for (const std::string& id : recipe_ids(recipes)) {
    const bool of_text = id.starts_with("dlperf/bert") || id.starts_with("electra_base/") ||
                         id.starts_with("bert_base/") || id.starts_with("squad/");
    const v1::Recipe published = load_recipe({recipes, id}).recipe;
    if (!of_text || published.abstract()) continue;
    ASSERT_TRUE(driver_->has_model(published)) << id;
    EXPECT_NO_THROW(driver_->check_offered(published)) << id;
    ++checked;
  }
  EXPECT_EQ(checked, 58);
}

TEST_F(TextRecipeTest, RefusesWhatCannotBeScored) {
  const std::string electra = R"(arch: "electra_base_qa")";
  v1::Recipe made = answering(root_, electra, "1.1");
  made.mutable_evaluation()->set_evaluator("squad_v2.0");
  made.mutable_evaluation()->set_evaluator_version("2.0");
  EXPECT_THAT(refusal(made), HasSubstr("are SQuAD 1.1, the evaluator scores 2.0"));
  made = answering(root_, electra, "1.1");
  (*made.mutable_evaluation()->mutable_arg())["shards"] = "2";
  EXPECT_THAT(refusal(made), HasSubstr("evaluation.arg.shards is not offered"));
  made = answering(root_, electra, "1.1");
  made.mutable_data(1)->mutable_range()->set_count(17);
  EXPECT_THAT(refusal(made), HasSubstr("the split has 16"));
  made = answering(root_, electra, "1.1");
  (*made.mutable_data(0)->mutable_pipeline(0)->mutable_arg())["stride"] = "8";
  EXPECT_THAT(refusal(made), HasSubstr("stride"));
}

TEST_F(TextRecipeTest, BenchesTakeAsManyTensorsAsTheModelWants) {
  const v1::Recipe made = recipe();
  const auto bench = driver_->bench(made, {.bench = "train", .devices = 1, .batch = 16}, {});
  EXPECT_GT(bench->run_batch(), 0);
  EXPECT_EQ(bench->items_per_batch(), 16);
}

TEST_F(TextRecipeTest, ShapesOfBatchesArePinned) {
  EXPECT_THAT(refusal(recipe("")), HasSubstr("does not say how long its sequences are"));
  EXPECT_THAT(refusal(recipe(R"(pipeline { op: "tokens" arg { key: "sequence_length" value: "32" }
                                           arg { key: "prediction_slots" value: "3" } })")),
              HasSubstr("length"));
  EXPECT_THAT(refusal(recipe(R"(pipeline { op: "tokens" arg { key: "sequence_length" value: "16" }
                                           arg { key: "prediction_slots" value: "3" }
                                           arg { key: "packed" value: "yes" } })")),
              HasSubstr("packed 'yes' is neither true nor false"));
  EXPECT_THAT(refusal(recipe(R"(pipeline { op: "scale" arg { key: "by" value: "1" } })")),
              HasSubstr("'scale' is not offered by this engine for such data | tokens"));
  v1::Recipe accuracy = recipe();
  accuracy.mutable_evaluation()->set_metric(0, "accuracy");
  EXPECT_THAT(refusal(accuracy), HasSubstr("does not measure 'accuracy' of such a model"));
}

}  // namespace
}  // namespace reciperun
