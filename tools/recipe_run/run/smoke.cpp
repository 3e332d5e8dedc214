#include "tools/recipe_run/run/smoke.h"

#include <algorithm>

#include "tools/recipe_run/base/error.h"

namespace reciperun {
namespace {

constexpr uint32_t kSteps = 4, kBatch = 4;

using Sets = std::vector<std::string>;

std::string number(double value) {
  const std::string text = std::to_string(value);
  return text.substr(0, std::max(text.find_last_not_of('0'), text.find('.') + 1) + 1);
}

void shorten_training(const v1::Training& training, Sets& sets) {
  const bool laid_out = training.schedule().span() > 0;
  if (training.length_case() == v1::Training::kEpochs && !laid_out)
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

void use_one_device(const v1::Topology& topology, Sets& sets) {
  if (topology.nodes() > 1) sets.push_back("topology.nodes=1");
  if (topology.devices_per_node() > 1) sets.push_back("topology.devices_per_node=1");
}

}  // namespace

std::vector<std::string> smoke_sets(const v1::Recipe& recipe, const std::string& device) {
  const bool trains = recipe.training().length_case() != v1::Training::LENGTH_NOT_SET;
  if (!trains || recipe.trials().count() == 0) {
    throw Error(Exit::kUsage, "'" + recipe.id() + "' trains nothing that --smoke could try",
                "run it with --bench-only");
  }
  Sets sets;
  shorten_training(recipe.training(), sets);
  if (device == "cpu") lower_precision(recipe.numerics(), sets);
  accept_any_data(recipe, sets);
  use_one_device(recipe.topology(), sets);
  sets.push_back("evaluation.when=end");
  sets.push_back("evaluation.batch=" + std::to_string(kBatch));
  sets.push_back("trials.count=1");
  return sets;
}

}  // namespace reciperun
