#include "tools/recipe_run/plan/plan.h"

#include <algorithm>
#include <map>

#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/plan/cost.h"
#include "tools/recipe_run/plan/seeds.h"
#include "tools/recipe_run/statistics/sequential.h"
#include "tools/recipe_run/verdict/published.h"
#include "tools/recipe_run/verdict/training_length.h"

namespace reciperun {
namespace {

constexpr double kGigabyte = 1e9, kMegabyte = 1e6;

std::string line(const std::string& name, const std::string& text) {
  return text.empty() ? "" : pad_right(name, 12) + text + "\n";
}

std::string length_text(const v1::Training& training) {
  const std::string length = training.has_steps() ? std::to_string(training.steps()) + " steps"
                                                  : shortest(training.epochs()) + " epochs";
  return length + " of batch " + std::to_string(training.batch_per_device()) + ", " +
         training.optimizer().name() + " " + shortest(training.optimizer().lr());
}

std::string training_text(const v1::Recipe& recipe) {
  if (recipe.trials().count() == 0) return "nothing to the end";
  std::vector<std::string> parts;
  if (recipe.training().phase().empty()) parts.push_back(length_text(recipe.training()));
  for (const v1::Phase& phase : recipe.training().phase())
    parts.push_back(phase.name() + ": " + length_text(phase.training()));
  return std::to_string(recipe.trials().count()) + " × " + recipe.trials().unit() + ", " +
         join(parts, "; ");
}

std::string looks_text(const v1::Trials& trials) {
  const std::vector<uint32_t> looks = planned_looks(trials.count(), trials.max_count());
  if (trials.count() == 0 || looks.size() < 2) return "";
  std::vector<std::string> parts;
  for (size_t i = 0; i < looks.size(); ++i)
    parts.push_back(std::to_string(looks[i]) + " at level " +
                    fixed(level_of_look(static_cast<int>(i)), 3));
  return "with --top-up, while a row is undecided: " + join(parts, ", ");
}

std::string bench_text(const v1::Bench& bench) {
  std::vector<std::string> batches;
  for (const uint32_t batch : bench.batch()) batches.push_back(std::to_string(batch));
  std::string text = bench.id() + ", batch " + join(batches, ", ");
  if (bench.devices_size() > 1) {
    std::vector<std::string> devices;
    for (const uint32_t d : bench.devices()) devices.push_back(std::to_string(d));
    text += ", on " + join(devices, ", ") + " devices";
  }
  text += ", " + std::to_string(bench.repeats()) + " repeats";
  if (bench.max_seconds() > 0) {
    text += ", at most " +
            duration_text(bench.max_seconds() * 1.5 * bench.repeats() * bench.batch_size());
  }
  return text;
}

std::string hours_text(const TrialCost& cost, uint32_t trials) {
  return significant(cost.device_hours * trials, 3) + " device-hours for " +
         std::to_string(trials) + (trials == 1 ? " trial" : " trials") + " (" + cost.from + ")";
}

std::string cost_text(const v1::Recipe& recipe, const PlanFacts& facts) {
  const uint32_t trials = recipe.trials().count();
  if (trials == 0) return "";
  std::string text;
  if (const auto cost = published_cost(recipe))
    text += line("published", hours_text(*cost, trials));
  std::optional<TrialCost> here;
  if (facts.earlier) here = own_cost(recipe, *facts.earlier);
  std::string unknown = "unknown until a run measured it";
  if (!recipe.bench().empty() && facts.machine.cannot_run.empty())
    unknown += ": 'recipe-run run " + recipe.id() + " --bench-only' does";
  text += line("here", here ? hours_text(*here, trials) + ", run " + facts.earlier_run : unknown);
  return text;
}

std::string size_text(double bytes) {
  const bool small = bytes < kGigabyte / 10;
  return significant(bytes / (small ? kMegabyte : kGigabyte), 2) + (small ? " MB" : " GB");
}

std::string disk_text(const v1::Recipe& recipe, const PlanFacts& facts) {
  const double needed = disk_bytes(recipe, recipe.trials().count());
  std::error_code error;
  fs::path folder = fs::absolute(facts.runs, error);
  while (!fs::exists(folder, error) && folder.has_relative_path()) folder = folder.parent_path();
  const fs::space_info space = fs::space(folder, error);
  std::string text = size_text(needed) + " for the run";
  if (!error) {
    text += ", " + size_text(static_cast<double>(space.available)) + " free";
    if (needed > static_cast<double>(space.available)) text += ": NOT ENOUGH";
  }
  return text;
}

// Where the data sets are expected, and which are there.
std::string data_text(const v1::Recipe& recipe) {
  std::map<std::string, bool> sets;
  for (const v1::DataRef& data : recipe.data()) {
    std::error_code ignored;
    const fs::path folder = fs::path(recipe.io().data_root()) / data.lock();
    sets[folder.string()] = fs::exists(folder, ignored);
  }
  std::vector<std::string> parts;
  for (const auto& [folder, there] : sets) parts.push_back(folder + (there ? "" : " (not there)"));
  return join(parts, ", ");
}

// `said`: a reason that stands above all rows already.
std::string row_text(const v1::Recipe& recipe, const RowFate& fate, const std::string& said,
                     int width) {
  const v1::Expect& e = *fate.expect;
  const Published published = published_side(e);
  std::string text = "  " + pad_right(e.id(), width) + "  " +
                     pad_right(published.value ? published_text(e) + " " + e.unit() : "—", 18) +
                     fate_word(fate.fate) +
                     (fate.why.empty() || fate.why == said ? "" : ": " + fate.why);
  if (e.gate() && fate.fate == Fate::kJudged) text += ", decides the exit code";
  text += "\n";
  if (fate.fate == Fate::kNotRun && recipe.trials().count() == 0) return text;
  for (const std::string& note :
       {seeds_text(recipe, e, recipe.trials().count()), samples_text(recipe, e)}) {
    if (!note.empty()) text += "    ↳ " + note + "\n";
  }
  return text;
}

std::string summary_text(const std::vector<RowFate>& fates) {
  std::map<Fate, int> counts;
  for (const RowFate& f : fates) ++counts[f.fate];
  std::vector<std::string> parts;
  for (const auto& [fate, count] : counts)
    parts.push_back(std::to_string(count) + " " + fate_word(fate));
  return join(parts, ", ");
}

}  // namespace

std::string plan_text(const ResolvedRecipe& resolved, const PlanFacts& facts) {
  const v1::Recipe& recipe = resolved.recipe;
  const std::vector<RowFate> fates = row_fates(recipe, facts.machine);
  std::string text = (recipe.title().empty() ? recipe.id() : recipe.title()) + "\n";
  text += line("machine", facts.machine.title);
  if (!facts.machine.cannot_run.empty()) text += line("cannot run", facts.machine.cannot_run);
  text += line("data", data_text(recipe));
  text += line("trains", training_text(recipe)) + line("", looks_text(recipe.trials()));
  for (const v1::Bench& bench : recipe.bench()) text += line("measures", bench_text(bench));
  text += cost_text(recipe, facts) + line("disk", disk_text(recipe, facts));
  text += line("rows", summary_text(fates)) + "\n";
  int width = 0;
  for (const RowFate& f : fates) width = std::max(width, display_width(f.expect->id()));
  for (const RowFate& f : fates) text += row_text(recipe, f, facts.machine.cannot_run, width);
  return text;
}

}  // namespace reciperun
