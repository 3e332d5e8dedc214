#include "tools/recipe_run/lint/workload.h"

#include <algorithm>

namespace reciperun::lint {
namespace {

uint32_t devices_of(const v1::Recipe& recipe) {
  return std::max(1u, recipe.topology().nodes()) *
         std::max(1u, recipe.topology().devices_per_node());
}

// Samples of one pass over the training data.
uint64_t epoch_samples(const v1::Recipe& recipe) {
  for (const v1::DataRef& data : recipe.data()) {
    if (data.role() == "train")
      return data.nominal_epoch_samples() > 0 ? data.nominal_epoch_samples()
                                              : data.expect_samples();
  }
  return 0;
}

// Samples that a training, or one phase of it, goes through.
double samples_of(const v1::Training& training, const v1::Recipe& recipe, uint64_t steps) {
  const uint32_t devices = devices_of(recipe);
  if (training.has_epochs() && steps == 0)
    return training.epochs() * static_cast<double>(epoch_samples(recipe));
  const double each = static_cast<double>(training.batch_per_device()) *
                      std::max(1u, training.accumulate()) * devices;
  const double count = static_cast<double>(steps > 0 ? steps : training.steps());
  return count * each / (recipe.training().steps_divided_by_devices() ? devices : 1);
}

const v1::Bench* bench_of(const v1::Recipe& recipe, const std::string& id) {
  const auto it = std::find_if(recipe.bench().begin(), recipe.bench().end(),
                               [&](const v1::Bench& b) { return b.id() == id; });
  return it == recipe.bench().end() ? nullptr : &*it;
}

bool same_machine(const v1::Recipe& a, const v1::Recipe& b) {
  return a.platform().device() == b.platform().device() &&
         a.platform().host() == b.platform().host() &&
         a.numerics().compute() == b.numerics().compute() && a.model().arch() == b.model().arch();
}

// The published training rate under the conditions of `recipe`, at its upper end; 0 if there is
// none.
double published_rate(const Corpus& corpus, const v1::Recipe& recipe, const std::string& file,
                      const v1::Training& training, const std::string& phase) {
  for (const Printed& number : corpus.numbers) {
    const v1::Expect& e = *number.expect;
    if (number.file != file || e.metric() != "throughput" || !e.has_single()) continue;
    const v1::Bench* bench = bench_of(*number.recipe, e.bench());
    const bool trains =
        bench != nullptr && bench->mode() == v1::Bench::TRAIN && bench->phase() == phase;
    if (trains && e.scope().devices() == devices_of(recipe) &&
        e.scope().batch() == training.batch_per_device() && same_machine(recipe, *number.recipe))
      return printed_interval(number).upper;
  }
  return 0;
}

}  // namespace

std::optional<double> seconds_at_published_rate(const Corpus& corpus, const v1::Recipe& recipe,
                                                const std::string& file, uint64_t steps) {
  const v1::Training& training = recipe.training();
  if (training.phase().empty()) {
    const double rate = published_rate(corpus, recipe, file, training, "");
    if (rate <= 0) return std::nullopt;
    return samples_of(training, recipe, steps) / rate;
  }
  double seconds = 0;
  for (const v1::Phase& phase : training.phase()) {
    const double rate = published_rate(corpus, recipe, file, phase.training(), phase.name());
    if (rate <= 0) return std::nullopt;
    seconds += samples_of(phase.training(), recipe, steps) / rate;
  }
  return seconds;
}

double seconds_in(const std::string& unit) { return unit == "h" ? 3600 : unit == "min" ? 60 : 1; }

}  // namespace reciperun::lint
