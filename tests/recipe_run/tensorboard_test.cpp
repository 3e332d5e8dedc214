// Event files for TensorBoard, read by a reader of our own: framing, checksums, and what is left of
// a training that was stopped and continued. tests/fixtures/exchange/check_tensorboard.py reads
// them with TensorBoard itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "tests/recipe_run/toy_driver.h"
#include "tools/recipe_run/record/logs.h"
#include "tools/recipe_run/record/seal.h"
#include "tools/recipe_run/record/tensorboard.h"
#include "tools/recipe_run/run/runner.h"

namespace reciperun {
namespace {

constexpr char kRecipe[] = R"(schema: 1
id: "toy/board"
version: "1.0.0"
model { arch: "toy" }
data { id: "train" role: "train" lock: "toy" }
data { id: "test" role: "test" lock: "toy" }
training { epochs: 4 batch_per_device: 32 checkpoint_every_steps: 7 optimizer { name: "sgd" lr: 0.1 } }
numerics { compute: FP32 }
trials { unit: "seed" seed: [1] count: 1 }
evaluation { metric: "accuracy" select: LAST when: "every:1epoch" }
source { id: "paper" title: "a table" }
expect { id: "accuracy" metric: "accuracy" unit: "1" direction: HIGHER single { v: 0.930 } at { source: "paper" } margin { absolute: 0.005 } gate: true }
)";

// CRC-32C bit by bit, rotated and offset.
uint32_t masked_crc(std::string_view bytes) {
  uint32_t crc = ~0u;
  for (const char byte : bytes) {
    crc ^= static_cast<uint8_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
  }
  crc = ~crc;
  return (crc >> 15 | crc << 17) + 0xA282EAD8u;
}

std::vector<tensorboard::Event> read_events(const fs::path& file) {
  const std::string bytes = read_file(file);
  std::vector<tensorboard::Event> events;
  for (size_t at = 0; at < bytes.size();) {
    uint64_t length = 0;
    uint32_t length_crc = 0, crc = 0;
    std::memcpy(&length, &bytes[at], 8);
    std::memcpy(&length_crc, &bytes[at + 8], 4);
    EXPECT_EQ(length_crc, masked_crc({&bytes[at], 8}));
    const std::string payload = bytes.substr(at + 12, length);
    std::memcpy(&crc, &bytes[at + 12 + length], 4);
    EXPECT_EQ(crc, masked_crc(payload));
    EXPECT_TRUE(events.emplace_back().ParseFromString(payload));
    at += 16 + length;
  }
  return events;
}

class TensorBoardTest : public ::testing::Test {
 protected:
  TensorBoardTest() : root_(fs::path(::testing::TempDir()) / "tensorboard") {
    fs::remove_all(root_);
    write_file_atomic(root_ / "recipes/toy/board.textproto", kRecipe);
    toy_.stop = &stop_;
  }
  RunOutcome run() {
    ToyDriver driver(toy_);
    std::FILE* log = std::tmpfile();
    Progress progress(log, false);
    RunOptions options;
    options.runs = root_ / "runs";
    options.tensorboard = true;
    stop_ = false;
    const auto close = std::unique_ptr<std::FILE, int (*)(std::FILE*)>(log, std::fclose);
    return run_recipe(load_recipe({root_ / "recipes", "toy/board"}, {}), options, driver, progress,
                      stop_);
  }

  fs::path root_;
  Toy toy_;
  std::atomic<bool> stop_{false};
};

TEST_F(TensorBoardTest, AContinuedTrainingReplacesWhatWasLost) {
  toy_.crash_at = 18;  // the last checkpoint stands at 14
  EXPECT_THROW(run(), Killed);
  toy_.crash_at = -1;
  const fs::path folder = run().folder, trial = folder / "trials/seed-0001";
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(trial / "tensorboard"))
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  ASSERT_EQ(files.size(), 2u);
  EXPECT_THAT(files[0].string(), ::testing::HasSubstr("events.out.tfevents."));
  // As TensorBoard does: a start takes away what is at its step or later.
  std::map<std::string, std::map<int64_t, float>> shown;
  for (const fs::path& file : files) {
    const auto events = read_events(file);
    ASSERT_GT(events.size(), 2u);
    EXPECT_EQ(events[0].file_version(), "brain.Event:2");
    EXPECT_EQ(events[1].step(), &file == files.data() ? 1 : 15);
    for (const tensorboard::Event& event : events) {
      EXPECT_GT(event.wall_time(), 1.7e9);
      if (event.session_log().status() == tensorboard::SessionLog::START) {
        for (auto& [tag, curve] : shown) curve.erase(curve.lower_bound(event.step()), curve.end());
      }
      for (const auto& value : event.summary().value())
        EXPECT_TRUE(shown[value.tag()].emplace(event.step(), value.simple_value()).second);
    }
  }
  const auto rows = read_steps(trial / "steps.bin", kTrialColumns);
  ASSERT_EQ(rows.size(), 40u);
  for (const auto& row : rows) {
    const auto step = static_cast<int64_t>(row[kStep]);
    EXPECT_EQ(shown["train/loss"].at(step), static_cast<float>(row[kLoss]));
    EXPECT_EQ(shown["train/learning_rate"].at(step), 0.1f);
    EXPECT_EQ(shown["train/epoch"].at(step), static_cast<float>(row[kEpoch]));
  }
  EXPECT_EQ(shown["train/loss"].size(), 40u);
  EXPECT_EQ(shown["eval/accuracy"].size(), 4u);
  EXPECT_EQ(shown["eval/loss"].at(40), 0.2f);
  EXPECT_EQ(shown.size(), 6u);
  EXPECT_TRUE(seal_problems(folder, RunState::kClosed).empty());
}

TEST_F(TensorBoardTest, Pictures) {
  // 3 columns, 2 rows; no more than the header is looked at.
  const std::string png("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x03\0\0\0\x02\x08\x02\0\0\0", 29);
  write_file_atomic(root_ / "pictures/one.png", png);
  write_file_atomic(root_ / "pictures/other.txt", "no picture");
  write_file_atomic(root_ / "pictures/torn.png", png.substr(0, 20));
  {
    TensorBoardLog log(root_ / "board", 0, 1);
    log.write_pictures(7, root_ / "pictures");
    log.write_pictures(7, root_ / "none");
  }
  const auto events = read_events(fs::directory_iterator(root_ / "board")->path());
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[2].step(), 7);
  const auto& value = events[2].summary().value(0);
  EXPECT_EQ(value.tag(), "pictures/one");
  EXPECT_EQ(value.image().width(), 3);
  EXPECT_EQ(value.image().height(), 2);
  EXPECT_EQ(value.image().encoded_image_string(), png);
}

}  // namespace
}  // namespace reciperun
