// An edit anywhere in a run is found by the checksums, and where these were made anew, by the
// verdicts.
#include "tools/recipe_run/report/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/recipe_run/toy_driver.h"
#include "tools/recipe_run/record/seal.h"
#include "tools/recipe_run/report/report.h"
#include "tools/recipe_run/run/runner.h"
#include "tools/recipe_run/util/error.h"
#include "tools/recipe_run/util/file.h"

namespace reciperun {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kRecipe[] = R"(schema: 1 id: "toy/run" version: "1.0.0" model { arch: "toy" }
data { id: "train" role: "train" lock: "toy" } data { id: "test" role: "test" lock: "toy" }
training { epochs: 4 batch_per_device: 32 checkpoint_every_steps: 7 optimizer { name: "sgd" lr: 0.1 } }
numerics { compute: FP32 } trials { unit: "seed" seed: [1, 2] derive_root: 9 count: 2 max_count: 9 }
evaluation { metric: "accuracy" metric: "loss" select: LAST when: "every:1epoch" }
bench { id: "infer" mode: INFER batch: [1] warmup_steps: 2 measure_steps: 40 repeats: 2 }
source { id: "paper" title: "a table" }
expect { id: "accuracy" metric: "accuracy" unit: "1" direction: HIGHER single { v: 0.930 } at { source: "paper" } margin { absolute: 0.005 } gate: true }
free_override: "trials.count"
)";

class RunCheckTest : public ::testing::Test {
 protected:
  void SetUp() override {
    toy_.shards = 2;
    root_ =
        fs::path(::testing::TempDir()) /
        ("verify_" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::remove_all(root_);
    write_file_atomic(root_ / "recipes/toy/run.textproto", kRecipe);
    toy_.stop = &stop_;
    folder_ = run().folder;
    report();
  }

  RunOutcome run(const std::vector<std::string>& sets = {}) {
    ToyDriver driver(toy_);
    std::FILE* log = std::tmpfile();
    Progress progress(log, false);
    RunOptions options;
    options.runs = root_ / "runs";
    RunOutcome outcome = run_recipe(load_recipe({root_ / "recipes", "toy/run"}, sets), options,
                                    driver, progress, stop_);
    std::fclose(log);
    return outcome;
  }

  void report() const {
    RunRecord run = record();
    write_reports(run, make_report(run));
    run.close(run.info().status(), result_index(make_report(run)));
  }
  RunRecord record() const { return RunRecord::open(folder_); }
  std::vector<std::string> problems() const {
    try {
      return check_run(record()).problems;
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), Exit::kTampered) << error.what();
      return {error.what()};
    }
  }

  std::vector<fs::path> files() const {
    std::vector<fs::path> out;
    for (const auto& entry : fs::recursive_directory_iterator(folder_))
      if (entry.is_regular_file() && entry.path().parent_path().filename() != "report")
        out.push_back(entry.path());
    return out;
  }
  void replace(const std::string& file, const std::string& from, const std::string& to) const {
    std::string text = read_file(folder_ / file);
    ASSERT_NE(text.find(from), std::string::npos) << file;
    write_file_atomic(folder_ / file, text.replace(text.find(from), from.size(), to));
  }
  // What a forger does who knows the format: the seal of the changed files.
  void seal_anew() const { write_seal(folder_, covered_digests(folder_)); }

  fs::path root_;
  fs::path folder_;
  Toy toy_;
  std::atomic<bool> stop_{false};
};

TEST_F(RunCheckTest, AWholeRunIsWhole) {
  const RunCheck check = check_run(record());
  EXPECT_THAT(check.problems, IsEmpty());
  EXPECT_GT(check.files, 10);
  EXPECT_EQ(check.rows, 1);
  EXPECT_EQ(run().folder, folder_);
  EXPECT_EQ(run({"trials.count=3"}).folder, folder_) << "a sealed run can be topped up";
  report();
  EXPECT_THAT(check_run(record()).problems, IsEmpty());
}

// In every file that is sealed, text or not, digits throughout.
TEST_F(RunCheckTest, AnEditedDigitAnywhereIsFound) {
  constexpr size_t kEditsPerFile = 3;
  for (const fs::path& file : files()) {
    const std::string whole = read_file(file);
    std::vector<size_t> digits;
    for (size_t i = 0; i < whole.size(); ++i)
      if (whole[i] >= '0' && whole[i] <= '9') digits.push_back(i);
    const size_t stride = std::max<size_t>(1, digits.size() / kEditsPerFile);
    for (size_t d = 0; d < digits.size(); d += stride) {
      std::string edited = whole;
      edited[digits[d]] = edited[digits[d]] == '9' ? '0' : static_cast<char>(edited[digits[d]] + 1);
      write_file_atomic(file, edited);
      EXPECT_THAT(problems(), Not(IsEmpty())) << file << " at " << digits[d];
    }
    write_file_atomic(file, whole);
  }
  EXPECT_THAT(problems(), IsEmpty());
}

TEST_F(RunCheckTest, MissingAndAddedFilesAreFound) {
  write_file_atomic(folder_ / "trials/seed-0003/metrics.json",
                    read_file(folder_ / "trials/seed-0002/metrics.json"));
  EXPECT_THAT(problems(), Contains("trials/seed-0003/metrics.json was added after the run"));
  fs::remove_all(folder_ / "trials/seed-0003");
  fs::remove_all(folder_ / "trials/seed-0002");
  EXPECT_THAT(problems(), Contains("trials/seed-0002/metrics.json is missing"));
}

TEST_F(RunCheckTest, ARunWithoutItsSealIsNoSealedRun) {
  fs::remove(folder_ / kSealFile);
  EXPECT_THAT(problems(), Contains(HasSubstr("SHA256SUMS is missing")));
  EXPECT_THROW(record().require_intact(), Error);
}

TEST_F(RunCheckTest, AnEditUnderANewSealContradictsTheRecordedVerdict) {
  for (const char* trial : {"seed-0001", "seed-0002"}) {
    std::string text = read_file(folder_ / "trials" / trial / "metrics.json");
    for (size_t at = 0; (at = text.find("0.9", at)) != std::string::npos;) text[at + 2] = '8';
    write_file_atomic(folder_ / "trials" / trial / "metrics.json", text);
  }
  seal_anew();
  EXPECT_THAT(problems(), Contains(HasSubstr("row accuracy is recorded as REPRODUCED")));
}

TEST_F(RunCheckTest, AnEditedRunIsNeitherContinuedNorToppedUp) {
  replace("bench/infer-d1-b1/rep-2/result.json", "\"steps\": 40", "\"steps\": 41");
  try {
    run({"trials.count=3"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), Exit::kTampered);
    EXPECT_THAT(error.what(), HasSubstr("bench/infer-d1-b1/rep-2/result.json"));
  }
}

// After a kill nothing closed the run; what was sealed before still is.
TEST_F(RunCheckTest, ResultsSealedBeforeAKillStaySealed) {
  toy_.crash_at = 20;
  EXPECT_THROW(run({"trials.count=3"}), Killed);
  toy_.crash_at = -1;
  EXPECT_TRUE(record().is_running());
  EXPECT_THAT(problems(), IsEmpty());
  const std::string whole = read_file(folder_ / "trials/seed-0001/metrics.json");
  replace("trials/seed-0001/metrics.json", "0.9", "0.8");
  EXPECT_THROW(run({"trials.count=3"}), Error);
  write_file_atomic(folder_ / "trials/seed-0001/metrics.json", whole);
  EXPECT_EQ(run({"trials.count=3"}).exit, Exit::kOk);
  report();
  EXPECT_THAT(problems(), IsEmpty());
}

}  // namespace
}  // namespace reciperun
