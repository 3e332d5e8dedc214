// --emulate-devices from the command line: a recipe of eight devices is planned, trained and judged
// on the one that is there.
#include <gmock/gmock.h>
#include <unistd.h>

#include <fstream>

#include "tests/end_to_end/data_set.h"
#include "tests/end_to_end/process.h"
#include "tools/recipe_run/util/file.h"

namespace end_to_end {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr int kUsage = 2, kNotRun = 4;

constexpr char kTable[] = "GPUs\tDICE\n8\t0.50\n";

// A small U-Net of the published kind; %s: the digest of its table.
constexpr char kRecipe[] = R"(schema: 1
id: "toy/unet_8" version: "1.0.0" title: "A small U-Net, 8 devices"
model { arch: "unet_medical" init: "glorot_uniform"
  hparam { key: "image" value: "[32, 32, 1]" } hparam { key: "width" value: "3" } hparam { key: "depth" value: "1" } }
data { id: "train" role: "train" lock: "isbi2012_em" split: "train" expect_samples: 12
  folds { k: 3 splitter: "rotate_then_cut" stride: 4 train_count: 8 shuffle_seed: 0 shuffle_algorithm: "mt19937-fisher-yates-legacy" }
  pipeline { op: "shuffle_stream" arg { key: "buffer_batches" value: "3" } }
  pipeline { op: "scale" arg { key: "by" value: "0.0078125" } arg { key: "offset" value: "-1" } }
  pipeline { op: "resize" arg { key: "to" value: "[16, 16]" } arg { key: "filter" value: "bilinear_legacy" } }
  pipeline { op: "pad" arg { key: "to" value: "[32, 32]" } arg { key: "value" value: "0" } } }
data { id: "validation" role: "validation" lock: "isbi2012_em" split: "train" expect_samples: 12
  folds { k: 3 splitter: "rotate_then_cut" stride: 4 train_count: 8 shuffle_seed: 0 shuffle_algorithm: "mt19937-fisher-yates-legacy" }
  pipeline { op: "scale" arg { key: "by" value: "0.0078125" } arg { key: "offset" value: "-1" } }
  pipeline { op: "resize" arg { key: "to" value: "[16, 16]" } arg { key: "filter" value: "bilinear_legacy" } }
  pipeline { op: "pad" arg { key: "to" value: "[32, 32]" } arg { key: "value" value: "0" } } }
training { steps: 160 steps_divided_by_devices: true batch_per_device: 2
  optimizer { name: "adam" lr: 0.01 beta1: 0.9 beta2: 0.999 epsilon: 1e-8 convention: "tensorflow" } schedule { kind: "constant" } }
numerics { compute: FP32 }
trials { unit: "fold" seed: [0, 1, 2] count: 3 }
evaluation { metric: "dice" metric: "loss" when: "end" batch: 8 select: MEAN_OVER_FOLDS data: "validation" }
topology { nodes: 1 devices_per_node: 8 }
platform { device: "cpu" }
free_override: "io"
source { id: "table" file: "sources/toy.tsv" sha256: "%s" }
expect { id: "dice" metric: "dice" unit: "1" direction: HIGHER single { v: 0.50 n: 1 } margin { absolute: 0.005 } gate: true scope { devices: 8 }
  at { source: "table" table: "GPUs" where { column: "GPUs" equals: "8" } column: "DICE" printed: "0.50" } }
)";

class Emulate : public testing::Test {
 protected:
  Emulate() {
    std::string pattern = testing::TempDir() + "assay_emulate_XXXXXX";
    folder_ = mkdtemp(pattern.data());
    make_micrographs(folder_ / "data");
    fs::create_directories(folder_ / "recipes/toy");
    fs::create_directories(folder_ / "recipes/sources");
    std::ofstream(folder_ / "recipes/sources/toy.tsv") << kTable;
    std::string recipe = kRecipe;
    recipe.replace(recipe.find("%s"), 2, reciperun::sha256_hex(kTable));
    std::ofstream(folder_ / "recipes/toy/unet_8.textproto") << recipe;
  }
  ~Emulate() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

  Ended call(const std::string& command, const std::vector<std::string>& more) const {
    std::vector<std::string> words = {ASSAY_RECIPE_RUN,
                                      "--recipes",
                                      folder_ / "recipes",
                                      command,
                                      "toy/unet_8",
                                      "--runs=" + (folder_ / "runs").string(),
                                      "--set",
                                      "io.data_root=" + (folder_ / "data").string()};
    words.insert(words.end(), {"--set", "io.threads=1"});
    words.insert(words.end(), more.begin(), more.end());
    return Process(words, folder_).wait();
  }

  fs::path folder_;
};

TEST_F(Emulate, APlanAndARunAgree) {
  const Ended refused = call("run", {"--quiet"});
  EXPECT_EQ(refused.code, kNotRun) << refused.err;
  EXPECT_THAT(refused.out, HasSubstr("needs 8 devices, or --emulate-devices 8"));
  const Ended not_planned = call("plan", {});
  EXPECT_THAT(not_planned.out, HasSubstr("needs 8 devices, or --emulate-devices 8"));

  const Ended plan = call("plan", {"--emulate-devices", "8"});
  EXPECT_EQ(plan.code, 0) << plan.err;
  EXPECT_THAT(plan.out, HasSubstr("judged: at best WITHIN TOLERANCE, decides the exit code"));
  EXPECT_THAT(plan.out, HasSubstr("20 steps of batch 2 on each of 8 devices"));

  const Ended run = call("run", {"--quiet", "--emulate-devices", "8"});
  EXPECT_THAT(run.out, HasSubstr("3 of 3 trials finished")) << run.err;
  EXPECT_THAT(run.out, HasSubstr("1 × 3 folds"));
  EXPECT_THAT(run.out, Not(HasSubstr("NOT RUN")));
  EXPECT_THAT(run.out, Not(HasSubstr("NOT COMPARABLE")));
}

TEST_F(Emulate, OtherDevicesThanTheRecipesAreRefused) {
  for (const std::string command : {"plan", "run"}) {
    const Ended ended = call(command, {"--emulate-devices", "4"});
    EXPECT_THAT(ended.out + ended.err, HasSubstr("trains on 8 devices, not on 4"));
  }
  EXPECT_EQ(call("run", {"--emulate-devices", "4"}).code, kUsage);
}

}  // namespace
}  // namespace end_to_end
