// Two runs against each other: the tests of a report with the first run in the place of the
// published side, and what makes runs incomparable.
#include "tools/recipe_run/report/comparison.h"

#include <gmock/gmock.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include "tools/recipe_run/recipe/digest.h"
#include "tools/recipe_run/report/report.h"
#include "tools/recipe_run/util/text.h"

namespace reciperun {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

v1::Recipe toy_recipe(const std::string& more = "") {
  v1::Recipe recipe;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(R"(schema: 1 id: "toy/run"
    model { arch: "toy" hparam { key: "width" value: "3" } }
    data { id: "train" role: "train" lock: "toy" pipeline { op: "scale" arg { key: "by" value: "2" } } }
    training { epochs: 4 batch_per_device: 32 optimizer { name: "sgd" lr: 0.1 } }
    trials { count: 3 }
    bench { id: "infer" mode: INFER batch: [4] measure_steps: 20 repeats: 7 }
    expect { id: "em" metric: "em" unit: "%" direction: HIGHER margin { absolute: 0.3 } single { v: 87 } decimals: 2 gate: true }
    expect { id: "em.sd" metric: "em:sd" unit: "%" direction: LOWER }
    expect { id: "em.max" metric: "em:max" unit: "%" direction: HIGHER }
    expect { id: "rate" bench: "infer" metric: "throughput" unit: "img/s" direction: HIGHER scope { batch: 4 } }
    )",
                                                            &recipe));
  google::protobuf::TextFormat::Parser parser;
  EXPECT_TRUE(parser.MergeFromString(more, &recipe));
  return recipe;
}

Side side(const std::string& run, const std::vector<double>& em, const std::vector<double>& rates,
          const v1::Recipe& recipe = toy_recipe()) {
  Measurements measured;
  for (const double value : em) {
    Trial trial;
    trial.metrics = {{"em", value / 100}};
    measured.trials.push_back(trial);
  }
  BenchResult bench;
  bench.bench = "infer";
  bench.batch = 4;
  for (const double rate : rates) bench.repeats.push_back({rate, {}});
  if (!rates.empty()) measured.benches.push_back(bench);
  Side out;
  out.run.set_id(run);
  out.run.set_recipe(recipe.id());
  out.run.set_exec_digest(exec_digest(recipe));
  out.run.set_device("a machine");
  out.run.set_machine("a machine");
  out.run.set_engine("toy 1.0");
  out.recipe = recipe;
  out.rows = make_rows(recipe, measured);
  return out;
}

const Row& row(const Comparison& c, const std::string& id) {
  for (const Row& r : c.rows) {
    if (r.id == id) return r;
  }
  throw std::out_of_range(id);
}

// The worked examples of the reproducibility rules: ELECTRA's EM, five published seeds.
const std::vector<double> kPublished = {87.18, 86.90, 87.20, 87.02, 86.81};

TEST(CompareTest, MeansAreJudgedAsAgainstPublishedOnes) {
  const Comparison c =
      compare_runs(side("a", kPublished, {}), side("b", {86.80, 86.95, 86.71}, {}));
  const Row& em = row(c, "em");
  EXPECT_EQ(em.judgement.verdict, Verdict::kWithinTolerance) << em.judgement.reason;
  EXPECT_EQ(em.published, "87.02 ± 0.17");
  EXPECT_EQ(em.measured, "86.82 ± 0.12");
  EXPECT_EQ(em.delta, "\u22120.20");
  EXPECT_EQ(em.margin, "±0.30");
  EXPECT_TRUE(c.differences.empty());
  EXPECT_EQ(c.exit, Exit::kOk);
}

TEST(CompareTest, AWorseRunDiffersAndDecidesTheExitCode) {
  const Comparison c =
      compare_runs(side("a", kPublished, {}), side("b", {86.35, 86.52, 86.41, 86.60, 86.47}, {}));
  EXPECT_EQ(row(c, "em").judgement.verdict, Verdict::kDiffersWorse);
  EXPECT_NEAR(*row(c, "em").judgement.p, 0.0006, 0.0002);
  EXPECT_EQ(c.exit, Exit::kDiffers);
}

TEST(CompareTest, OneRunAgainstOneIsNeverReproduced) {
  const Comparison same = compare_runs(side("a", {87.0}, {}), side("b", {87.0}, {}));
  EXPECT_EQ(row(same, "em").judgement.verdict, Verdict::kWithinTolerance);
  EXPECT_EQ(row(same, "em").note, "equal to the last digit in both runs");
  const Comparison far = compare_runs(side("a", {87.0}, {}), side("b", {80.0}, {}));
  EXPECT_EQ(row(far, "em").judgement.verdict, Verdict::kInconclusive);
  EXPECT_EQ(far.exit, Exit::kUndecided);
}

TEST(CompareTest, OneRunAgainstSeveralUsesThePredictionInterval) {
  const Comparison c = compare_runs(side("a", kPublished, {}), side("b", {86.7}, {}));
  EXPECT_EQ(row(c, "em").judgement.verdict, Verdict::kConsistent);
  EXPECT_THAT(row(c, "em").judgement.reason, HasSubstr("95 % prediction interval"));
}

TEST(CompareTest, SpreadsAndExtremesOfSeeds) {
  const Comparison c =
      compare_runs(side("a", kPublished, {}), side("b", {85.0, 87.0, 89.5, 83.0, 88.0}, {}));
  EXPECT_EQ(row(c, "em.sd").judgement.verdict, Verdict::kDiffersWorse);
  EXPECT_EQ(row(c, "em.max").judgement.verdict, Verdict::kDiffersBetter);
  EXPECT_EQ(row(c, "em.max").margin, "");
}

TEST(CompareTest, RepeatsAreComparedByTheirRatios) {
  const std::vector<double> first = {392.24, 393.53, 391.77, 390.09, 392.63, 392.85, 391.58};
  std::vector<double> second;
  for (const double rate : first) second.push_back(0.9 * rate);
  const Comparison c = compare_runs(side("a", {}, first), side("b", {}, second));
  const Row& rate = row(c, "rate");
  EXPECT_EQ(rate.judgement.verdict, Verdict::kDiffersWorse) << rate.judgement.reason;
  EXPECT_THAT(rate.judgement.reason, HasSubstr("0.900 times the first run's value"));
  EXPECT_EQ(c.exit, Exit::kOk) << "not a gate row";
  const CompareOptions all{false, true};
  EXPECT_EQ(compare_runs(side("a", {}, first), side("b", {}, second), all).exit, Exit::kDiffers);
  EXPECT_EQ(row(compare_runs(side("a", {}, first), side("b", {}, first)), "rate").judgement.verdict,
            Verdict::kReproduced);
}

TEST(CompareTest, DifferentRecipesAreSaidAndNotJudgedUnasked) {
  const v1::Recipe other = toy_recipe(
      R"(numerics { compute: AMP_BF16 } training { epochs: 8 } model { hparam { key: "depth" value: "2" } })");
  const auto compared = [&](bool despite) {
    return compare_runs(side("a", kPublished, {}), side("b", kPublished, {}, other),
                        {despite, false});
  };
  const Comparison c = compared(false);
  EXPECT_EQ(row(c, "em").judgement.verdict, Verdict::kNotComparable);
  const std::string text = console_text(document_of(c));
  EXPECT_THAT(text, HasSubstr("training.epochs: 4 → 8"));
  EXPECT_THAT(text, HasSubstr("numerics.compute: unset → AMP_BF16"));
  EXPECT_THAT(text, HasSubstr("model.hparam.depth: unset → \"2\""));
  EXPECT_EQ(row(compared(true), "em").judgement.verdict, Verdict::kReproduced);
}

TEST(CompareTest, TimingsOnAnotherMachineAreNotCompared) {
  const std::vector<double> rates = {392.24, 393.53, 391.77, 390.09, 392.63, 392.85, 391.58};
  Side other = side("b", kPublished, rates);
  other.run.set_machine("another machine");
  other.run.set_device("another machine");
  const Comparison c = compare_runs(side("a", kPublished, rates), other);
  EXPECT_EQ(row(c, "rate").judgement.verdict, Verdict::kNotComparable);
  EXPECT_EQ(row(c, "em").judgement.verdict, Verdict::kReproduced);
}

TEST(CompareTest, NoiseOnEitherSideIsInvalid) {
  const std::vector<double> rates = {392.24, 393.53, 391.77, 390.09, 392.63, 392.85, 391.58};
  Side noisy = side("b", {}, rates);
  for (Row& r : noisy.rows) r.unfit = "noise: steal 9 %";
  const Comparison c = compare_runs(side("a", {}, rates), noisy);
  EXPECT_EQ(row(c, "rate").judgement.verdict, Verdict::kInvalid);
  EXPECT_THAT(row(c, "rate").judgement.reason, HasSubstr("second run: noise: steal 9 %"));
}

TEST(CompareTest, RowsOfOneSideOnly) {
  const std::string more = R"(expect { id: "f1" metric: "f1" unit: "%" direction: HIGHER })";
  const Comparison c =
      compare_runs(side("a", kPublished, {}, toy_recipe(more)), side("b", kPublished, {}));
  EXPECT_THAT(c.unmatched, ElementsAre("'f1' stands only in the first run's recipe",
                                       "1 row was measured in neither run"));
  const Comparison half =
      compare_runs(side("a", kPublished, {}), side("b", kPublished, {392, 393}));
  EXPECT_EQ(row(half, "rate").judgement.verdict, Verdict::kNotRun);
  EXPECT_EQ(row(half, "rate").judgement.reason, "not measured in the first run");
}

TEST(CompareTest, AReportSaysAllThatAComparisonNeeds) {
  Report report;
  report.recipe = toy_recipe();
  report.run.set_id("b");
  report.run.set_recipe("toy/run");
  report.run.set_exec_digest(exec_digest(report.recipe));
  report.run.set_device("a machine");
  report.run.set_machine("a machine");
  report.run.set_engine("toy 1.0");
  report.rows = side("b", {86.80, 86.95, 86.71}, {}).rows;
  const fs::path file = fs::path(::testing::TempDir()) / "compare_report.json";
  write_file_atomic(file, json_report(report));
  const Comparison direct =
      compare_runs(side("a", kPublished, {}), side("b", {86.80, 86.95, 86.71}, {}));
  const Comparison read = compare_runs(side("a", kPublished, {}), side_of_report(file));
  EXPECT_TRUE(read.differences.empty());
  EXPECT_EQ(console_text(document_of(direct)), console_text(document_of(read)));
  write_file_atomic(file, R"({"run": "b", "recipe": 3})");
  EXPECT_THROW(side_of_report(file), Error);
  write_file_atomic(file, "{");
  EXPECT_THROW(side_of_report(file), Error);
}

TEST(CompareTest, EveryFormatSaysTheSame) {
  const Comparison c =
      compare_runs(side("a", kPublished, {}), side("b", {86.80, 86.95, 86.71}, {}));
  google::protobuf::Struct json;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(json_comparison(c), &json).ok());
  const auto& first = json.fields().at("row").list_value().values(0).struct_value().fields();
  EXPECT_EQ(first.at("published").string_value(), "87.02 ± 0.17");
  EXPECT_EQ(first.at("measured").string_value(), "86.82 ± 0.12");
  for (const std::string& text : {console_text(document_of(c)), markdown_text(document_of(c)),
                                  html_text(document_of(c)), junit_text(document_of(c))}) {
    EXPECT_THAT(text, HasSubstr("86.82 ± 0.12"));
    EXPECT_THAT(text, HasSubstr("87.02 ± 0.17"));
    EXPECT_THAT(text, Not(HasSubstr("published")));
  }
  EXPECT_THAT(html_text(document_of(c)), Not(HasSubstr("<script")));
}

}  // namespace
}  // namespace reciperun
