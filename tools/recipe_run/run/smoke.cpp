#include "tools/recipe_run/run/smoke.h"

#include <algorithm>

#include "tools/recipe_run/base/error.h"

namespace reciperun {
namespace {

constexpr uint32_t kSteps = 4, kBatch = 4;
constexpr uint32_t kEvaluationBatches = 4, kBenchSteps = 8;

using Sets = std::vector<std::string>;

std::string number(double value) {
  const std::string text = std::to_string(value);
  return text.substr(0, std::max(text.find_last_not_of('0'), text.find('.') + 1) + 1);
}

void shorten_training(const v1::Training& training, Sets& sets) {
  const std::string& kind = training.schedule().kind();
  const bool has_length = kind == "cosine" || kind == "linear" || kind == "polynomial";
  const bool laid_out = training.schedule().span() > 0;
  if (training.length_case() == v1::Training::kEpochs && has_length && !laid_out)
    sets.push_back("training.schedule.span=" + number(training.epochs()));
  sets.push_back("training.steps=" + std::to_string(kSteps));
  sets.push_back("training.batch_per_device=" +
                 std::to_string(std::min(training.batch_per_device(), kBatch)));
  if (training.accumulate() > 1) sets.push_back("training.accumulate=1");
}

// What a CPU computes in place of it.
void lower_precision(const v1::Numerics& numerics, Sets& sets) {
  if (numerics.compute() == v1::Numerics::TF32) sets.push_back("numerics.compute=FP32");
  if (numerics.compute() == v1::Numerics::AMP_FP16) sets.push_back("numerics.compute=AMP_BF16");
}

void accept_any_data(const v1::Recipe& recipe, Sets& sets) {
  for (const v1::DataRef& data : recipe.data()) {
    if (data.expect_samples() > 0) sets.push_back("data." + data.id() + ".expect_samples=0");
  }
}

// The evaluation still falls into the parts of the devices that the recipe is for.
void use_one_device(const v1::Recipe& recipe, Sets& sets) {
  const v1::Topology& topology = recipe.topology();
  const uint32_t devices =
      std::max(1u, topology.nodes()) * std::max(1u, topology.devices_per_node());
  const auto& metrics = recipe.evaluation().metric();
  const bool classifies = std::find(metrics.begin(), metrics.end(), "top1") != metrics.end();
  if (devices > 1 && classifies && !recipe.evaluation().arg().contains("shards"))
    sets.push_back("evaluation.arg.shards=" + std::to_string(devices));
  if (topology.nodes() > 1) sets.push_back("topology.nodes=1");
  if (topology.devices_per_node() > 1) sets.push_back("topology.devices_per_node=1");
}

void shorten_benches(const v1::Recipe& recipe, Sets& sets) {
  for (const v1::Bench& bench : recipe.bench()) {
    const std::string path = "bench." + bench.id() + ".";
    const uint32_t smallest = *std::min_element(bench.batch().begin(), bench.batch().end());
    sets.push_back(path + "devices=[1]");
    sets.push_back(path + "batch=[" + std::to_string(std::min(smallest, kBatch)) + "]");
    sets.push_back(path + "warmup_steps=1");
    sets.push_back(path + "measure_steps=" + std::to_string(kBenchSteps));
    sets.push_back(path + "repeats=1");
  }
}

void shorten_trials(const v1::Recipe& recipe, Sets& sets) {
  shorten_training(recipe.training(), sets);
  sets.push_back("evaluation.when=end");
  sets.push_back("evaluation.batch=" + std::to_string(kBatch));
  sets.push_back("evaluation.batches=" + std::to_string(kEvaluationBatches));
  sets.push_back("trials.count=1");
}

}  // namespace

std::vector<std::string> smoke_sets(const v1::Recipe& recipe, const std::string& device) {
  const bool has_length = recipe.training().length_case() != v1::Training::LENGTH_NOT_SET;
  const bool trains = recipe.trials().count() > 0;
  if (trains ? !has_length : recipe.bench().empty()) {
    throw Error(Exit::kUsage, "'" + recipe.id() + "' has nothing that --smoke could try",
                "'recipe-run plan " + recipe.id() + "' says what it does");
  }
  Sets sets;
  trains ? shorten_trials(recipe, sets) : shorten_benches(recipe, sets);
  if (device == "cpu") lower_precision(recipe.numerics(), sets);
  accept_any_data(recipe, sets);
  use_one_device(recipe, sets);
  return sets;
}

}  // namespace reciperun
