// A run in other tools' formats: well formed, and saying what the report says.
#include "tools/recipe_run/export/export.h"

#include <gmock/gmock.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include "tests/recipe_run/toy_driver.h"
#include "tools/recipe_run/base/sha256.h"
#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/run/runner.h"

namespace reciperun {
namespace {

using google::protobuf::Struct;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr char kRecipe[] = R"(schema: 1 id: "toy/run" version: "1.0.0" model { arch: "resnet50" }
data { id: "train" role: "train" lock: "toy" expect_samples: 320 } data { id: "test" role: "test" lock: "toy" expect_samples: 64 }
training { epochs: 4 batch_per_device: 32 accumulate: 2 optimizer { name: "sgd" lr: 0.1 } }
numerics { compute: FP32 } trials { unit: "seed" seed: [7, 8] count: 2 }
evaluation { metric: "accuracy" metric: "loss" select: LAST when: "every:1epoch" }
bench { id: "infer" mode: INFER batch: [4] warmup_steps: 1 measure_steps: 20 repeats: 3 }
source { id: "paper" title: "a table" }
expect { id: "accuracy" metric: "accuracy" unit: "1" direction: HIGHER single { v: 0.930 } at { source: "paper" } margin { absolute: 0.005 } gate: true }
expect { id: "too_good" metric: "accuracy" unit: "1" direction: HIGHER single { v: 0.999 } at { source: "paper" } margin { absolute: 0.005 } gate: true }
expect { id: "rate" bench: "infer" metric: "throughput" unit: "img/s" direction: HIGHER scope { batch: 4 } }
)";

Struct parsed(const std::string& text) {
  Struct out;
  EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(text, &out).ok()) << text;
  return out;
}

class ExportTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ =
        fs::path(::testing::TempDir()) /
        ("export_" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::remove_all(root_);
    write_file_atomic(root_ / "recipes/toy/run.textproto", kRecipe);
    std::FILE* log = std::tmpfile();
    Progress progress(log, false);
    ToyDriver driver(toy_);
    RunOptions options;
    options.runs = root_ / "runs";
    folder_ =
        run_recipe(load_recipe({root_ / "recipes", "toy/run"}), options, driver, progress, stop_)
            .folder;
    std::fclose(log);
  }
  RunRecord record() const { return RunRecord::open(folder_); }
  fs::path trial() const { return record().trial_folder(7); }

  // The objects after `token`, one for each line.
  static std::vector<Struct> lines(const std::string& text, const std::string& token) {
    std::vector<Struct> out;
    for (const std::string& line : split(text, '\n')) {
      if (line.empty()) continue;
      EXPECT_EQ(line.rfind(token, 0), 0u) << line;
      out.push_back(parsed(line.substr(token.size())));
    }
    return out;
  }

  fs::path root_;
  fs::path folder_;
  Toy toy_;
  std::atomic<bool> stop_{false};
};

TEST_F(ExportTest, AttestationsNameTheResultsAndTheRows) {
  const Report report = make_report(record());
  const Struct tests = parsed(test_result_statement(record(), report));
  EXPECT_EQ(tests.fields().at("_type").string_value(), "https://in-toto.io/Statement/v1");
  std::map<std::string, std::string> digests;
  for (const auto& subject : tests.fields().at("subject").list_value().values()) {
    const auto& fields = subject.struct_value().fields();
    digests[fields.at("name").string_value()] =
        fields.at("digest").struct_value().fields().at("sha256").string_value();
  }
  EXPECT_EQ(digests.at("trials/seed-0007/metrics.json"), sha256_of_file(trial() / "metrics.json"));
  EXPECT_TRUE(digests.contains("bench/infer-d1-b4/rep-1/steps.bin"));
  EXPECT_FALSE(digests.contains("run.json"));
  const auto& predicate = tests.fields().at("predicate").struct_value().fields();
  EXPECT_EQ(predicate.at("result").string_value(), "FAILED");
  EXPECT_EQ(predicate.at("passedTests").list_value().values(0).string_value(), "accuracy");
  EXPECT_EQ(predicate.at("failedTests").list_value().values(0).string_value(), "too_good");

  const Struct made = parsed(provenance_statement(record()));
  EXPECT_EQ(made.fields().at("predicateType").string_value(), "https://slsa.dev/provenance/v1");
  const auto& built = made.fields().at("predicate").struct_value().fields();
  const auto& definition = built.at("buildDefinition").struct_value().fields();
  const auto& outer = definition.at("externalParameters").struct_value().fields();
  EXPECT_EQ(outer.at("recipe").string_value(), "toy/run");
  EXPECT_EQ(outer.at("resolved").struct_value().fields().at("id").string_value(), "toy/run");
  const auto& dependency =
      definition.at("resolvedDependencies").list_value().values(0).struct_value().fields();
  EXPECT_EQ(dependency.at("name").string_value(), "recipe toy/run 1.0.0");
  EXPECT_EQ(dependency.at("digest").struct_value().fields().at("sha256").string_value(),
            sha256_of_file(root_ / "recipes/toy/run.textproto"));
}

TEST_F(ExportTest, JunitHasACaseForEveryRow) {
  const Report report = make_report(record());
  const std::string xml = junit_xml(report);
  EXPECT_THAT(xml, HasSubstr(R"(tests="3" failures="1" errors="0" skipped="1")"));
  EXPECT_THAT(xml, HasSubstr(R"(<failure message="DIFFERS (worse))"));
  EXPECT_THAT(xml, HasSubstr(R"(name="accuracy")"));
  Report escaped = report;
  escaped.rows[0].id = "a<b>&\"c\"\x01";
  EXPECT_THAT(junit_xml(escaped), HasSubstr("name=\"a&lt;b&gt;&amp;&quot;c&quot;\""));
}

TEST_F(ExportTest, GoogleBenchmarkHasAnEntryForEveryRepeat) {
  const Struct json = parsed(benchmark_json(make_report(record())));
  const auto& benchmarks = json.fields().at("benchmarks").list_value().values();
  ASSERT_EQ(benchmarks.size(), 3);
  const auto& first = benchmarks[0].struct_value().fields();
  EXPECT_EQ(first.at("name").string_value(), "infer/devices:1/batch:4");
  EXPECT_EQ(first.at("iterations").number_value(), 20);
  EXPECT_EQ(first.at("time_unit").string_value(), "ms");
  EXPECT_NEAR(first.at("real_time").number_value(), 4, 0.05);
  EXPECT_NEAR(first.at("items_per_second").number_value(), 1000, 10);
  EXPECT_EQ(benchmarks[2].struct_value().fields().at("repetition_index").number_value(), 2);
}

TEST_F(ExportTest, MllogNestsRunsBlocksAndEvaluations) {
  const std::vector<Struct> events = lines(mllog_text(record(), trial()), ":::MLLOG ");
  std::vector<std::string> intervals;
  double last = 0;
  for (const Struct& event : events) {
    const auto& fields = event.fields();
    EXPECT_GE(fields.at("time_ms").number_value(), last);
    last = fields.at("time_ms").number_value();
    if (fields.at("event_type").string_value() != "POINT_IN_TIME")
      intervals.push_back(fields.at("key").string_value());
  }
  std::vector<std::string> expected = {"init_start", "init_stop", "run_start"};
  for (int epoch = 0; epoch < 4; ++epoch)
    for (const char* key : {"block_start", "block_stop", "eval_start", "eval_stop"})
      expected.emplace_back(key);
  expected.emplace_back("run_stop");
  EXPECT_EQ(intervals, expected);
  EXPECT_THAT(mllog_text(record(), trial()), HasSubstr(R"("key":"seed","value":7)"));
  EXPECT_THAT(mllog_text(record(), trial()),
              HasSubstr(R"("submission_benchmark","value":"resnet")"));
  EXPECT_THAT(mllog_text(record(), trial()), HasSubstr(R"("global_batch_size","value":64)"));
  EXPECT_THAT(mllog_text(record(), trial()), HasSubstr(R"("key":"train_samples","value":320)"));
  EXPECT_EQ(
      events.back().fields().at("metadata").struct_value().fields().at("status").string_value(),
      "success");
}

TEST_F(ExportTest, DlllEndsWithTheSummary) {
  const std::vector<Struct> events = lines(dlll_text(record(), trial()), "DLLL ");
  EXPECT_EQ(events.front().fields().at("step").string_value(), "PARAMETER");
  const auto& summary = events.back().fields();
  EXPECT_EQ(summary.at("step").list_value().values_size(), 0);
  EXPECT_NEAR(summary.at("data").struct_value().fields().at("accuracy").number_value(), 0.93,
              0.002);
  EXPECT_THAT(dlll_text(record(), trial()), HasSubstr(R"("metric":"val_accuracy")"));
}

TEST_F(ExportTest, FilesGoBelowTheRunAndLeaveItsSealWhole) {
  const RunRecord run = record();
  const Report report = make_report(run);
  EXPECT_THAT(write_export(run, report, "all"), SizeIs(8));
  EXPECT_THAT(write_export(run, report, "junit"), ElementsAre(folder_ / "export/junit.xml"));
  EXPECT_NO_THROW(record().require_intact());
}

}  // namespace
}  // namespace reciperun
