// One repeat in a process of its own: what it is told, and every way in which it can end.
#include "tools/recipe_run/run/bench_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tools/recipe_run/util/error.h"

namespace reciperun {
namespace {

using ::testing::HasSubstr;

constexpr char kRecipe[] = R"(schema: 1 id: "toy/run" version: "1.0.0" model { arch: "toy" }
data { id: "train" role: "train" lock: "toy" }
training { steps: 4 batch_per_device: 2 optimizer { name: "sgd" lr: 0.1 } } numerics { compute: FP32 }
bench { id: "infer" mode: INFER batch: [4] measure_steps: 8 repeats: 3 }
)";

class RepeatProcessTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ =
        fs::path(::testing::TempDir()) /
        ("repeat_" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::remove_all(root_);
    write_file_atomic(root_ / "recipes/toy/run.textproto", kRecipe);
    record_ = RunRecord::create(root_ / "runs", load_recipe({root_ / "recipes", "toy/run"}), {},
                                "toy 1.0");
  }

  // Measures with a program that is this script.
  void measure(const std::string& script) {
    const fs::path program = root_ / "program";
    write_file_atomic(program, "#!/bin/sh\n" + script + "\n");
    fs::permissions(program, fs::perms::owner_all);
    in_own_process(program, *record_, root_ / "weights", stop_)({"infer", 1, 4, 2},
                                                                [this](double fraction) {
                                                                  ticks_.push_back(fraction);
                                                                  return true;
                                                                });
  }
  Error failure_of(const std::string& script) {
    try {
      measure(script);
    } catch (const Error& error) {
      return error;
    }
    return {Exit::kOk, "no failure"};
  }
  fs::path repeat_folder() const { return record_->repeat_folder({"infer", 1, 4, 2}); }

  fs::path root_;
  std::optional<RunRecord> record_;
  std::atomic<bool> stop_{false};
  std::vector<double> ticks_;
};

TEST_F(RepeatProcessTest, IsToldWhichRepeatAndLeavesNothingBehind) {
  measure("echo \"$@\" > '" + (root_ / "words").string() + "'; echo noise >&2; sleep 0.2");
  EXPECT_EQ(read_file(root_ / "words"),
            "bench-repeat " + record_->folder().string() +
                " --bench infer --devices 1 --batch 4 --repeat 2 --checkpoint " +
                (root_ / "weights").string() + "\n");
  EXPECT_TRUE(fs::is_empty(repeat_folder())) << "its stderr is kept only where it failed";
  ASSERT_FALSE(ticks_.empty());
  EXPECT_LT(ticks_.back(), 1);
}

TEST_F(RepeatProcessTest, FailsAsTheProcessDid) {
  const Error error = failure_of("echo 'recipe-run: the data are gone' >&2; echo hint >&2; exit 6");
  EXPECT_EQ(error.exit_code(), Exit::kDataMismatch);
  EXPECT_STREQ(error.what(), "the data are gone");
  EXPECT_THAT(failure_of("exit 5").what(), HasSubstr("without a word"));
}

TEST_F(RepeatProcessTest, AKilledProcessIsSaidToBeKilled) {
  const Error error = failure_of("kill -9 $$");
  EXPECT_EQ(error.exit_code(), Exit::kCrashed);
  EXPECT_THAT(error.what(), HasSubstr("signal 9"));
  EXPECT_THAT(error.hint(), HasSubstr("memory"));
}

TEST_F(RepeatProcessTest, AStopEndsTheProcess) {
  std::thread stopper([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    stop_ = true;
  });
  const auto begin = std::chrono::steady_clock::now();
  const Error error = failure_of("exec sleep 60");
  stopper.join();
  EXPECT_EQ(error.exit_code(), Exit::kInterrupted);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

TEST_F(RepeatProcessTest, AProgramThatIsNotThereIsNamed) {
  const auto measure_repeat = in_own_process(root_ / "nowhere", *record_, {}, stop_);
  try {
    measure_repeat({"infer", 1, 4, 1}, [](double) { return true; });
    FAIL() << "no failure";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), Exit::kCrashed);
    EXPECT_THAT(error.what(), HasSubstr("nowhere"));
  }
}

}  // namespace
}  // namespace reciperun
