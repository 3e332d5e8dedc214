#include "sdk/train/weight_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "sdk/train/checkpoint/weights.pb.h"
#include "tests/train/failing_source.h"
#include "tests/train/training_setup.h"

namespace assay::train {
namespace {

using test::Batch;
using test::config_of;
using test::FailingSource;
using test::new_instance;
using test::persistent_bytes;

class WeightFiles : public testing::Test {
 protected:
  std::string path = testing::TempDir() + cat("weight_files_test.", getpid(), ".safetensors");
  void TearDown() override { std::filesystem::remove(path); }
};

TEST_F(WeightFiles, AFileThatCannotBeReadToItsEndChangesNothing) {
  const auto source = new_instance(), target = new_instance();
  source->ensure_initialized(1);
  target->ensure_initialized(2);
  export_weights(*source, path, {});
  const auto before = persistent_bytes(*target);
  for (int reads = 0;; ++reads) {
    int left = 1000;
    const auto file = safetensors::Reader::open(std::make_unique<FailingSource>(path, left));
    left = reads;
    try {
      import_weights(*target, file, {});
      EXPECT_GT(reads, 5);
      break;
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), Code::kIo);
      ASSERT_EQ(persistent_bytes(*target), before) << "read " << reads;
    }
  }
  EXPECT_EQ(persistent_bytes(*target), persistent_bytes(*source));
}

TEST_F(WeightFiles, MovingAveragesRestartFromWhatWasLoaded) {
  const auto source = new_instance(), target = new_instance();
  source->ensure_initialized(1);
  export_weights(*source, path, {});
  {
    Trainer trainer(target, config_of(R"({"optimizer":
        {"name": "sgd", "learning_rate": 0.05, "ema_decay": 0.9}})"));
    trainer.step(Batch(0).tensors());
  }
  import_weights(*target, safetensors::Reader::open(path), {});
  for (const SegmentTensor& average : target->segments().all()) {
    if (average.role != Role::kEma) continue;
    const auto value = target->segments().tensor(average.variable->name, Role::kValue);
    EXPECT_EQ(std::memcmp(average.data, value.data, value.bytes()), 0) << value.variable->name;
  }
}

}  // namespace
}  // namespace assay::train
