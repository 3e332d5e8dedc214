// Running a recipe with a toy engine: results, interruption, resume, top-up, failures, and the
// record they leave.
#include "tools/recipe_run/run/runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "tests/recipe_run/toy_driver.h"
#include "tools/recipe_run/judge/rows.h"
#include "tools/recipe_run/recipe/digest.h"
#include "tools/recipe_run/record/logs.h"
#include "tools/recipe_run/record/seal.h"
#include "tools/recipe_run/run/bench_runner.h"
#include "tools/recipe_run/run/trial_runner.h"
#include "tools/recipe_run/util/error.h"
#include "tools/recipe_run/util/json.h"

namespace reciperun {
namespace {

using ::testing::HasSubstr;

constexpr char kRecipe[] = R"(schema: 1
id: "toy/run"
version: "1.0.0"
model { arch: "toy" }
data { id: "train" role: "train" lock: "toy" }
data { id: "test" role: "test" lock: "toy" }
training { epochs: 4 batch_per_device: 32 checkpoint_every_steps: 7 optimizer { name: "sgd" lr: 0.1 } }
numerics { compute: FP32 }
trials { unit: "seed" seed: [1, 2] derive_root: 9 count: 2 max_count: 9 }
evaluation { metric: "accuracy" metric: "loss" select: LAST when: "every:1epoch" }
bench { id: "infer" mode: INFER batch: [1, 8] warmup_steps: 2 measure_steps: 400 repeats: 7 }
source { id: "paper" title: "a table" }
expect { id: "accuracy" metric: "accuracy" unit: "1" direction: HIGHER single { v: 0.930 } at { source: "paper" } margin { absolute: 0.005 } gate: true }
expect { id: "latency" bench: "infer" metric: "latency" unit: "ms" direction: LOWER scope { batch: 8 } quantile { p: 0.9 def: NEAREST_RANK } }
free_override: "trials.count"
)";

class RunTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(::testing::TempDir()) /
            ("run_" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::remove_all(root_);
    write_file_atomic(root_ / "recipes/toy/run.textproto", kRecipe);
    log_ = std::tmpfile();
    toy_.stop = &stop_;
  }
  void TearDown() override { std::fclose(log_); }

  ResolvedRecipe recipe(const std::vector<std::string>& sets = {}) {
    return load_recipe({root_ / "recipes", "toy/run"}, sets);
  }
  RunOutcome run(const std::string& runs = "runs", const std::vector<std::string>& sets = {}) {
    ToyDriver driver(toy_);
    Progress progress(log_, false);
    RunOptions options;
    options.runs = root_ / runs;
    options.benches = benches_;
    options.top_up = top_up_;
    options.place = place_;
    return run_recipe(recipe(sets), options, driver, progress, stop_);
  }
  // The run as it would be if this part of it had never been measured.
  static void leave_out(const fs::path& folder, const std::string& part) {
    fs::remove_all(folder / part);
    write_seal(folder, covered_digests(folder));
  }
  Measurements measured(const fs::path& folder) { return RunRecord::open(folder).measurements(); }

  fs::path root_;
  std::FILE* log_ = nullptr;
  Toy toy_;
  std::atomic<bool> stop_{false};
  bool benches_ = true;
  bool top_up_ = false;
  RunPlace place_;
};

TEST_F(RunTest, TrainsEvaluatesMeasuresAndRecords) {
  const RunOutcome outcome = run();
  EXPECT_EQ(outcome.exit, Exit::kOk);
  const RunRecord record = RunRecord::open(outcome.folder);
  EXPECT_EQ(record.info().status(), "finished");
  const Measurements m = record.measurements();
  ASSERT_EQ(m.trials.size(), 2u);
  EXPECT_EQ(m.trials[0].loss_curve.size(), 40u);
  EXPECT_EQ(m.trials[0].metric_curve.size(), 4u);
  EXPECT_EQ(m.trials[0].segments, 1);
  ASSERT_EQ(m.benches.size(), 2u);
  EXPECT_EQ(m.benches[0].repeats.size(), 7u);
  EXPECT_EQ(m.benches[0].repeats[0].step_seconds.size(), 400u);
  const std::vector<Row> rows = make_rows(record.recipe(), m);
  EXPECT_EQ(rows[0].judgement.verdict, Verdict::kReproduced);
  EXPECT_THAT(rows[1].measured, HasSubstr("8.0"));
  const std::string events = read_file(outcome.folder / "trials/seed-0001/events.jsonl");
  EXPECT_GT(std::count(events.begin(), events.end(), '\n'), 8);
  for (const char* file : {"recipe.resolved.json", "recipe.lock", "env/machine.json"}) {
    EXPECT_TRUE(fs::exists(outcome.folder / file)) << file;
  }
}

TEST_F(RunTest, BestAndLastEvaluationAreBothKept) {
  bool apart = false;
  for (const Trial& trial : measured(run().folder).trials) {
    double best = 0;
    for (const CurvePoint& point : trial.metric_curve) best = std::max(best, point.y);
    EXPECT_DOUBLE_EQ(trial.metrics.at("accuracy.best"), best);
    EXPECT_DOUBLE_EQ(trial.metrics.at("accuracy.last"), trial.metric_curve.back().y);
    EXPECT_DOUBLE_EQ(trial.metrics.at("loss.best"), 0.2);
    apart = apart || best > trial.metric_curve.back().y;
  }
  EXPECT_TRUE(apart);  // otherwise nothing would have been told apart
}

TEST_F(RunTest, CalledAgainItOnlyReports) {
  const RunOutcome first = run();
  const RunOutcome second = run();
  EXPECT_EQ(first.folder, second.folder);
  EXPECT_EQ(toy_.starts, 2);
  EXPECT_EQ(toy_.resumes, 0);
}

TEST_F(RunTest, MoreSeedsTopUpTheSameRun) {
  const RunOutcome first = run();
  const RunOutcome more = run("runs", {"trials.count=4"});
  EXPECT_EQ(first.folder, more.folder);
  EXPECT_EQ(toy_.starts, 4);
  std::set<uint64_t> seeds;
  for (const Trial& trial : measured(more.folder).trials) seeds.insert(trial.seed);
  EXPECT_EQ(seeds.size(), 4u);
}

TEST_F(RunTest, OtherDataAreAnotherRun) {
  place_.data = {{"d/train", "12"}};
  const RunOutcome first = run();
  place_.data = {{"d/train", "13"}};
  const RunOutcome other = run();
  EXPECT_NE(first.folder, other.folder);
  EXPECT_EQ(RunRecord::open(other.folder).place(), place_);
  EXPECT_EQ(toy_.starts, 4);
  place_.data = {{"d/train", "12"}};
  EXPECT_EQ(run().folder, first.folder);
  EXPECT_EQ(toy_.starts, 4);
}

TEST_F(RunTest, AModifiedRecipeIsAnotherRunAndNotComparable) {
  const RunOutcome plain = run();
  const RunOutcome modified = run("runs", {"training.epochs=2"});
  EXPECT_NE(plain.folder, modified.folder);
  const RunRecord record = RunRecord::open(modified.folder);
  EXPECT_EQ(make_rows(record.recipe(), record.measurements())[0].judgement.verdict,
            Verdict::kNotComparable);
}

// A reduced recipe's own rows are judged as whoever wrote it says; a measured row stays one.
TEST_F(RunTest, ARecipeMayDeclareThatItIsNotComparable) {
  const std::string text = kRecipe;
  const auto declared = [&](const std::string& more) {
    write_file_atomic(root_ / "recipes/toy/run.textproto",
                      text +
                          R"(deviation { path: "model" source_has: "12 layers" we_have: "2 layers"
                                            effect: "a weaker model" )" +
                          more + "}\n");
    const RunRecord record = RunRecord::open(run("declared" + more).folder);
    return make_rows(record.recipe(), record.measurements());
  };
  EXPECT_EQ(declared("")[0].judgement.verdict, Verdict::kReproduced);
  const std::vector<Row> rows = declared("not_comparable: true");
  EXPECT_EQ(rows[0].judgement.verdict, Verdict::kNotComparable);
  EXPECT_EQ(rows[0].judgement.reason, "modified by the recipe: 2 layers");
  EXPECT_EQ(rows[1].judgement.verdict, Verdict::kNoPublishedValue);
}

TEST_F(RunTest, StoppedBySignalItSavesAndContinuesToTheSameResult) {
  const Measurements straight = measured(run("straight").folder);
  toy_.stop_at = 23;
  try {
    run();
    FAIL() << "not interrupted";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), Exit::kInterrupted);
  }
  toy_.stop_at = -1;
  stop_ = false;
  const Measurements resumed = measured(run().folder);
  EXPECT_EQ(toy_.resumes, 1);
  ASSERT_EQ(resumed.trials.size(), straight.trials.size());
  EXPECT_EQ(resumed.trials[0].segments, 2);
  EXPECT_EQ(resumed.trials[1].segments, 1);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(resumed.trials[i].metrics, straight.trials[i].metrics);
    ASSERT_EQ(resumed.trials[i].loss_curve.size(), straight.trials[i].loss_curve.size());
    for (size_t s = 0; s < 40; ++s)
      EXPECT_EQ(resumed.trials[i].loss_curve[s].y, straight.trials[i].loss_curve[s].y);
  }
}

TEST_F(RunTest, AStopEndsAnEvaluationWithinABatchAndItIsMadeUpFor) {
  benches_ = false;
  const Measurements straight = measured(run("straight").folder);
  const int batches = toy_.evaluated_batches;
  for (const int evaluation : {2, 4}) {  // while training, and after the last step
    toy_.evaluations = toy_.evaluated_batches = 0;
    toy_.stop_in_evaluation = evaluation;
    const std::string runs = "runs" + std::to_string(evaluation);
    try {
      run(runs);
      FAIL() << "not interrupted";
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), Exit::kInterrupted);
    }
    EXPECT_EQ(toy_.evaluated_batches, 10 * (evaluation - 1) + 3);
    toy_.stop_in_evaluation = -1;
    stop_ = false;
    const Measurements resumed = measured(run(runs).folder);
    EXPECT_EQ(toy_.evaluated_batches, batches + 3) << "only the stopped one is evaluated again";
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(resumed.trials[i].metrics, straight.trials[i].metrics);
      ASSERT_EQ(resumed.trials[i].metric_curve.size(), straight.trials[i].metric_curve.size());
    }
  }
}

TEST_F(RunTest, KilledAtAnyStepItContinuesToTheSameResult) {
  benches_ = false;
  const Measurements straight = measured(run("straight").folder);
  for (int64_t at = 1; at <= 40; at += 4) {
    toy_.crash_at = at;
    const std::string runs = "killed" + std::to_string(at);
    EXPECT_THROW(run(runs), Killed);
    toy_.crash_at = -1;
    const Measurements resumed = measured(run(runs).folder);
    EXPECT_EQ(resumed.trials[0].metrics, straight.trials[0].metrics) << at;
    EXPECT_EQ(resumed.trials[0].metric_curve.size(), 4u) << at;
    ASSERT_EQ(resumed.trials[0].loss_curve.size(), 40u) << at;
    for (size_t s = 0; s < 40; ++s)
      EXPECT_EQ(resumed.trials[0].loss_curve[s].y, straight.trials[0].loss_curve[s].y);
  }
}

TEST_F(RunTest, TheBestCheckpointIsKept) {
  benches_ = false;
  const std::vector<std::string> best = {"evaluation.select=BEST_OVER_EVALS", "trials.count=2"};
  const auto kept = [](const fs::path& run, const std::string& seed) {
    return read_file(run / "trials" / seed / "best");
  };
  const fs::path straight = run("straight", best).folder;
  bool before_the_end = false;
  for (const Trial& trial : measured(straight).trials) {
    const auto highest =
        std::max_element(trial.metric_curve.begin(), trial.metric_curve.end(),
                         [](const CurvePoint& a, const CurvePoint& b) { return a.y < b.y; });
    int64_t step = 0;
    std::memcpy(&step, kept(straight, trial.name).data(), sizeof step);
    EXPECT_EQ(step, std::lround(10 * highest->x)) << trial.name;
    before_the_end = before_the_end || step < toy_.total;
  }
  EXPECT_TRUE(before_the_end);  // otherwise the last one would do
  for (int64_t at = 1; at <= 40; at += 3) {
    const std::string runs = "killed" + std::to_string(at);
    toy_.crash_at = at;
    EXPECT_THROW(run(runs, best), Killed);
    toy_.crash_at = -1;
    const fs::path resumed = run(runs, best).folder;
    EXPECT_EQ(kept(resumed, "seed-0001"), kept(straight, "seed-0001")) << at;
  }
  EXPECT_FALSE(fs::exists(run("last").folder / "trials/seed-0001/best"));
}

TEST_F(RunTest, FailuresAreRecordedAndTheRestGoesOn) {
  toy_.nan_seed = 1;
  const RunOutcome outcome = run("runs");
  EXPECT_EQ(outcome.exit, Exit::kCrashed);
  const Measurements m = measured(outcome.folder);
  EXPECT_EQ(m.trials[0].failure, "loss is NaN at step 6");
  EXPECT_EQ(m.trials[1].failure, "");
  const std::vector<Row> rows = make_rows(recipe().recipe, m);
  EXPECT_EQ(rows[0].measured_n, "1");
  EXPECT_THAT(rows[0].note, HasSubstr("1 of 2 trials failed"));
  const Measurements oom = measured(run("oom", {"bench.infer.batch=[8, 13]"}).folder);
  ASSERT_EQ(oom.benches.size(), 2u);
  EXPECT_EQ(oom.benches[0].failure, "does not fit into memory");
  EXPECT_EQ(oom.benches[1].failure, "");
}

TEST_F(RunTest, AMissingRepeatIsMeasuredAgain) {
  const RunOutcome first = run();
  for (const char* repeat : {"bench/infer-d1-b1/rep-1", "bench/infer-d1-b8/rep-3"}) {
    leave_out(first.folder, repeat);
    run();
    EXPECT_TRUE(fs::exists(first.folder / repeat / "result.json")) << repeat;
  }
}

TEST_F(RunTest, ConfigurationsForMoreDevicesWaitForThem) {
  const std::vector<std::string> sets = {"bench.infer.devices=[1, 2]"};
  EXPECT_EQ(measured(run("runs", sets).folder).benches.size(), 2u);
  const int batches = toy_.batches;
  run("runs", sets);
  EXPECT_EQ(toy_.batches, batches) << "nothing is left that one device can do";
  toy_.devices = 2;
  EXPECT_EQ(measured(run("runs", sets).folder).benches.size(), 4u);
}

// A full disk, missing data: no result of the measurement, and gone tomorrow.
TEST_F(RunTest, WhatTheSurroundingsSpoilIsNotRecordedAsAResult) {
  toy_.disk_full = true;
  try {
    run();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), Exit::kCrashed);
    EXPECT_THAT(error.what(), HasSubstr("the disk is full"));
  }
  toy_.disk_full = false;
  const RunOutcome outcome = run();
  EXPECT_EQ(outcome.exit, Exit::kOk);
  const Measurements m = measured(outcome.folder);
  ASSERT_EQ(m.benches.size(), 2u);
  for (const BenchResult& b : m.benches) {
    EXPECT_EQ(b.failure, "");
    EXPECT_EQ(b.repeats.size(), 7u);
  }
  EXPECT_EQ(toy_.starts, 2) << "the trials were kept";
}

TEST_F(RunTest, TheProbeTellsOfAMachineThatChanges) {
  const auto check = [&](const fs::path& folder) {
    const auto record = measured(folder);
    for (const NoiseCheck& c : record.benches[0].noise) {
      if (c.name == "A/A probe") return c.level;
    }
    ADD_FAILURE() << "no probe";
    return NoiseLevel::kQuiet;
  };
  const RunOutcome outcome = run();
  EXPECT_EQ(check(outcome.folder), NoiseLevel::kQuiet);
  leave_out(outcome.folder, "bench/infer-d1-b1/rep-1");
  toy_.probe_seconds *= 1.02;
  run();
  EXPECT_EQ(check(outcome.folder), NoiseLevel::kWarn);
  leave_out(outcome.folder, "bench/infer-d1-b1/rep-2");
  toy_.probe_seconds *= 1.02;
  run();
  EXPECT_EQ(check(outcome.folder), NoiseLevel::kBlock);
}

// The published list is as wide as the margin: two trials cannot decide.
TEST_F(RunTest, TopUpAddsTrialsWhileARowIsUndecided) {
  benches_ = false;
  std::string text = kRecipe;
  const std::string old_value =
      "single { v: 0.930 } at { source: \"paper\" } margin { absolute: 0.005 }";
  const auto with_margin = [&](const std::string& margin) {
    std::string changed = text;
    changed.replace(
        changed.find(old_value), old_value.size(),
        "sample { v: [0.929, 0.931, 0.930] } at { source: \"paper\" } margin { absolute: " +
            margin + " }");
    write_file_atomic(root_ / "recipes/toy/run.textproto", changed);
  };
  top_up_ = true;
  with_margin("0.05");
  EXPECT_EQ(measured(run("easy").folder).trials.size(), 2u) << "decided at once";
  with_margin("0.0001");
  const RunOutcome hard = run("hard");
  EXPECT_EQ(measured(hard.folder).trials.size(), 9u) << "never decided, ends at max_count";
  const RunRecord record = RunRecord::open(hard.folder);
  const auto& looks = record.info().look();
  EXPECT_EQ(std::vector<uint32_t>(looks.begin(), looks.end()), (std::vector<uint32_t>{2, 6, 9}));
  EXPECT_EQ(measured(hard.folder).level, 0.015);
  const int starts = toy_.starts;
  run("hard");
  EXPECT_EQ(toy_.starts, starts) << "nothing more to do";
}

// A recipe without room for more trials spends everything at its first look. Seeds that are asked
// for later cannot show equivalence by what is already spent.
TEST_F(RunTest, SeedsThatWereNotPlannedHaveNothingToSpend) {
  benches_ = false;
  const std::vector<std::string> no_room = {"trials.max_count=0"};
  const RunOutcome first = run("runs", no_room);
  EXPECT_EQ(measured(first.folder).level, 0.05);
  const RunOutcome more = run("runs", {"trials.max_count=0", "trials.count=4"});
  ASSERT_EQ(more.folder, first.folder);
  const Measurements m = measured(more.folder);
  EXPECT_EQ(m.trials.size(), 4u);
  EXPECT_EQ(m.level, 0);
  const record::Run info = RunRecord::open(more.folder).info();
  EXPECT_THAT(std::vector<double>(info.look_level().begin(), info.look_level().end()),
              ::testing::ElementsAre(0.05, 0));
}

TEST_F(RunTest, OfManyChangesARowNamesTheFirst) {
  benches_ = false;
  EXPECT_EQ(measured(run("few", {"training.epochs=1", "training.batch_per_device=8"}).folder)
                .not_comparable,
            "modified: training.epochs 4 → 1, training.batch_per_device 32 → 8");
  EXPECT_EQ(measured(run("many", {"training.epochs=1", "training.batch_per_device=8",
                                  "training.accumulate=2", "evaluation.batch=9", "trials.count=1"})
                         .folder)
                .not_comparable,
            "modified: training.epochs 4 → 1, training.batch_per_device 32 → 8 and 2 more");
}

TEST_F(RunTest, PartsOfAnEvaluationAreKept) {
  toy_.shards = 4;
  const Measurements m = measured(run().folder);
  for (const Trial& trial : m.trials) {
    ASSERT_EQ(trial.shards.size(), 4u);
    double sum = 0;
    for (const record::Shard& shard : trial.shards) sum += shard.metric().at("accuracy");
    EXPECT_NEAR(sum / 4, trial.metrics.at("accuracy"), 1e-12);
  }
}

// 1,000 items per second together.
TEST_F(RunTest, TheHalvesOfABatchAreMeasuredAlone) {
  EXPECT_EQ(measured(run("plain").folder).benches[0].repeats[0].load_rate, 0);
  toy_.load_seconds = 0.0009;
  toy_.compute_seconds = 0.0004;
  for (const BenchResult& bench : measured(run("loading").folder).benches) {
    for (const BenchRepeat& repeat : bench.repeats) {
      EXPECT_NEAR(repeat.load_rate, 1 / 0.0009, 1e-6) << "without what waited in the queue";
      EXPECT_NEAR(repeat.compute_rate, 1 / 0.0004, 1e-6);
    }
  }
}

TEST_F(RunTest, EmulatedDevicesAreARunOfTheirOwn) {
  const RunOutcome plain = run();
  place_.emulated_devices = 8;
  try {
    run();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), Exit::kUsage);
    EXPECT_THAT(error.what(), HasSubstr("cannot emulate 8 devices"));
  }
  toy_.emulates = true;
  const RunOutcome emulated = run();
  EXPECT_EQ(toy_.emulated, 8u);
  EXPECT_NE(plain.folder, emulated.folder);
  const RunRecord record = RunRecord::open(emulated.folder);
  EXPECT_EQ(record.info().evidence(), "EMULATED");
  const Measurements m = record.measurements();
  EXPECT_EQ(m.devices, 8u);
  EXPECT_TRUE(m.benches.empty()) << "nothing is timed";
}

TEST_F(RunTest, WhatCannotRunLeavesNoFolder) {
  toy_.no_data = true;
  EXPECT_THROW(run(), Error);
  for (const auto& entry : fs::directory_iterator(root_ / "runs")) {
    EXPECT_EQ(entry.path().filename(), ".lock");
  }
}

TEST_F(RunTest, AnAlteredRecordIsRefused) {
  const RunOutcome outcome = run();
  const fs::path file = outcome.folder / "recipe.resolved.textproto";
  std::string text = read_file(file);
  text.replace(text.find("0.93"), 4, "0.99");
  write_file_atomic(file, text);
  try {
    RunRecord::open(outcome.folder);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), Exit::kTampered);
  }
  EXPECT_THROW(RunRecord::open(root_), Error);
}

TEST_F(RunTest, TwoRunsAtOnceAreRefused) {
  create_folders(root_ / "runs");
  const FileLock lock(root_ / "runs/.lock", "held");
  EXPECT_THROW(run(), Error);
}

// Two records of the same values are the same bytes.
TEST(JsonTextTest, MapsAreInTheOrderOfTheirKeys) {
  record::TrialMetrics metrics;
  const std::vector<std::string> names = {"g", "c", "h", "a", "e", "b", "f", "d"};
  for (const std::string& name : names) (*metrics.mutable_metric())[name] = 0.5;
  const std::string text = json_text(metrics);
  size_t last = 0;
  for (const char name : std::string("abcdefgh")) {
    const size_t place = text.find(std::string("\"") + name + "\": 0.5");
    ASSERT_NE(place, std::string::npos) << text;
    EXPECT_GT(place, last) << text;
    last = place;
  }
}

TEST(EventLogTest, ATornLineIsCutOff) {
  const fs::path file = fs::path(::testing::TempDir()) / "events_test/events.jsonl";
  fs::remove_all(file.parent_path());
  record::Event event;
  event.set_kind("step_block");
  event.set_value(NAN);
  {
    EventLog log(file);
    for (int i = 0; i < 600; ++i) log.write(event);
  }
  const std::string whole = read_file(file);
  EXPECT_EQ(std::count(whole.begin(), whole.end(), '\n'), 600);
  EXPECT_THAT(whole, HasSubstr(R"("value":"NaN")"));
  write_file_atomic(file, whole + "{\"time\":1,\"kind");  // a crash while writing
  event.set_kind("resume");
  EventLog(file).write_durably(event);
  const std::string resumed = read_file(file);
  EXPECT_EQ(resumed.substr(0, whole.size()), whole);
  EXPECT_EQ(std::count(resumed.begin(), resumed.end(), '\n'), 601);
  EXPECT_THAT(resumed.substr(whole.size()), HasSubstr(R"("kind":"resume")"));
}

TEST(StepLogTest, RowsAfterTheCheckpointAndTornOnesGo) {
  const fs::path file = fs::path(::testing::TempDir()) / "steps_test/steps.bin";
  fs::remove_all(file.parent_path());
  {
    StepLog log(file, 2, 0);
    for (double i = 1; i <= 10; ++i) log.append(std::vector<double>{i, i * i});
    log.sync();
  }
  std::string bytes = read_file(file);
  write_file_atomic(file, bytes.substr(0, bytes.size() - 3));
  EXPECT_EQ(read_steps(file, 2).size(), 9u);
  {
    StepLog log(file, 2, 4);
    log.append(std::vector<double>{5, 7});
    log.sync();
  }
  const auto rows = read_steps(file, 2);
  ASSERT_EQ(rows.size(), 5u);
  EXPECT_EQ(rows[4][1], 7);
  EXPECT_THROW(read_steps(file, 3), Error);
  EXPECT_TRUE(read_steps(file.parent_path() / "none", 2).empty());
}

TEST(EvaluationTimesTest, EpochsStepsAndEnd) {
  const auto due_steps = [](const std::string& when) {
    const EvaluationTimes times(when, 7.5, 20);
    std::vector<int64_t> out;
    for (int64_t s = 1; s <= 20; ++s) {
      if (times.due(s)) out.push_back(s);
    }
    return out;
  };
  EXPECT_EQ(due_steps("end"), (std::vector<int64_t>{20}));
  EXPECT_EQ(due_steps("every:1epoch"), (std::vector<int64_t>{8, 15, 20}));
  EXPECT_EQ(due_steps("every:6step"), (std::vector<int64_t>{6, 12, 18, 20}));
  const EvaluationTimes late("every:1epoch", 4, 20, 3);
  std::vector<int64_t> due;
  for (int64_t s = 1; s <= 20; ++s) {
    if (late.due(s)) due.push_back(s);
  }
  EXPECT_EQ(due, (std::vector<int64_t>{12, 16, 20}));
  for (const char* bad :
       {"every", "every:", "every:xepoch", "every:0step", "every:2eons", "always"}) {
    EXPECT_THROW(EvaluationTimes(bad, 10, 20), Error) << bad;
  }
}

TEST(RateOf, Definitions) {
  const std::vector<double> seconds = {1, 1, 2, 4}, items(4, 10);
  EXPECT_DOUBLE_EQ(rate_of(v1::Bench::ITEMS_OVER_TIME, seconds, items), 5);
  EXPECT_DOUBLE_EQ(rate_of(v1::Bench::MEAN_OF_STEP_RATES, seconds, items), (10 + 10 + 5 + 2.5) / 4);
  EXPECT_DOUBLE_EQ(rate_of(v1::Bench::HARMONIC_MEAN_OF_SEGMENTS, seconds, items),
                   2 / (1 / 10.0 + 1 / (20 / 6.0)));
}

// The last batch of a pass over the data holds what is left.
TEST(RateOf, BatchesOfSeveralSizes) {
  const std::vector<double> seconds = {1, 1, 0.5}, items = {10, 10, 2};
  EXPECT_DOUBLE_EQ(rate_of(v1::Bench::ITEMS_OVER_TIME, seconds, items), 22 / 2.5);
  EXPECT_DOUBLE_EQ(rate_of(v1::Bench::MEAN_OF_STEP_RATES, seconds, items), 8);
  EXPECT_DOUBLE_EQ(rate_of(v1::Bench::HARMONIC_MEAN_OF_SEGMENTS, seconds, items),
                   2 / (1 / 10.0 + 1.5 / 12));
}

// U-Net's published throughput is the mean of the steps' rates, not images over time.
TEST(RateOf, TheWorkedExampleOfUnet) {
  const std::vector<double> seconds{0.010, 0.011, 0.012, 0.030}, items(4, 8);
  EXPECT_NEAR(rate_of(v1::Bench::MEAN_OF_STEP_RATES, seconds, items), 615.1515, 1e-4);
  EXPECT_NEAR(rate_of(v1::Bench::ITEMS_OVER_TIME, seconds, items), 507.9365, 1e-4);
}

TEST(TrialSeeds, AreDistinctAndStable) {
  v1::Trials trials;
  trials.add_seed(7);
  trials.set_derive_root(1);
  const auto five = trial_seeds(trials, 5);
  EXPECT_EQ(five[0], 7u);
  EXPECT_EQ(std::set<uint64_t>(five.begin(), five.end()).size(), 5u);
  EXPECT_EQ(trial_seeds(trials, 3), std::vector<uint64_t>(five.begin(), five.begin() + 3));
}

}  // namespace
}  // namespace reciperun
