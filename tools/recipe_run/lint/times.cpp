// Times to train that are shorter than the images take at the published throughput.
#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/lint/lint.h"
#include "tools/recipe_run/lint/workload.h"

namespace reciperun::lint {
namespace {

constexpr double kTolerance = 0.01;

}  // namespace

void check_times(const Corpus& corpus, Findings& out) {
  for (const Printed& number : corpus.numbers) {
    if (number.expect->metric() != "time_to_train" || !number.expect->has_single()) continue;
    const auto needed = seconds_at_published_rate(corpus, *number.recipe, number.file);
    if (!needed) continue;
    const double unit = seconds_in(number.expect->unit());
    if (printed_interval(number).upper * unit >= *needed * (1 - kTolerance)) continue;
    out.push_back({"time", number.file, number.table->name, number.where() + ": " + number.column(),
                   "printed " + number.expect->at().printed() + " " + number.expect->unit() +
                       ", but the samples alone take " + significant(*needed / unit) + " " +
                       number.expect->unit() + " at the published throughput"});
  }
}

}  // namespace reciperun::lint
