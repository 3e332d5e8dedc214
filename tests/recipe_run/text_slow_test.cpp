// Every published recipe of BERT and ELECTRA on small real data, and 32 questions of SQuAD by
// heart, as `recipe-run run` has it. Minutes, and the files of SQuAD.
#include <assay/assay_data.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <unistd.h>

#include "tests/data/squad_files.h"
#include "tests/recipe_run/real_engine.h"
#include "tools/recipe_run/assay/objects.h"

namespace reciperun {
namespace {

using engine::call;
using engine::text;
using ::testing::HasSubstr;

const fs::path kRecipes = fs::path(ASSAY_SOURCE_DIR) / "recipes";

// Paragraphs of Wikipedia, each a document.
std::string paragraphs() {
  google::protobuf::Struct file;
  EXPECT_TRUE(
      google::protobuf::util::JsonStringToMessage(assay::test::unpacked_squad("dev-v1.1"), &file)
          .ok());
  std::string text;
  for (const auto& article : file.fields().at("data").list_value().values())
    for (const auto& paragraph :
         article.struct_value().fields().at("paragraphs").list_value().values())
      text += paragraph.struct_value().fields().at("context").string_value() + "\n\n";
  return text;
}

class TextOnRealData : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!assay::test::has_squad()) return;
    root_ = fs::path(::testing::TempDir()) / ("text_slow_" + std::to_string(getpid()));
    write_file_atomic(root_ / "text" / "paragraphs.txt", paragraphs());
    convert("squad", "squad", assay::test::kSquad, "");
    convert("squad", "squad_v1.1", assay::test::kSquad, R"(, "train": "train-v1.1-part.json.gz")");
    convert("squad", "squad_v2.0", assay::test::kSquad,
            R"(, "version": "2.0", "train": "train-v2.0-part.json.gz")");
    const std::string documents = (root_ / "text").string();
    const std::string lines = R"(, "lines": "paragraphs")";
    convert("bert_pretraining", "bert_pretraining_128", documents, lines);
    const std::string electra = "electra_pretraining", corpus = electra + "_wikipedia_bookcorpus_";
    convert(electra, corpus + "128", documents, lines);
    convert(electra, corpus + "512", documents, lines + R"(, "sequence_length": 512)");
  }
  static void TearDownTestSuite() { fs::remove_all(root_); }
  void SetUp() override {
    if (!assay::test::has_squad()) GTEST_SKIP() << assay::test::sample_data() << " is not there";
  }

  static fs::path root_;

 private:
  static void convert(const std::string& name, const std::string& to, const std::string& from,
                      const std::string& more) {
    assay_context* made = nullptr;
    call(Exit::kCrashed, assay_context_create, nullptr, nullptr, nullptr, size_t{0}, &made);
    const engine::Context context(made);
    const std::string target = (root_ / "data" / to).string();
    const std::string keys = R"({"vocabulary": ")" + assay::test::kVocabulary + "\"" + more + "}";
    call(Exit::kCrashed, assay_dataset_convert, context.get(), text(name), text(from), text(target),
         text(keys), nullptr, uintptr_t{0}, nullptr);
  }
};
fs::path TextOnRealData::root_;

TEST_F(TextOnRealData, EveryPublishedRecipeTriesAFewSteps) {
  // One layer of 32 in place of twelve of 768; text, lengths, heads, optimizers and benches as
  // published.
  const std::vector<std::string> small = {"model.hparam.layers=1", "model.hparam.hidden=32",
                                          "model.hparam.heads=2", "model.hparam.inner=64",
                                          "model.expect_parameters=0"};
  const std::vector<std::string> generator = {
      "model.hparam.generator_layers=1", "model.hparam.generator_hidden=16",
      "model.hparam.generator_heads=1", "model.hparam.generator_inner=32"};
  int run = 0;
  for (const std::string& id : recipe_ids(kRecipes)) {
    if (!id.starts_with("dlperf/bert") && !id.starts_with("electra_base/")) continue;
    const v1::Recipe recipe = load_recipe({kRecipes, id}).recipe;
    if (recipe.abstract() || id == "electra_base/small_corpus") continue;
    SCOPED_TRACE(id);
    std::vector<std::string> sets = small;
    if (recipe.model().arch() == "electra_base_pretraining")
      sets.insert(sets.end(), generator.begin(), generator.end());
    const Report report = ran(root_, id, sets, true).report;
    for (const Row& row : report.rows) {
      EXPECT_TRUE(row.judgement.verdict == Verdict::kNotComparable ||
                  row.judgement.verdict == Verdict::kNotRun)
          << row.id;
    }
    EXPECT_THAT(smoke_line(report),
                ::testing::AnyOf(HasSubstr("It trains: "), HasSubstr("It runs: ")));
    ++run;
  }
  EXPECT_EQ(run, 54);
}

TEST_F(TextOnRealData, ThirtyTwoQuestionsByHeart) {
  const auto [folder, report] = ran(root_, "squad/overfit_32", {}, false);
  ASSERT_EQ(report.measurements.trials.size(), 1u);
  const auto& metrics = report.measurements.trials[0].metrics;
  EXPECT_NEAR(metrics.at("exact_match"), 1, 1e-12);
  EXPECT_NEAR(metrics.at("f1"), 1, 1e-12);
  google::protobuf::Struct predictions;
  ASSERT_TRUE(
      google::protobuf::util::JsonStringToMessage(
          read_file(folder / "trials" / report.measurements.trials[0].name / "predictions.json"),
          &predictions)
          .ok());
  EXPECT_EQ(predictions.fields_size(), 32);
}

}  // namespace
}  // namespace reciperun
