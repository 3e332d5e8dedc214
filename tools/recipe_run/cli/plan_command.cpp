// `recipe-run plan`.

#include "tools/recipe_run/base/error.h"
#include "tools/recipe_run/cli/commands.h"
#include "tools/recipe_run/cli/model_check.h"
#include "tools/recipe_run/cli/output.h"
#include "tools/recipe_run/cli/plan.h"
#include "tools/recipe_run/recipe/load.h"
#include "tools/recipe_run/report/report.h"
#include "tools/recipe_run/run_record/machine.h"
#include "tools/recipe_run/run_record/record.h"
#include "tools/recipe_run/sources/verify.h"

namespace reciperun {
namespace {

// What the engine says to the recipe, without starting anything.
void add_machine(const ResolvedRecipe& resolved, const PlanArguments& arguments,
                 const DriverFactory& make_driver, PlanFacts& facts) {
  const v1::Recipe& recipe = resolved.recipe;
  record::Machine machine = capture_machine();
  facts.stage.device = machine_title(machine);
  try {
    const auto driver = make_driver({recipe.io().threads(), arguments.device});
    const EngineInfo info = driver->info();
    machine.set_gpu(info.gpu);
    facts.stage = {machine_title(machine), info.devices, arguments.emulate_devices};
    facts.cannot_run = why_not_here(resolved, arguments.emulate_devices, *driver);
    if (facts.cannot_run.empty()) driver->check(recipe);
  } catch (const Error& error) {
    facts.cannot_run = error.what();
  }
}

// The newest run of the recipe, if there is one that can be read.
void add_earlier_run(const ResolvedRecipe& resolved, const PlanArguments& arguments,
                     PlanFacts& facts) {
  std::vector<std::string> skipped;
  const auto found =
      find_run(facts.runs, resolved, {arguments.device, arguments.emulate_devices}, skipped);
  if (!found) return;
  try {
    const RunRecord record = RunRecord::open(*found);
    facts.earlier = record.measurements();
    facts.earlier_run = record.info().id();
  } catch (const Error&) {  // a damaged record tells nothing; `report` says what is wrong with it
  }
}

}  // namespace

int plan_recipe(const fs::path& root, const PlanArguments& arguments,
                const DriverFactory& make_driver) {
  const RecipeFile file = locate_recipe(root, arguments.recipe);
  const ResolvedRecipe resolved = load_recipe(file, arguments.sets);
  require_concrete(resolved);
  require_sources(resolved, file.root);
  PlanFacts facts;
  facts.runs = arguments.runs;
  add_machine(resolved, arguments, make_driver, facts);
  add_earlier_run(resolved, arguments, facts);
  std::string text = plan_text(resolved, facts);
  for (const std::string& deviation : deviation_lines(resolved.recipe))
    text += "deviation  " + deviation + "\n";
  if (!resolved.modified_reason().empty())
    text += "\nevery published row will be NOT COMPARABLE (" + resolved.modified_reason() + ")\n";
  print(text);
  return 0;
}

}  // namespace reciperun
