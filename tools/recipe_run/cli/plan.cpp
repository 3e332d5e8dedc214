// What a plan says of training, cost, disk and rows, and the command that prints it.
#include "tools/recipe_run/cli/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tools/recipe_run/cli/commands.h"
#include "tools/recipe_run/cli/output.h"
#include "tools/recipe_run/judge/published.h"
#include "tools/recipe_run/judge/row_kinds.h"
#include "tools/recipe_run/recipe/data_lock.h"
#include "tools/recipe_run/recipe/facts.h"
#include "tools/recipe_run/recipe/load.h"
#include "tools/recipe_run/recipe/sources.h"
#include "tools/recipe_run/record/machine.h"
#include "tools/recipe_run/report/report.h"
#include "tools/recipe_run/stats/looks.h"
#include "tools/recipe_run/stats/means.h"
#include "tools/recipe_run/util/error.h"
#include "tools/recipe_run/util/text.h"

namespace reciperun {
namespace {

constexpr double kGigabyte = 1e9, kMegabyte = 1e6;
constexpr double kHour = 3600;
constexpr double kBytesPerParameter = 16;
constexpr double kBytesPerTrainingStep = 40;  // five columns of steps.bin
constexpr double kBytesPerMeasuredStep = 8;
constexpr double kLikely = 0.9;

// Published throughput of a phase on `devices`, 0 if the recipe has no such row.
double published_rate(const v1::Recipe& recipe, const TrainingPhase& phase, uint32_t devices) {
  const v1::Bench* bench = training_bench(recipe, phase);
  for (const v1::Expect& e : recipe.expect()) {
    if (bench != nullptr && e.bench() == bench->id() && e.metric() == "throughput" &&
        e.has_single() && devices_of(recipe, e) == devices &&
        (e.scope().batch() == 0 || e.scope().batch() == phase.batch_per_device))
      return e.single().v() / unit_factor(e.unit());
  }
  return 0;
}

// Hours that the phases take at the rates that `rate_of` knows; absent if one is unknown.
template <class RateOf>
std::optional<double> hours_at(const v1::Recipe& recipe, const RateOf& rate_of) {
  double hours = 0;
  for (const TrainingPhase& phase : training_phases(recipe, devices_of(recipe))) {
    const double rate = rate_of(phase);
    if (rate <= 0 || phase.items <= 0) return std::nullopt;
    hours += phase.items / rate / kHour;
  }
  return hours;
}

std::string line(const std::string& name, const std::string& text) {
  return text.empty() ? "" : pad_right(name, 12) + text + "\n";
}

// The updates of a phase as the recipe's devices make them, and their rate after the warm-up.
std::string length_text(const v1::Recipe& recipe, const v1::Training& training,
                        const TrainingPhase& phase) {
  const double global_batch = phase.steps > 0 ? phase.items / phase.steps : 0;
  const bool scaled = training.optimizer().lr_rule() == "per_256_global_batch";
  const double rate = training.optimizer().lr() * (scaled ? global_batch / 256 : 1);
  std::string text = training.has_steps() ? shortest(phase.steps) + " steps"
                                          : shortest(training.epochs()) + " epochs";
  text += fmt::format(" of batch {}", phase.batch_per_device);
  if (training.accumulate() > 1) text += fmt::format(" × {}", training.accumulate());
  if (devices_of(recipe) > 1) text += " on each of " + device_count(devices_of(recipe));
  return fmt::format("{}, {} {}", text, training.optimizer().name(), shortest(rate));
}

std::string training_text(const v1::Recipe& recipe) {
  if (recipe.trials().count() == 0) return "nothing to the end";
  const std::vector<TrainingPhase> phases = training_phases(recipe, devices_of(recipe));
  std::vector<std::string> parts;
  if (recipe.training().phase().empty())
    parts.push_back(length_text(recipe, recipe.training(), phases[0]));
  for (int i = 0; i < recipe.training().phase_size(); ++i) {
    const v1::Phase& phase = recipe.training().phase(i);
    parts.push_back(phase.name() + ": " +
                    length_text(recipe, phase.training(), phases[static_cast<size_t>(i)]));
  }
  return fmt::format("{} × {}, {}", recipe.trials().count(), recipe.trials().unit(),
                     join(parts, "; "));
}

std::string looks_text(const v1::Recipe& recipe) {
  const std::vector<uint32_t> looks = trial_looks(recipe);
  if (looks.size() < 2) return "";
  std::vector<std::string> parts;
  for (size_t i = 0; i < looks.size(); ++i)
    parts.push_back(
        fmt::format("{} at level {}", looks[i], fixed(level_of_look(static_cast<int>(i)), 3)));
  return "with --top-up, while a row is undecided: " + join(parts, ", ");
}

std::string bench_text(const v1::Bench& bench) {
  std::string text = fmt::format("{}, batch {}", bench.id(), fmt::join(bench.batch(), ", "));
  if (bench.devices_size() > 1)
    text += fmt::format(", on {} devices", fmt::join(bench.devices(), ", "));
  text += fmt::format(", {} repeats", bench.repeats());
  if (bench.max_seconds() > 0)
    text += ", at most " +
            duration_text(bench.max_seconds() * 1.5 * bench.repeats() * bench.batch_size());
  return text;
}

std::string hours_text(const TrialCost& cost, uint32_t trials) {
  return fmt::format("{} device-hours for {} trial{} ({})",
                     significant(cost.device_hours * trials, 3), trials, trials == 1 ? "" : "s",
                     cost.from);
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
  if (!recipe.bench().empty() && facts.cannot_run.empty())
    unknown += fmt::format(": 'recipe-run run {} --bench-only' does", recipe.id());
  text += line("here", here ? hours_text(*here, trials) + ", run " + facts.earlier_run : unknown);
  return text;
}

std::string size_text(double bytes) {
  const bool small = bytes < kGigabyte / 10;
  return significant(bytes / (small ? kMegabyte : kGigabyte), 2) + (small ? " MB" : " GB");
}

std::string disk_text(const v1::Recipe& recipe, const PlanFacts& facts) {
  const uint32_t trials = recipe.trials().count();
  if (trials > 0 && facts.parameters == 0) return "";  // checkpoints of unknown size
  const double needed = disk_bytes(recipe, trials, facts.parameters);
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
    const fs::path folder = fs::path(recipe.io().data_root()) / data.lock();
    sets[folder.string()] = is_there(folder);
  }
  std::vector<std::string> parts;
  for (const auto& [folder, there] : sets) parts.push_back(folder + (there ? "" : " (not there)"));
  return join(parts, ", ");
}

std::string row_text(const v1::Recipe& recipe, const v1::Expect& e, const RowFate& fate,
                     const PlanFacts& facts, int width) {
  const bool published = has_published_value(e);
  std::string text =
      fmt::format("  {}  {}{}", pad_right(e.id(), width),
                  pad_right(published ? published_text(e) + " " + e.unit() : "—", 18), fate.word);
  if (!fate.why.empty() && fate.why != facts.cannot_run) text += ": " + fate.why;
  if (e.gate() && fate.word == "judged") text += ", decides the exit code";
  text += "\n";
  if (e.has_suspect()) text += "    ↳ SUSPECT SOURCE: " + e.suspect().why() + "\n";
  const std::string seeds = fate.word == "judged" ? seeds_text(recipe, e) : "";
  return seeds.empty() ? text : text + "    ↳ " + seeds + "\n";
}

std::string summary_text(const std::vector<RowFate>& fates) {
  std::map<std::string, int> counts;
  for (const RowFate& f : fates) ++counts[f.word];
  std::vector<std::string> parts;
  for (const auto& [word, count] : counts) parts.push_back(fmt::format("{} {}", count, word));
  return join(parts, ", ");
}

// "5 seeds", and what is said if no number is enough.
std::string seeds_for_text(const v1::Recipe& recipe, const v1::Expect& e, double spread_factor) {
  const uint32_t n = seeds_for(kLikely, recipe, e, spread_factor);
  return n == 0 ? "more than 100 seeds" : fmt::format("{} seeds", n);
}

}  // namespace

RowFate fate_of(const v1::Recipe& recipe, const v1::Expect& expect, const PlanFacts& facts) {
  if (!facts.cannot_run.empty()) return {"NOT RUN", facts.cannot_run};
  const Row row = rehearse(recipe, expect, facts.stage);
  const Verdict verdict = row.judgement.verdict;
  if (verdict == Verdict::kNoPublishedValue) return {"measured only", ""};
  if (!is_compared(verdict)) return {verdict_word(verdict), row.judgement.reason};
  return {row.evidence == Evidence::kProjected ? "PROJECTED" : "judged",
          "at best " + verdict_word(verdict)};
}

std::string seeds_text(const v1::Recipe& recipe, const v1::Expect& e) {
  const uint32_t seeds = recipe.trials().count() / trials_per_seed(recipe);
  if (kind_of(e) != RowKind::kTrials || statistic_of(e) != Statistic::kMean ||
      !has_published_value(e))
    return "";
  const auto chance = chance_of_reproduced(recipe, e, seeds);
  if (!chance) {
    return seeds >= 2 ? "no published spread: our own over the seeds stands for it"
                      : "no published spread: judged by the margin alone; two seeds or more show "
                        "equivalence by their own spread";
  }
  std::string text = fmt::format("if nothing is wrong, {} {} REPRODUCED with probability {}", seeds,
                                 seeds == 1 ? "seed is" : "seeds are", fixed(chance->at_once, 2));
  if (trial_looks(recipe).size() > 1)
    text += ", " + fixed(chance->with_top_up, 2) + " with --top-up";
  const Published published = published_runs(recipe, e);
  const int runs = published.has_spread() ? published.runs.n : published.lender->n;
  return fmt::format("{}; 0.90 at once takes {} ({} if the published spread is underestimated)",
                     text, seeds_for_text(recipe, e, 1),
                     seeds_for_text(recipe, e, sd_upper_factor(runs)));
}

std::optional<TrialCost> published_cost(const v1::Recipe& recipe) {
  for (const v1::Expect& e : recipe.expect()) {
    if (kind_of(e) != RowKind::kTime || !e.has_single()) continue;
    const uint32_t devices = devices_of(recipe, e);
    return TrialCost{e.single().v() / unit_factor(e.unit()) / kHour * devices,
                     std::string(e.has_suspect() ? "suspect " : "") + "published time of " +
                         device_count(devices)};
  }
  const uint32_t devices = devices_of(recipe);
  const auto hours = hours_at(
      recipe, [&](const TrainingPhase& phase) { return published_rate(recipe, phase, devices); });
  if (!hours) return std::nullopt;
  return TrialCost{*hours * devices, "published throughput"};
}

std::optional<TrialCost> own_cost(const v1::Recipe& recipe, const Measurements& earlier) {
  std::vector<double> seconds;
  for (const Trial& trial : earlier.trials) {
    if (trial.failure.empty()) seconds.push_back(trial.train_seconds);
  }
  if (!seconds.empty())
    return TrialCost{median(seconds) / kHour, fmt::format("{} finished trials", seconds.size())};
  const auto hours = hours_at(recipe, [&](const TrainingPhase& phase) {
    const BenchResult* result = training_result(recipe, earlier, phase, 1);
    return result == nullptr ? 0 : median(result->rates());
  });
  if (!hours) return std::nullopt;
  return TrialCost{*hours, "measured throughput of one device"};
}

double disk_bytes(const v1::Recipe& recipe, uint32_t trials, uint64_t parameters) {
  double steps = 0;
  for (const TrainingPhase& phase : training_phases(recipe, devices_of(recipe)))
    steps += phase.steps;
  double bytes = trials * (kBytesPerParameter * static_cast<double>(parameters) +
                           kBytesPerTrainingStep * steps);
  for (const v1::Bench& bench : recipe.bench())
    bytes += kBytesPerMeasuredStep * bench.measure_steps() * bench.repeats() * bench.batch_size() *
             std::max(1, bench.devices_size());
  return bytes;
}

std::string plan_text(const ResolvedRecipe& resolved, const PlanFacts& facts) {
  const v1::Recipe& recipe = resolved.recipe;
  std::vector<RowFate> fates;
  int width = 0;
  for (const v1::Expect& e : recipe.expect()) {
    fates.push_back(fate_of(recipe, e, facts));
    width = std::max(width, display_width(e.id()));
  }
  std::string text = (recipe.title().empty() ? recipe.id() : recipe.title()) + "\n";
  text += line("machine", facts.stage.device);
  text += line("cannot run", facts.cannot_run);
  text += line("data", data_text(recipe));
  text += line("trains", training_text(recipe)) + line("", looks_text(recipe));
  for (const v1::Bench& bench : recipe.bench()) text += line("measures", bench_text(bench));
  text += cost_text(recipe, facts) + line("disk", disk_text(recipe, facts));
  text += line("rows", summary_text(fates)) + "\n";
  for (size_t i = 0; i < fates.size(); ++i)
    text += row_text(recipe, recipe.expect(static_cast<int>(i)), fates[i], facts, width);
  return text;
}

// `recipe-run plan`.

namespace {

// What the engine says to the recipe, without starting anything.
void add_machine(const ResolvedRecipe& resolved, const PlanArguments& arguments,
                 const DriverFactory& make_driver, PlanFacts& facts) {
  const v1::Recipe& recipe = resolved.recipe;
  record::Machine machine = capture_machine();
  facts.stage.device = machine_title(machine);
  try {
    const auto driver = make_driver(arguments.place.device, recipe.io().threads());
    const EngineInfo info = driver->info();
    machine.set_gpu(info.gpu);
    facts.stage = {machine_title(machine), info.devices, arguments.place.emulated_devices};
    facts.place.data = content_digests(
        recipe, [&](const fs::path& folder) { return driver->describe_data(folder); });
    facts.cannot_run = why_not_here(resolved, arguments.place.emulated_devices, *driver);
    if (facts.cannot_run.empty()) facts.parameters = driver->check(recipe);
  } catch (const Error& error) {
    facts.cannot_run = error.what();
  }
}

// The newest run of the recipe, if there is one that can be read.
void add_earlier_run(const ResolvedRecipe& resolved, PlanFacts& facts) {
  std::vector<std::string> skipped;
  const auto found = find_run(facts.runs, resolved, facts.place, skipped);
  if (!found) return;
  try {
    const RunRecord record = RunRecord::open(*found);
    facts.earlier = record.measurements();
    facts.earlier_run = record.info().id();
  } catch (const Error&) {  // a damaged record tells nothing; `report` says what is wrong with it
  }
}

}  // namespace

Exit plan_command(const fs::path& root, const PlanArguments& arguments,
                  const DriverFactory& make_driver) {
  const RecipeFile file = locate_recipe(root, arguments.recipe);
  const ResolvedRecipe resolved = load_recipe(file, arguments.sets);
  require_concrete(resolved);
  require_sources(resolved, file.root);
  PlanFacts facts;
  facts.runs = arguments.runs;
  facts.place = arguments.place;
  facts.parameters = resolved.recipe.model().expect_parameters();
  add_machine(resolved, arguments, make_driver, facts);
  add_earlier_run(resolved, facts);
  std::string text = plan_text(resolved, facts);
  for (const std::string& deviation : deviation_lines(resolved.recipe))
    text += "deviation  " + deviation + "\n";
  if (!resolved.modified_reason().empty())
    text += "\nevery published row will be NOT COMPARABLE (" + resolved.modified_reason() + ")\n";
  print(text);
  return Exit::kOk;
}

}  // namespace reciperun
