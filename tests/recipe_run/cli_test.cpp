// The command line: exit codes and what is said.
#include "tools/recipe_run/cli/app.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/recipe_run/toy_driver.h"
#include "tools/recipe_run/util/file.h"

namespace reciperun {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class CliTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(::testing::TempDir()) /
            ("cli_" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::remove_all(root_);
    put("0.930");
  }

  // A recipe whose published value is `value`, in a tab-separated source.
  void put(const std::string& value) {
    const std::string table = "name\tscore\ntoy\t" + value + "\n";
    write_file_atomic(root_ / "recipes/sources/t.tsv", table);
    write_file_atomic(root_ / "recipes/recipe.proto", "");
    write_file_atomic(root_ / "recipes/toy/run.textproto",
                      R"(schema: 1 id: "toy/run" version: "1.0.0" title: "A toy"
model { arch: "toy" } data { id: "d" role: "train" lock: "d" split: "train" } data { id: "t" role: "test" lock: "d" }
training { epochs: 4 batch_per_device: 32 optimizer { name: "sgd" lr: 0.1 } } numerics { compute: FP32 }
trials { unit: "seed" seed: [1, 2] count: 2 } evaluation { metric: "accuracy" when: "end" }
source { id: "s" file: "sources/t.tsv" sha256: ")" +
                          sha256_hex(table) + R"(" }
expect { id: "accuracy" metric: "accuracy" unit: "1" direction: HIGHER single { v: )" +
                          value + R"( } gate: true
  margin { absolute: 0.005 } at { source: "s" where { column: "name" equals: "toy" } column: "score" printed: ")" +
                          value + R"(" } }
free_override: "trials" free_override: "io"
)");
  }

  int call(std::vector<std::string> words) {
    words.insert(words.begin(), {"recipe-run", "--recipes", (root_ / "recipes").string()});
    std::vector<const char*> argv;
    for (const std::string& word : words) argv.push_back(word.c_str());
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    const int code = run_app(static_cast<int>(argv.size()), argv.data(),
                             [&](const std::string& device, uint32_t) {
                               toy_.device = device;
                               return std::make_unique<ToyDriver>(toy_);
                             },
                             {});
    out_ = ::testing::internal::GetCapturedStdout();
    err_ = ::testing::internal::GetCapturedStderr();
    return code;
  }
  int run(std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"run", "toy/run", "--runs", (root_ / "runs").string()});
    return call(more);
  }

  fs::path root_;
  Toy toy_;
  std::string out_;
  std::string err_;
};

TEST_F(CliTest, RunReportsAndReportRepeats) {
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(out_, HasSubstr("REPRODUCED"));
  EXPECT_THAT(out_, HasSubstr("report.html"));
  EXPECT_THAT(err_, HasSubstr("trial 2 of 2"));
  EXPECT_EQ(run(), 0);
  EXPECT_EQ(toy_.starts, 2);
  EXPECT_EQ(call({"report", "--runs", (root_ / "runs").string(), "--format", "markdown"}), 0);
  EXPECT_THAT(out_, HasSubstr("**REPRODUCED**"));
  EXPECT_EQ(run({"--seeds", "3"}), 0);
  EXPECT_EQ(toy_.starts, 3);
}

TEST_F(CliTest, ExitCodes) {
  put("0.700");
  EXPECT_EQ(run(), 0) << "far better than published is not a failure";
  put("0.990");
  EXPECT_EQ(run({"--new"}), 1);
  EXPECT_THAT(out_, HasSubstr("DIFFERS (worse)"));
  put("0.930");
  EXPECT_EQ(run({"--set", "training.epochs=1", "--require"}), 4);
  EXPECT_EQ(run({"--set", "training.epochs=1"}), 0);
  EXPECT_THAT(out_, HasSubstr("NOT COMPARABLE"));
  toy_.nan_seed = 2;
  EXPECT_EQ(run({"--new"}), 5);
  EXPECT_EQ(run({"--set", "training.epoch=1"}), 2);
  EXPECT_THAT(err_, HasSubstr("did you mean 'epochs'?"));
  EXPECT_EQ(run({"--set", "training.epochs=-1"}), 2);
  EXPECT_THAT(err_, HasSubstr("--set: training.epochs: needs steps or epochs, greater than 0"));
  EXPECT_EQ(call({"run"}), 2);
  EXPECT_EQ(call({"fly"}), 2);
  write_file_atomic(root_ / "recipes/sources/t.tsv", "name\tscore\ntoy\t0.931\n");
  EXPECT_EQ(run(), 8);
  EXPECT_EQ(call({"plan", "toy/run"}), 8);
}

TEST_F(CliTest, MissingDataAreATableOfRowsNotRun) {
  toy_.missing_data = "there is no folder data/d; make it with: dataset-convert d";
  EXPECT_EQ(run(), 4);
  EXPECT_THAT(out_, HasSubstr("accuracy"));
  EXPECT_THAT(out_, HasSubstr("NOT RUN: there is no folder data/d; make it with"));
  EXPECT_FALSE(fs::exists(root_ / "runs"));
  EXPECT_EQ(call({"list"}), 0);
  EXPECT_THAT(out_, HasSubstr("there is no folder data/d\n"));
}

TEST_F(CliTest, AModelThatTheEngineRefusesIsToldWithItsLine) {
  toy_.refused_model = "unknown key \"wdith\"; did you mean \"width\"?";
  EXPECT_EQ(run({"--set", "model.hparam.width=3", "--set", "model.hparam.wdith=3"}), 2);
  EXPECT_THAT(err_, HasSubstr("--set: model.hparam.wdith: unknown key"));
  toy_.refused_model = "too large";
  EXPECT_EQ(run(), 2);
  EXPECT_THAT(err_, HasSubstr("run.textproto:2:9: model: too large"));
}

TEST_F(CliTest, TwoRunsAreCompared) {
  EXPECT_EQ(run(), 0);
  EXPECT_EQ(run({"--new"}), 0);
  std::vector<std::string> runs;
  for (const auto& entry : fs::directory_iterator(root_ / "runs")) {
    if (entry.is_directory()) runs.push_back(entry.path().string());
  }
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(call({"compare", runs[0], runs[1]}), 0);
  EXPECT_THAT(out_, HasSubstr("Same recipe, machine and engine."));
  EXPECT_THAT(out_, HasSubstr("REPRODUCED"));
  EXPECT_THAT(out_, HasSubstr("equal to the last digit in both runs"));
  EXPECT_EQ(call({"compare", runs[0] + "/report/report.json", runs[1], "--format", "html"}), 0);
  EXPECT_THAT(out_, HasSubstr("<!doctype html>"));
  EXPECT_EQ(call({"compare", runs[0], runs[0]}), 2);
  EXPECT_EQ(call({"compare", runs[0], "nowhere"}), 2);
  EXPECT_EQ(call({"report", runs[0], "--with", runs[1], "--tight"}), 0);
  EXPECT_THAT(out_, Not(HasSubstr("written to")));
  EXPECT_EQ(call({"report", runs[0], "--format", "junit"}), 0);
  EXPECT_THAT(out_, HasSubstr("<testsuites"));
}

TEST_F(CliTest, DataAreLockedAndVerified) {
  write_file_atomic(root_ / "sets/d/train.txt", "12345");
  write_file_atomic(root_ / "sets/d/more/labels.txt", "1");
  const auto data = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "data");
    return call(words);
  };
  const std::string sets = (root_ / "sets").string();
  EXPECT_EQ(data({"verify", "d", "--data", sets}), 2);
  EXPECT_THAT(err_, HasSubstr("'recipe-run data lock d' puts it there"));
  EXPECT_EQ(data({"lock", "d", "--data", sets, "--quiet"}), 0);
  EXPECT_THAT(out_, HasSubstr("train    5 samples, content 12345"));
  EXPECT_EQ(data({"verify", "--data", sets}), 0);
  EXPECT_THAT(out_, HasSubstr("d: as locked, file by file"));
  write_file_atomic(root_ / "sets/d/train.txt", "12344");
  write_file_atomic(root_ / "sets/d/more/other.txt", "1");
  fs::remove(root_ / "sets/d/more/labels.txt");
  EXPECT_EQ(data({"verify", "d", "--data", sets}), 6);
  EXPECT_THAT(out_, HasSubstr("split train has other records"));
  EXPECT_THAT(out_, HasSubstr("file train.txt has another SHA-256"));
  EXPECT_THAT(out_, HasSubstr("file more/labels.txt is missing"));
  EXPECT_THAT(out_, HasSubstr("file more/other.txt is not in the lock"));
  EXPECT_EQ(data({"verify", "--data", (root_ / "nowhere").string()}), 6) << "nothing was compared";
  EXPECT_THAT(out_, HasSubstr("d: not here"));
  EXPECT_EQ(data({"verify", "nothing", "--data", sets}), 2);
  EXPECT_THAT(err_, HasSubstr("it has: d"));
  EXPECT_EQ(run({"--data", sets}), 6) << "the run is refused, and says which split differs";
  EXPECT_THAT(err_, HasSubstr("split train"));
}

TEST_F(CliTest, FewerSeedsAreNotAModification) {
  EXPECT_EQ(run({"--seeds", "1"}), 0);
  EXPECT_EQ(toy_.starts, 1);
  EXPECT_THAT(out_, ::testing::Not(HasSubstr("NOT COMPARABLE")));
  EXPECT_EQ(run({"--emulate-devices", "8"}), 2);
  EXPECT_THAT(err_, HasSubstr("cannot emulate 8 devices"));
  EXPECT_EQ(run({"--emulate-devices", "1"}), 2);
}

TEST_F(CliTest, EachDeviceHasItsOwnRun) {
  EXPECT_EQ(run(), 0);
  EXPECT_EQ(toy_.device, "cpu");
  toy_.gpu = "Toy GPU";
  EXPECT_EQ(run({"--device", "cuda:1"}), 0);
  EXPECT_EQ(toy_.device, "cuda:1");
  EXPECT_EQ(toy_.starts, 4) << "the first run is not continued on another device";
  EXPECT_THAT(out_, HasSubstr("Toy GPU, "));
  EXPECT_EQ(run({"--device", "cuda:1"}), 0);
  EXPECT_EQ(run(), 0);
  EXPECT_EQ(toy_.starts, 4) << "both are finished";
  EXPECT_EQ(call({"plan", "toy/run", "--device", "cuda:0"}), 0);
  EXPECT_EQ(toy_.device, "cuda:0");
  EXPECT_THAT(out_, HasSubstr("Toy GPU"));
}

TEST_F(CliTest, ATamperedRecordIsRefused) {
  EXPECT_EQ(run(), 0);
  const fs::path folder = fs::directory_iterator(root_ / "runs")->path().filename() == ".lock"
                              ? std::next(fs::directory_iterator(root_ / "runs"))->path()
                              : fs::directory_iterator(root_ / "runs")->path();
  EXPECT_EQ(call({"verify", folder.string()}), 0);
  EXPECT_THAT(out_, HasSubstr("held against SHA256SUMS"));
  EXPECT_THAT(out_, HasSubstr("all as recorded"));
  const std::string seal = read_file(folder / "SHA256SUMS");
  fs::remove(folder / "SHA256SUMS");
  EXPECT_EQ(call({"verify", folder.string()}), 7);
  EXPECT_THAT(out_, HasSubstr("there is no SHA256SUMS\n"));
  write_file_atomic(folder / "SHA256SUMS", seal);
  const fs::path metrics = folder / "trials/seed-0001/metrics.json";
  std::string text = read_file(metrics);
  const size_t digit = text.find("0.93") + 3;
  text[digit] = '4';
  write_file_atomic(metrics, text);
  EXPECT_EQ(call({"report", folder.string()}), 7);
  EXPECT_THAT(err_, HasSubstr("trials/seed-0001/metrics.json"));
  EXPECT_EQ(call({"verify", folder.string()}), 7);
  EXPECT_THAT(out_, HasSubstr("DIFFERS     trials/seed-0001/metrics.json"));
  write_file_atomic(metrics, "{\"seed\": 1,");
  EXPECT_EQ(call({"report", folder.string()}), 7);
}

TEST_F(CliTest, SourcesAreVerified) {
  EXPECT_EQ(call({"sources", "verify"}), 0);
  EXPECT_THAT(out_,
              HasSubstr("1 published values of 1 recipes; 0 of 0 result cells claimed, each once"));
  EXPECT_THAT(out_, HasSubstr("All are as printed."));
  write_file_atomic(root_ / "recipes/sources/t.tsv", "name\tscore\ntoy\t0.931\n");
  EXPECT_EQ(call({"sources", "verify"}), 8);
  EXPECT_THAT(out_, HasSubstr("run.textproto:"));
  EXPECT_THAT(out_, HasSubstr("has digest"));
  EXPECT_THAT(out_, HasSubstr("accuracy: the source prints '0.931', the recipe says '0.930'"));
}

TEST_F(CliTest, WhatTheEngineLacksIsNotRun) {
  toy_.why_not = "no model 'toy'";
  EXPECT_EQ(run(), 4);
  EXPECT_THAT(out_, HasSubstr("NOT RUN: no model 'toy'"));
  EXPECT_THAT(out_, HasSubstr("0.930"));
  EXPECT_FALSE(fs::exists(root_ / "runs"));
  toy_.has_model = false;
  EXPECT_EQ(call({"list"}), 0);
  EXPECT_THAT(out_, HasSubstr("1 not at all"));
}

TEST_F(CliTest, ABaseCanNeitherBePlannedNorRunNorSuggested) {
  write_file_atomic(root_ / "recipes/toy/rum.textproto",
                    R"(schema: 1 id: "toy/rum" version: "1.0.0" abstract: true)");
  EXPECT_EQ(call({"plan", "toy/rum"}), 2);
  EXPECT_THAT(err_, HasSubstr("only a base for other recipes"));
  EXPECT_EQ(call({"run", "toy/rum"}), 2);
  EXPECT_EQ(call({"plan", "toy/rumm"}), 2);
  EXPECT_THAT(err_, HasSubstr("did you mean 'toy/run'?"));
}

TEST_F(CliTest, ListSaysWhereRowsCanBeJudged) {
  EXPECT_EQ(call({"list"}), 0);
  EXPECT_THAT(out_, HasSubstr("1 recipe;"));
  EXPECT_THAT(out_, HasSubstr("\ntoy\n"));
  EXPECT_THAT(out_, HasSubstr("toy/run  2 seeds   1 here\n"));
  EXPECT_EQ(call({"list", "toy", "--json"}), 0);
  EXPECT_THAT(out_, HasSubstr("\"here\": 1"));
  EXPECT_EQ(call({"list", "nothing"}), 2);
  EXPECT_THAT(err_, HasSubstr("no recipe has 'nothing' in its id"));
  toy_.missing_data = "there is no folder data/d; make it";
  EXPECT_EQ(call({"list"}), 0);
  EXPECT_THAT(out_, HasSubstr("1 with its data; there is no folder data/d\n"));
}

TEST_F(CliTest, ASmokeRunAnswersInOneLine) {
  EXPECT_EQ(run({"--smoke"}), 0);
  EXPECT_THAT(out_, HasSubstr("It trains: 40 steps, loss "));
  EXPECT_THAT(out_, HasSubstr("and it was evaluated."));
  EXPECT_THAT(out_, Not(HasSubstr("NOT COMPARABLE")));
}

TEST_F(CliTest, HelpListShowPlan) {
  EXPECT_EQ(call({"--help"}), 0);
  EXPECT_THAT(out_, HasSubstr("Begin with:"));
  EXPECT_THAT(out_, HasSubstr("Exit codes:"));
  EXPECT_EQ(call({"list"}), 0);
  EXPECT_THAT(out_, HasSubstr("toy/run"));
  EXPECT_EQ(call({"show", "toy/run", "training.optimizer", "--set", "training.optimizer.lr=0.2"}),
            0);
  EXPECT_THAT(out_, HasSubstr("training.optimizer.lr = 0.2    --set\n    hides 0.1"));
  EXPECT_EQ(call({"show", "toy/run", "training.optimiser"}), 2);
  EXPECT_EQ(call({"plan", "toy/run"}), 0);
  EXPECT_THAT(out_, HasSubstr("no published spread"));
  EXPECT_EQ(call({"plan", "--help"}), 0);
  EXPECT_THAT(out_, HasSubstr("Examples:\n  recipe-run plan fashion_mnist"));
  EXPECT_THAT(out_, Not(HasSubstr("recipe-run list")));
  EXPECT_EQ(call({"data", "--help"}), 0);
  EXPECT_THAT(out_, HasSubstr("Examples:\n  recipe-run data lock"));
  EXPECT_THAT(out_, Not(HasSubstr("Exit codes:")));
  EXPECT_EQ(call({"--version"}), 0);
  EXPECT_EQ(out_, "recipe-run, toy 1.0\n");
  EXPECT_EQ(call({"verfy"}), 2);
  EXPECT_THAT(err_, HasSubstr("did you mean \"verify\"?"));
}

}  // namespace
}  // namespace reciperun
