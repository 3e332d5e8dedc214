// What is said before anything runs: what becomes of each row, how many seeds, hours, disk.
#include "tools/recipe_run/cli/plan.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <map>

namespace reciperun {
namespace {

using ::testing::HasSubstr;

v1::Recipe recipe_of(const std::string& text) {
  v1::Recipe recipe;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &recipe)) << text;
  return recipe;
}

constexpr char kRecipe[] = R"(
  id: "resnet50/dgx1" title: "ResNet-50"
  model { expect_parameters: 25557032 }
  data { id: "train" role: "train" lock: "imagenet" expect_samples: 1281167 }
  training { epochs: 90 batch_per_device: 192 optimizer { name: "sgd" lr: 0.256 } }
  trials { unit: "seed" count: 3 max_count: 8 }
  topology { nodes: 1 devices_per_node: 8 }
  platform { device: "Tesla V100-SXM2-16GB" same_class: "V100-SXM2" }
  io { data_root: "nowhere" }
  bench { id: "train" mode: TRAIN devices: [1, 8] batch: 192 measure_steps: 100 repeats: 7 max_seconds: 10 }
  bench { id: "infer" mode: INFER batch: 1 measure_steps: 100 repeats: 7 max_seconds: 10 }
  expect { id: "top1" metric: "top1" unit: "%" direction: HIGHER mean_std { mean: 77.150 std: 0.098 n: 8 } decimals: 3 gate: true
           margin { absolute: 0.3 } }
  expect { id: "top1.g1" metric: "top1" unit: "%" direction: HIGHER single { v: 77.342 n: 1 } spread_from: "top1" scope { devices: 1 } }
  expect { id: "loss" metric: "loss" unit: "nats" direction: LOWER }
  expect { id: "time" metric: "time_to_train" unit: "h" direction: LOWER single { v: 3.0 } }
  expect { id: "train.g1" bench: "train" metric: "throughput" unit: "img/s" direction: HIGHER single { v: 1376 } scope { devices: 1 batch: 192 } }
  expect { id: "train.g8" bench: "train" metric: "throughput" unit: "img/s" direction: HIGHER single { v: 10723 } scope { devices: 8 batch: 192 } }
  expect { id: "scale" metric: "weak_scaling" unit: "x" direction: HIGHER ratio { v: 7.79 num: "train.g8" den: "train.g1" } }
  expect { id: "speedup" metric: "throughput" unit: "x" direction: HIGHER ratio { v: 3.58 num: "train.g1" den: "train.g1" den_recipe: "resnet50/fp32" } }
  expect { id: "p99" bench: "infer" metric: "latency" unit: "ms" direction: LOWER quantile { p: 0.99 def: NEAREST_RANK } scope { batch: 1 } }
)";

PlanFacts facts_of(const std::string& device, uint32_t devices, uint32_t emulated = 0) {
  PlanFacts facts;
  facts.stage = {device, devices, emulated};
  return facts;
}

std::map<std::string, RowFate> fates(const v1::Recipe& recipe, const PlanFacts& facts) {
  std::map<std::string, RowFate> out;
  for (const v1::Expect& e : recipe.expect()) out[e.id()] = fate_of(recipe, e, facts);
  return out;
}

TEST(Fates, OneOtherDevice) {
  const v1::Recipe recipe = recipe_of(kRecipe);
  const auto f = fates(recipe, facts_of("a CPU", 1));
  EXPECT_EQ(f.at("top1").word, "NOT RUN");
  EXPECT_THAT(f.at("top1").why, HasSubstr("needs 8 devices, trains on 1 device"));
  EXPECT_THAT(f.at("top1").why, HasSubstr("--emulate-devices 8"));
  EXPECT_EQ(f.at("top1.g1").word, "judged") << "accuracies do not depend on the hardware";
  EXPECT_EQ(f.at("top1.g1").why, "at best REPRODUCED");
  EXPECT_EQ(f.at("loss").word, "measured only");
  EXPECT_EQ(f.at("time").word, "NOT RUN");
  EXPECT_EQ(f.at("train.g1").word, "NOT COMPARABLE");
  EXPECT_EQ(f.at("train.g1").why, "a CPU is not Tesla V100-SXM2-16GB");
  EXPECT_EQ(f.at("train.g8").word, "NOT RUN");
  EXPECT_EQ(f.at("scale").word, "NOT RUN");
  EXPECT_THAT(f.at("scale").why, HasSubstr("on 8 devices"));
  EXPECT_THAT(f.at("speedup").why, HasSubstr("needs a run of 'resnet50/fp32' too"));
  EXPECT_EQ(f.at("p99").word, "INVALID");
  EXPECT_THAT(f.at("p99").why, HasSubstr("100 steps, 368 needed"));
}

TEST(Fates, ThePublishedMachine) {
  const v1::Recipe recipe = recipe_of(kRecipe);
  const auto f = fates(recipe, facts_of("8 x Tesla V100-SXM2-32GB", 8));
  EXPECT_EQ(f.at("train.g8").why, "at best REPRODUCED");
  EXPECT_EQ(f.at("scale").word, "judged");
  EXPECT_EQ(f.at("time").word, "PROJECTED");
  EXPECT_EQ(f.at("time").why, "at best WITHIN TOLERANCE");
}

TEST(Fates, ARecipeThatDeclaresToBeAnother) {
  const v1::Recipe recipe = recipe_of(std::string(kRecipe) + R"(
    deviation { path: "training.epochs" source_has: "90" we_have: "9 epochs" effect: "weaker" not_comparable: true }
    deviation { path: "model" source_has: "50 layers" we_have: "18 layers" effect: "weaker" not_comparable: true }
    deviation { path: "io" source_has: "DALI" we_have: "our own loader" effect: "none" })");
  const auto f = fates(recipe, facts_of("8 x Tesla V100-SXM2-32GB", 8));
  EXPECT_EQ(f.at("train.g8").word, "NOT COMPARABLE");
  EXPECT_EQ(f.at("train.g8").why, "modified by the recipe: 9 epochs; 18 layers");
  EXPECT_EQ(f.at("loss").word, "measured only");
}

TEST(Fates, EmulatedDevices) {
  const v1::Recipe recipe = recipe_of(kRecipe);
  const auto f = fates(recipe, facts_of("a CPU", 1, 8));
  EXPECT_EQ(f.at("top1").word, "judged");
  EXPECT_EQ(f.at("top1.g1").word, "NOT RUN");
  EXPECT_EQ(f.at("train.g1").word, "NOT RUN");
  EXPECT_EQ(f.at("time").word, "NOT RUN");
}

TEST(Fates, WhatTheEngineRefuses) {
  const v1::Recipe recipe = recipe_of(kRecipe);
  PlanFacts facts = facts_of("a CPU", 1);
  facts.cannot_run = "there is no model 'resnet50_v1.5'";
  for (const auto& [id, f] : fates(recipe, facts)) {
    EXPECT_EQ(f.word, "NOT RUN") << id;
    EXPECT_EQ(f.why, facts.cannot_run);
  }
}

TEST(Seeds, PromisesWhatARunDelivers) {
  const v1::Recipe recipe = recipe_of(kRecipe);
  const std::string text = seeds_text(recipe, recipe.expect(0));
  // Simulated elsewhere: 0.71 at the level of the first of three looks.
  EXPECT_THAT(text, ::testing::ContainsRegex(
                        "if nothing is wrong, 3 seeds are REPRODUCED with probability 0\\.7[0-2], "
                        "[01]\\.[0-9]* with --top-up; 0\\.90 at once takes [4-6] seeds "));
  EXPECT_THAT(text, HasSubstr("if the published spread is underestimated"));
  EXPECT_THAT(seeds_text(recipe, recipe.expect(1)), HasSubstr("REPRODUCED with probability"));
  EXPECT_EQ(seeds_text(recipe, recipe.expect(2)), "");
  EXPECT_EQ(seeds_text(recipe, recipe.expect(4)), "");
}

TEST(Seeds, OfPublishedRowsWithoutASpread) {
  v1::Recipe recipe = recipe_of(R"(
    trials { count: 1 }
    expect { id: "em" metric: "em" unit: "%" direction: HIGHER single { v: 87.19 n: 1 } margin { absolute: 0.3 }
             lender { mean: 87.022 std: 0.1692 n: 5 } }
    expect { id: "alone" metric: "em" unit: "%" direction: HIGHER single { v: 87.19 } })");
  EXPECT_THAT(seeds_text(recipe, recipe.expect(0)),
              HasSubstr("1 seed is REPRODUCED with probability 0.00"));
  EXPECT_THAT(seeds_text(recipe, recipe.expect(1)), HasSubstr("judged by the margin alone"));
  recipe.mutable_trials()->set_count(5);
  EXPECT_THAT(seeds_text(recipe, recipe.expect(1)), HasSubstr("our own over the seeds"));
}

TEST(Cost, PublishedTimeThroughputAndOwnRuns) {
  v1::Recipe recipe = recipe_of(kRecipe);
  EXPECT_DOUBLE_EQ(published_cost(recipe)->device_hours, 24) << "3 h on 8 devices";
  recipe.mutable_expect(3)->clear_single();
  EXPECT_NEAR(published_cost(recipe)->device_hours, 8 * 90 * 1281167.0 / 10723 / 3600, 1e-9);
  Measurements earlier;
  EXPECT_FALSE(own_cost(recipe, earlier).has_value());
  BenchResult bench;
  bench.bench = "train";
  bench.batch = 192;
  bench.repeats = {{100, {}}, {110, {}}, {90, {}}};
  earlier.benches = {bench};
  EXPECT_NEAR(own_cost(recipe, earlier)->device_hours, 90 * 1281167.0 / 100 / 3600, 1e-9);
  Trial trial;
  trial.train_seconds = 7200;
  earlier.trials = {trial};
  EXPECT_DOUBLE_EQ(own_cost(recipe, earlier)->device_hours, 2);
  const double steps = 90 * 1281167.0 / (192 * 8);
  EXPECT_NEAR(disk_bytes(recipe, 3, 25557032), 3 * (16 * 25557032.0 + 40 * steps) + 8 * 100 * 7 * 3,
              1);
}

TEST(Cost, PhasesAreSummed) {
  const v1::Recipe recipe = recipe_of(R"(
    topology { nodes: 1 devices_per_node: 8 }
    training { phase { name: "a" training { steps: 10000 batch_per_device: 88 accumulate: 96 } }
               phase { name: "b" training { steps: 933 batch_per_device: 12 accumulate: 288 } } }
    bench { id: "ta" mode: TRAIN phase: "a" batch: 88 devices: [1, 8] }
    bench { id: "tb" mode: TRAIN phase: "b" batch: 12 devices: [1, 8] }
    expect { id: "a8" bench: "ta" metric: "throughput" unit: "seq/s" single { v: 3475 } scope { devices: 8 batch: 88 } }
    expect { id: "b8" bench: "tb" metric: "throughput" unit: "seq/s" single { v: 656 } scope { devices: 8 batch: 12 } })");
  EXPECT_NEAR(published_cost(recipe)->device_hours / 8, 64.95, 0.01);
}

TEST(PlanText, WholePlan) {
  ResolvedRecipe resolved;
  resolved.recipe = recipe_of(kRecipe);
  PlanFacts facts = facts_of("a CPU", 1);
  EXPECT_THAT(plan_text(resolved, facts), Not(HasSubstr("disk"))) << "of a model of unknown size";
  facts.parameters = 25557032;
  const std::string text = plan_text(resolved, facts);
  for (const char* part :
       {"machine     a CPU", "nowhere/imagenet (not there)",
        "3 × seed, 90 epochs of batch 192 on each of 8 devices, sgd 0.256",
        "3 at level 0.020, 6 at level 0.015, 8 at level 0.015", "on 1, 8 devices",
        "72.0 device-hours for 3 trials (published time of 8 devices)",
        "unknown until a run measured it", "GB for the run", "NOT RUN: needs 8 devices"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

}  // namespace
}  // namespace reciperun
