// --emulate-devices from the command line: recipes of several devices are planned, trained and
// judged on the one that is there.
#include <gmock/gmock.h>
#include <unistd.h>

#include <cmath>
#include <fstream>

#include "tests/end_to_end/data_set.h"
#include "tests/end_to_end/process.h"
#include "tools/recipe_run/record/record.pb.h"
#include "tools/recipe_run/util/json.h"

namespace end_to_end {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr int kUsage = 2, kNotRun = 4;

constexpr char kUnetTable[] = "GPUs\tDICE\n8\t0.50\n";

// A small U-Net of the published kind; %s: the digest of its table.
constexpr char kUnet[] = R"(schema: 1
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
source { id: "table" file: "sources/unet_8.tsv" sha256: "%s" }
expect { id: "dice" metric: "dice" unit: "1" direction: HIGHER single { v: 0.50 n: 1 } margin { absolute: 0.005 } gate: true scope { devices: 8 }
  at { source: "table" table: "GPUs" where { column: "GPUs" equals: "8" } column: "DICE" printed: "0.50" } }
)";

constexpr char kCnnTable[] = "GPUs\tAccuracy\n2\t0.50\n";

// Two devices, each with its own batch statistics. %s as above.
constexpr char kCnn[] = R"(schema: 1
id: "toy/cnn_2" version: "1.0.0" title: "A small network with batch norm, 2 devices"
model { arch: "cnn" hparam { key: "image" value: "[28, 28, 1]" } hparam { key: "conv" value: "[4]" }
  hparam { key: "hidden" value: "[8]" } hparam { key: "batch_norm" value: "true" } }
data { id: "train" role: "train" lock: "fashion_mnist" split: "train" expect_samples: 320 }
data { id: "test" role: "test" lock: "fashion_mnist" split: "test" expect_samples: 100 }
training { epochs: 1 batch_per_device: 8 optimizer { name: "sgd" lr: 0.01 } schedule { kind: "constant" } }
numerics { compute: FP32 }
trials { unit: "seed" seed: 1 count: 1 }
evaluation { metric: "accuracy" when: "end" batch: 25 select: LAST }
topology { nodes: 1 devices_per_node: 2 }
platform { device: "cpu" }
free_override: "io"
source { id: "table" file: "sources/cnn_2.tsv" sha256: "%s" }
expect { id: "accuracy" metric: "accuracy" unit: "1" direction: HIGHER single { v: 0.50 n: 1 } margin { absolute: 0.005 } gate: true scope { devices: 2 }
  at { source: "table" table: "GPUs" where { column: "GPUs" equals: "2" } column: "Accuracy" printed: "0.50" } }
)";

class Emulate : public testing::Test {
 protected:
  Emulate() {
    std::string pattern = testing::TempDir() + "assay_emulate_XXXXXX";
    folder_ = mkdtemp(pattern.data());
    make_micrographs(folder_ / "data");
    make_data_set(folder_ / "data", 320, 100);
    fs::create_directories(folder_ / "recipes/toy");
    fs::create_directories(folder_ / "recipes/sources");
    add_recipe("unet_8", kUnet, kUnetTable);
    add_recipe("cnn_2", kCnn, kCnnTable);
  }
  ~Emulate() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

  void add_recipe(const std::string& name, std::string text, const std::string& table) const {
    std::ofstream(folder_ / "recipes/sources" / (name + ".tsv")) << table;
    text.replace(text.find("%s"), 2, reciperun::sha256_hex(table));
    std::ofstream(folder_ / "recipes/toy" / (name + ".textproto")) << text;
  }

  Ended call(const std::string& command, const std::vector<std::string>& more) const {
    return call(command, "unet_8", "runs", more);
  }
  Ended call(const std::string& command, const std::string& recipe, const std::string& runs,
             const std::vector<std::string>& more) const {
    std::vector<std::string> words = {ASSAY_RECIPE_RUN,
                                      "--recipes",
                                      folder_ / "recipes",
                                      command,
                                      "toy/" + recipe,
                                      "--runs=" + (folder_ / runs).string(),
                                      "--set",
                                      "io.data_root=" + (folder_ / "data").string()};
    words.insert(words.end(), {"--set", "io.threads=1"});
    words.insert(words.end(), more.begin(), more.end());
    return Process(words, folder_).wait();
  }

  // The one evaluation of the one trial below `runs`.
  reciperun::record::Eval evaluation(const std::string& runs) const {
    reciperun::record::TrialMetrics metrics;
    for (const auto& run : fs::directory_iterator(folder_ / runs)) {
      if (run.is_directory())
        reciperun::read_json(run.path() / "trials/seed-0001/metrics.json", metrics);
    }
    EXPECT_EQ(metrics.eval_size(), 1);
    return metrics.eval_size() == 1 ? metrics.eval(0) : reciperun::record::Eval();
  }

  fs::path folder_;
};

TEST_F(Emulate, APlanAndARunAgree) {
  const Ended refused = call("run", {"--quiet"});
  EXPECT_EQ(refused.code, kNotRun) << refused.err;
  EXPECT_THAT(refused.out, HasSubstr("needs 8 devices: mpirun -np 8, or --emulate-devices 8"));
  const Ended not_planned = call("plan", {});
  EXPECT_THAT(not_planned.out, HasSubstr("needs 8 devices: mpirun -np 8, or --emulate-devices 8"));

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

double loss(const reciperun::record::Eval& eval, int part) {
  return eval.shard(part).metric().at("loss");
}

// Each device evaluates its part of the data with its own running statistics. Where the recipe cuts
// the data into other parts than its devices', the first device's statistics serve for all: what
// they give for the first half is equal, for the second it is not.
TEST_F(Emulate, DevicesKeepTheirOwnBatchStatistics) {
  EXPECT_EQ(call("run", "cnn_2", "refused", {"--quiet"}).code, kNotRun);
  const Ended plan = call("plan", "cnn_2", "own", {"--emulate-devices", "2"});
  EXPECT_EQ(plan.code, 0) << plan.err;
  EXPECT_THAT(plan.out, HasSubstr("judged: at best WITHIN TOLERANCE, decides the exit code"));
  EXPECT_THAT(plan.out, HasSubstr("1 epochs of batch 8 on each of 2 devices"));

  const std::vector<std::string> emulated = {"--quiet", "--emulate-devices", "2"};
  const Ended run = call("run", "cnn_2", "own", emulated);
  EXPECT_THAT(run.out, HasSubstr("1 of 1 trials finished")) << run.err;
  EXPECT_THAT(run.out, HasSubstr("% merged; 2 parts of 50: "));
  EXPECT_THAT(run.out, Not(HasSubstr("NOT RUN")));
  EXPECT_THAT(run.out, Not(HasSubstr("NOT COMPARABLE")));

  std::vector<std::string> in_quarters = emulated;
  in_quarters.insert(in_quarters.end(), {"--set", "evaluation.arg.shards=4"});
  const Ended other = call("run", "cnn_2", "first", in_quarters);
  EXPECT_THAT(other.out, HasSubstr("NOT COMPARABLE")) << other.err;
  const reciperun::record::Eval own = evaluation("own"), first = evaluation("first");
  ASSERT_EQ(own.shard_size(), 2);
  ASSERT_EQ(first.shard_size(), 4);
  EXPECT_NEAR(loss(own, 0), (loss(first, 0) + loss(first, 1)) / 2, 1e-6);
  EXPECT_GT(std::abs(loss(own, 1) - (loss(first, 2) + loss(first, 3)) / 2), 1e-5);
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
