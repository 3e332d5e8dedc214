// The lint of the published tables: it finds what is known to be wrong with them, all of it and
// nothing else, and reacts to every number it looks at.
#include "tools/recipe_run/lint/lint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tools/recipe_run/base/file.h"
#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/lint/answers.h"
#include "tools/recipe_run/verdict/published.h"

namespace reciperun::lint {
namespace {

using ::testing::HasSubstr;

const fs::path kRecipes = fs::path(ASSAY_SOURCE_DIR) / "recipes";

std::string line_of(const Finding& finding) {
  return finding.check + "\t" + fs::path(finding.file).stem().string() + "\t" + finding.table +
         "\t" + finding.where;
}

// The known defects: label, then a finding as line_of prints it.
std::vector<std::pair<std::string, std::string>> known_defects() {
  std::vector<std::pair<std::string, std::string>> known;
  for (const std::string& line :
       split(read_file(fs::path(ASSAY_SOURCE_DIR) / "tests/golden/lint_findings.tsv"), '\n')) {
    const size_t tab = line.find('\t');
    if (!line.empty() && line[0] != '#')
      known.emplace_back(line.substr(0, tab), line.substr(tab + 1));
  }
  return known;
}

class LintTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { corpus_ = new Corpus(load_corpus(kRecipes)); }
  static void TearDownTestSuite() {
    delete corpus_;
    corpus_ = nullptr;
  }
  // The corpus with one number changed.
  static Corpus with(const std::string& recipe, const std::string& row, double value) {
    Corpus changed = *corpus_;
    const Printed* number = corpus_->find(recipe, row);
    EXPECT_NE(number, nullptr) << recipe << " " << row;
    changed.numbers[static_cast<size_t>(number - corpus_->numbers.data())].value = value;
    return changed;
  }
  // The findings of `check` in a table.
  static std::vector<Finding> findings(const Corpus& corpus, const std::string& check,
                                       const std::string& table) {
    Findings all = lint_sources(corpus);
    std::erase_if(all, [&](const Finding& f) { return f.check != check || f.table != table; });
    return all;
  }

  static Corpus* corpus_;
};
Corpus* LintTest::corpus_ = nullptr;

TEST_F(LintTest, FindsTheKnownDefectsAndNothingElse) {
  std::vector<std::string> expected;
  for (const auto& [label, line] : known_defects()) expected.push_back(line);
  std::vector<std::string> found;
  for (const Finding& finding : lint_sources(*corpus_)) found.push_back(line_of(finding));
  EXPECT_THAT(found, ::testing::UnorderedElementsAreArray(expected));
}

TEST_F(LintTest, TheRecipesAnswerEveryFinding) {
  for (const Finding& finding : lint_sources(*corpus_))
    EXPECT_NE(answer_to(*corpus_, finding), "") << line_of(finding) << ": " << finding.text;
}

TEST_F(LintTest, AFindingWithoutItsAnswerIsTold) {
  Corpus silent = *corpus_;
  for (auto& [id, recipe] : silent.recipes) {
    for (v1::Expect& expect : *recipe.mutable_expect()) {
      expect.clear_suspect();
      expect.clear_rounding();
      if (expect.has_tail())
        expect.mutable_tail()->mutable_q()->set_def(v1::Quantile::NEAREST_RANK);
      if (expect.has_mean_std()) expect.mutable_mean_std()->clear_std_scale();
      if (expect.has_spread()) expect.mutable_spread()->clear_scale();
      if (expect.has_single()) expect.mutable_single()->clear_n();
      expect.clear_lender();
      expect.clear_spread_from();
    }
    recipe.clear_deviation();
  }
  // The numbers point at the recipes they were read from.
  for (Printed& number : silent.numbers) {
    number.recipe = &silent.recipes.at(number.recipe->id());
    number.expect = find_expectation(*number.recipe, number.expect->id());
  }
  for (const Finding& finding : lint_sources(*corpus_)) {
    if (finding.check == "difference") continue;
    EXPECT_EQ(answer_to(silent, finding), "") << line_of(finding);
  }
}

// A deviation of something else answers nothing.
TEST_F(LintTest, ASentenceIsAnsweredByTheDeviationOfItsSetting) {
  int sentences = 0;
  for (const Finding& finding : lint_sources(*corpus_)) {
    if (finding.check != "text" && finding.check != "settings") continue;
    ++sentences;
    Finding other = finding;
    other.where = "evaluation.batch";
    EXPECT_EQ(answer_to(*corpus_, other), "") << finding.file;
  }
  EXPECT_EQ(sentences, 7);
}

TEST_F(LintTest, EveryDefectOfTheListIsAmongThem) {
  std::set<std::string> labels;
  for (const auto& [label, line] : known_defects()) labels.insert(label);
  for (int i = 1; i <= 25; ++i) EXPECT_EQ(labels.count("L" + std::to_string(i)), 1u) << "L" << i;
}

TEST_F(LintTest, ProposesTheValueOnWhichTwoRatiosAgree) {
  const auto unet = findings(*corpus_, "ratio", "training.dgx_a100");
  ASSERT_EQ(unet.size(), 3u);  // two of ResNet-50, one of U-Net
  EXPECT_THAT(unet[1].text, HasSubstr("both imply 13540"));
  EXPECT_THAT(unet[2].text, HasSubstr("both imply 46.5"));
  const Corpus repaired = with("unet_medical/dgx_a100_tf32_speed", "train.g1.b8", 46.53);
  EXPECT_EQ(findings(repaired, "ratio", "training.dgx_a100").size(), 2u);
}

TEST_F(LintTest, AChangedNumberIsNoticed) {
  EXPECT_TRUE(findings(*corpus_, "ratio", "training.dgx1").empty());
  EXPECT_FALSE(
      findings(with("resnet50_v15/dgx1_amp_speed", "train.g8", 10273), "ratio", "training.dgx1")
          .empty());
  EXPECT_TRUE(findings(*corpus_, "identity", "inference.dgx1").empty());
  EXPECT_FALSE(findings(with("resnet50_v15/dgx1_amp_speed", "latency.b64.mean", 17.98), "identity",
                        "inference.dgx1")
                   .empty());
  EXPECT_FALSE(findings(with("resnet50_v15/dgx1_amp_speed", "latency.b64.p90", 26.0), "equal",
                        "inference.dgx1")
                   .empty());
  EXPECT_TRUE(findings(*corpus_, "order", "inference.dgx1").empty());
  EXPECT_FALSE(
      findings(with("resnet50_v15/dgx1_amp_speed", "infer.b64", 2500), "order", "inference.dgx1")
          .empty());
  EXPECT_TRUE(findings(*corpus_, "time", "accuracy.dgx1").empty());
  EXPECT_FALSE(
      findings(with("resnet50_v15/dgx1_amp_8gpu_90ep", "time", 2.8), "time", "accuracy.dgx1")
          .empty());
  EXPECT_FALSE(findings(with("electra_base/squad11_dgx_a100_tf32_8gpu", "f1", 91.57), "spread",
                        "squad.dgx_a100")
                   .empty());
  EXPECT_TRUE(
      findings(with("electra_base/squad11_dgx2_fp32_16gpu", "f1", 92.58), "spread", "squad.dgx2")
          .empty());
}

TEST_F(LintTest, OneOddStepExplainsTheBatchesWithAnIncompleteOne) {
  const auto found = findings(*corpus_, "identity", "inference.dgx_a100.amp");
  ASSERT_EQ(found.size(), 2u);  // of ELECTRA and of U-Net
  EXPECT_THAT(found[1].text, HasSubstr("one odd step of 671 ms among 201"));
  EXPECT_THAT(found[1].text, HasSubstr("20.82 ms for the others"));
  EXPECT_THAT(found[1].text, HasSubstr("standard error of 3.23 ms (the 99 % column says 3.23)"));
}

}  // namespace
}  // namespace reciperun::lint
