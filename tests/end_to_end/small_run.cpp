#include "tests/end_to_end/small_run.h"

#include <assay/assay.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "tests/end_to_end/data_set.h"
#include "tools/recipe_run/record/logs.h"
#include "tools/recipe_run/record/record.pb.h"
#include "tools/recipe_run/util/json.h"

namespace end_to_end {
namespace {

using reciperun::record::Eval;
using reciperun::record::TrialMetrics;

TrialMetrics metrics_of(const fs::path& trial) {
  TrialMetrics metrics;
  reciperun::read_json(trial / "metrics.json", metrics);
  return metrics;
}

std::map<std::string, double> values(const google::protobuf::Map<std::string, double>& metric) {
  return {metric.begin(), metric.end()};
}

void expect_same_metrics(const TrialMetrics& a, const TrialMetrics& b) {
  EXPECT_EQ(a.failure() + b.failure(), "");
  EXPECT_EQ(a.steps(), b.steps());
  EXPECT_FALSE(a.metric().empty());
  EXPECT_EQ(values(a.metric()), values(b.metric()));
  ASSERT_EQ(a.eval_size(), b.eval_size());
  for (int i = 0; i < a.eval_size(); ++i) {
    EXPECT_EQ(a.eval(i).step(), b.eval(i).step());
    EXPECT_EQ(values(a.eval(i).metric()), values(b.eval(i).metric()));
  }
}

// Every step once and in order, with the same numbers; the seconds differ, of course.
void expect_same_steps(const fs::path& trial_a, const fs::path& trial_b) {
  using namespace reciperun;  // NOLINT: the columns of the log
  const auto a = read_steps(trial_a / "steps.bin", kTrialColumns);
  const auto b = read_steps(trial_b / "steps.bin", kTrialColumns);
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i][kStep], static_cast<double>(i + 1));
    for (const size_t column : {kStep, kEpoch, kLoss, kLearningRate})
      EXPECT_EQ(a[i][column], b[i][column]) << "step " << i + 1 << ", column " << column;
  }
}

std::string temporary_folder() {
  std::string pattern = testing::TempDir() + "assay_end_to_end_XXXXXX";
  if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot create " + pattern);
  return pattern;
}

// The one folder below `parent` that holds `file`; "" if there is none.
fs::path only_folder_with(const std::string& file, const fs::path& parent) {
  fs::path found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(parent, ignored)) {
    if (!fs::exists(entry.path() / file, ignored)) continue;
    EXPECT_TRUE(found.empty()) << found << " and " << entry.path();
    found = entry.path();
  }
  return found;
}

}  // namespace

SmallRun::SmallRun() : folder_(temporary_folder()) {
  make_data_set(folder_ / "data", kTrain, kTest);
}

SmallRun::~SmallRun() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

std::vector<std::string> SmallRun::command(const std::string& runs,
                                           const std::vector<std::string>& more) const {
  std::vector<std::string> words = {ASSAY_RECIPE_RUN,
                                    "--recipes",
                                    std::string(ASSAY_SOURCE_DIR) + "/recipes",
                                    "run",
                                    "fashion_mnist/cnn_2conv_bn",
                                    "--no-bench",
                                    "--quiet",
                                    "--threads=1",
                                    "--runs=" + at(runs).string(),
                                    "--data=" + at("data").string()};
  const std::string sets[] = {
      "trials.count=1",
      "training.epochs=2",
      "training.batch_per_device=" + std::to_string(kBatch),
      "training.mixup_alpha=0.2",  // besides shuffling and dropout: a third stream to go on with
      "evaluation.batch=32",
      "model.expect_parameters=0",
      "model.hparam.conv=[4, 8]",
      "model.hparam.kernel=3",
      "model.hparam.hidden=[16]",
      "data.train.expect_samples=" + std::to_string(kTrain),
      "data.test.expect_samples=" + std::to_string(kTest),
  };
  for (const std::string& set : sets) {
    words.insert(words.end(), {"--set", set});
  }
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Ended SmallRun::run(const std::string& runs, const std::vector<std::string>& more) const {
  return Process(command(runs, more), folder_).wait();
}

fs::path SmallRun::run_folder(const std::string& runs) const {
  return only_folder_with("run.json", at(runs));
}

fs::path SmallRun::trial_folder(const std::string& runs) const {
  const fs::path run = run_folder(runs);
  return run.empty() ? run : only_folder_with("events.jsonl", run / "trials");
}

int64_t SmallRun::saved_step(const std::string& runs) const {
  const fs::path state = trial_folder(runs) / "state.json";
  std::error_code ignored;
  if (!fs::exists(state, ignored)) return 0;
  reciperun::record::TrialState content;
  reciperun::read_json(state, content);
  return content.step();
}

fs::path SmallRun::checkpoint(const std::string& runs) const {
  return trial_folder(runs) / ("checkpoint-" + std::to_string(saved_step(runs)));
}

void SmallRun::wait_for_step(const std::string& runs, int64_t step, Process& process) const {
  while (process.running() && saved_step(runs) < step)
    std::this_thread::sleep_for(std::chrono::microseconds(500));
}

bool SmallRun::same_checkpoint(const std::string& runs_a, const std::string& runs_b) const {
  const std::string a = checkpoint(runs_a).string(), b = checkpoint(runs_b).string();
  assay_report* report = nullptr;
  EXPECT_EQ(assay_checkpoint_diff({a.data(), a.size()}, {b.data(), b.size()}, &report, nullptr),
            ASSAY_OK)
      << a << " and " << b;
  const assay_str text = assay_report_text(report);
  const bool same =
      std::string_view(text.data, text.size).find("\"identical\":true") != std::string_view::npos;
  assay_report_free(report);
  return same;
}

void SmallRun::expect_same_training(const std::string& runs_a, const std::string& runs_b) const {
  const fs::path a = trial_folder(runs_a), b = trial_folder(runs_b);
  expect_same_metrics(metrics_of(a), metrics_of(b));
  expect_same_steps(a, b);
  EXPECT_TRUE(same_checkpoint(runs_a, runs_b));
}

void expect_refusal(const Ended& ended, int code, const std::string& part) {
  EXPECT_EQ(ended.signal, 0);
  EXPECT_EQ(ended.code, code) << ended.err;
  EXPECT_THAT(ended.err, testing::HasSubstr(part));
  const size_t start = ended.err.find("recipe-run: ");
  ASSERT_NE(start, std::string::npos) << ended.err;
  const std::string said = ended.err.substr(start);
  EXPECT_THAT(said.substr(0, said.find('\n')), testing::HasSubstr(part));
  EXPECT_LE(std::count(said.begin(), said.end(), '\n'), 3) << said;
}

void damage(const fs::path& file, int64_t offset) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(offset);
  const char byte = static_cast<char>(~stream.get());
  stream.seekp(offset);
  stream.put(byte);
  if (!stream.flush()) throw std::runtime_error("cannot damage " + file.string());
}

}  // namespace end_to_end
