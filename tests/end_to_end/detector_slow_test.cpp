// EfficientDet-D0 at its published size, by the published rule, for one epoch of 40 images of COCO:
// killed and continued, it ends as if nothing had happened. Minutes, and 4 GiB.
#include <assay/assay_data.h>

#include <chrono>
#include <csignal>

#include "tests/data/squad_files.h"
#include "tests/end_to_end/small_run.h"

namespace end_to_end {
namespace {

const std::string kCoco = assay::test::sample_data() + "/coco-tiny/coco_tiny.zip";

class Detector : public SmallRun {
 protected:
  void SetUp() override {
    if (!fs::exists(kCoco)) GTEST_SKIP() << kCoco << " is not there";
    const auto text = [](const std::string& s) { return assay_str{s.data(), s.size()}; };
    assay_context* context = nullptr;
    ASSERT_EQ(assay_context_create(nullptr, nullptr, nullptr, 0, &context, nullptr), ASSAY_OK);
    const std::string to = at("data/coco_2017").string();
    EXPECT_EQ(assay_dataset_convert(context, text("coco"), text(kCoco), text(to), text(""), nullptr,
                                    0, nullptr, nullptr),
              ASSAY_OK);
    assay_context_free(context);
  }

  // Ten steps of four images, and 40 others to evaluate on.
  std::vector<std::string> one_epoch(const std::string& runs, uint32_t steps_of_checkpoints) const {
    std::vector<std::string> words = {ASSAY_RECIPE_RUN,
                                      "--recipes",
                                      std::string(ASSAY_SOURCE_DIR) + "/recipes",
                                      "run",
                                      "efficientdet_d0/dgx1_fp32_8gpu",
                                      "--no-bench",
                                      "--quiet",
                                      "--runs=" + at(runs).string(),
                                      "--data=" + at("data").string()};
    for (const std::string& set :
         {std::string("trials.count=1"), std::string("model.pretrained=\"\""),
          std::string("topology.devices_per_node=1"), std::string("training.epochs=1"),
          std::string("training.batch_per_device=4"), std::string("data.train.expect_samples=0"),
          std::string("data.train.nominal_epoch_samples=40"),
          std::string("data.val.expect_samples=0"),
          "training.checkpoint_every_steps=" + std::to_string(steps_of_checkpoints)})
      words.insert(words.end(), {"--set", set});
    return words;
  }
};

TEST_F(Detector, KilledAndContinuedHasTheBitsOfTheUninterruptedRun) {
  constexpr std::chrono::minutes kLimit{60};
  const Ended whole = Process(one_epoch("whole", 10), at("")).wait(kLimit);
  ASSERT_EQ(whole.code, 0) << whole.err;
  for (const int64_t step : {3, 6}) {
    Process process(one_epoch("killed", 3), at(""));
    wait_for_step("killed", step, process);
    process.signal(SIGKILL);
    ASSERT_EQ(process.wait().signal, SIGKILL);
    EXPECT_GE(saved_step("killed"), step);
  }
  const Ended last = Process(one_epoch("killed", 3), at("")).wait(kLimit);
  ASSERT_EQ(last.code, 0) << last.err;
  expect_same_training("whole", "killed");
}

}  // namespace
}  // namespace end_to_end
