// `recipe-run predict`: what a trained model of pixels makes of pictures.
#include <unistd.h>

#include <cstdio>

#include "tools/recipe_run/base/error.h"
#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/cli/commands.h"
#include "tools/recipe_run/cli/record_commands.h"
#include "tools/recipe_run/cli/signals.h"
#include "tools/recipe_run/run_record/record.h"

namespace reciperun {
namespace {

void require_tiff_name(const std::string& name) {
  if (name.ends_with(".tif") || name.ends_with(".tiff")) return;
  throw Error(Exit::kUsage, "--to '" + name + "' must end in .tif: the pages of a TIFF file");
}

// The slices that are read must survive, and the work must have somewhere to go.
void require_free_target(const std::string& from, const std::string& to) {
  std::error_code absent;
  if (!from.empty() && fs::equivalent(from, to, absent))
    throw Error(Exit::kUsage, "--to '" + to + "' is the file that --from names");
  const fs::path folder = fs::absolute(to).parent_path();
  if (!fs::is_directory(folder))
    throw Error(Exit::kUsage, "--to '" + to + "': there is no folder '" + folder.string() + "'");
  if (fs::is_directory(to)) throw Error(Exit::kUsage, "--to '" + to + "' is a folder");
}

// The trial that was asked for, else the first of the run that has a checkpoint.
uint64_t choose_trial(const RunRecord& run, const std::optional<uint64_t>& asked) {
  std::vector<uint64_t> candidates =
      trial_seeds(run.recipe().trials(), run.recipe().trials().count());
  if (asked) candidates = {*asked};
  for (const uint64_t trial : candidates) {
    if (!run.checkpoint_of(trial).empty()) return trial;
  }
  throw Error(Exit::kUsage,
              "run '" + run.info().id() + "' has no checkpoint" +
                  (asked ? " of trial " + std::to_string(*asked) : std::string()),
              "'recipe-run run " + run.info().recipe() + "' trains one");
}

}  // namespace

int predict_command(const PredictArguments& arguments, const DriverFactory& make_driver) {
  require_tiff_name(arguments.to);
  require_free_target(arguments.from, arguments.to);
  const RunRecord run = RunRecord::open(find_run_folder(arguments.runs, arguments.run));
  require_readable(run);
  const uint64_t trial = choose_trial(run, arguments.trial);
  v1::Recipe recipe = run.recipe();
  if (!arguments.data.empty()) recipe.mutable_io()->set_data_root(arguments.data);
  const fs::path checkpoint = run.checkpoint_of(trial);
  const std::string device = arguments.device.empty() ? run.place().device : arguments.device;
  const auto driver = make_driver({recipe.io().threads(), device});
  const std::atomic<bool>& stop = stop_on_signals();
  Progress progress(stderr, isatty(STDERR_FILENO) != 0);
  progress.begin("trial " + std::to_string(trial) + ", " + checkpoint.filename().string());
  const int64_t pages =
      driver->predict(recipe, {checkpoint, arguments.from, arguments.to}, [&](double fraction) {
        progress.update(fraction, "labelling");
        return !stop.load();
      });
  progress.end(std::to_string(pages) + " slices labelled");
  std::printf("%s\n", arguments.to.c_str());
  return 0;
}

}  // namespace reciperun
