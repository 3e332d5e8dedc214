#include "tools/recipe_run/cli/app.h"

#include <CLI/CLI.hpp>

#include "tools/recipe_run/base/error.h"
#include "tools/recipe_run/cli/data_commands.h"
#include "tools/recipe_run/cli/output.h"
#include "tools/recipe_run/cli/record_commands.h"
#include "tools/recipe_run/cli/source_commands.h"

namespace reciperun {
namespace {

constexpr char kIntroduction[] =
    "Trains and measures what a recipe describes, and holds the results against the published "
    "values, row by row.";

constexpr char kExamples[] = R"(Examples:
  recipe-run list                                    what there is
  recipe-run plan fashion_mnist/cnn_2conv_bn         what would run, and how many seeds a row needs
  recipe-run run fashion_mnist/cnn_2conv_bn          train, measure, report; interrupted, the same command continues
  recipe-run run fashion_mnist/cnn_2conv_bn --seeds 5
                                                     two more seeds for the run that is there
  recipe-run run fashion_mnist/cnn_2conv_bn --top-up
                                                     more seeds only while a row is undecided
  recipe-run run fashion_mnist/cnn_2conv_bn --set training.epochs=1 --no-bench
                                                     a quick try; its rows become NOT COMPARABLE
  recipe-run run fashion_mnist/resnet18 --smoke      four steps, whatever the data: does it train at all?
  recipe-run run unet_medical/dgx_a100_amp_1gpu --device cuda:0
                                                     on the first NVIDIA GPU
  recipe-run explain fashion_mnist/cnn_2conv_bn training.optimizer
                                                     values, and the file and line that set them
  recipe-run report                                  the newest run again, verdicts computed anew
  recipe-run report RUN --with OTHER                 ratios over two recipes, times from the other's throughput
  recipe-run compare FIRST SECOND                    two runs against each other, row by row
  recipe-run verify                                  was the newest run edited?
  recipe-run data verify                             are the data those that the recipes mean?
  recipe-run report --format junit                   its rows as test cases

Exit codes:
  0 none of those below                                 1 a gate row differs for the worse
  2 usage or recipe error                               3 a gate row is INCONCLUSIVE or INVALID
  4 nothing could be run here; with --require also: a gate row was not run or cannot be compared
  5 training or a measurement failed                    6 these are not the data that the recipe means
  7 the record of the run was edited                    8 a recipe no longer says what its source prints
  75 interrupted: run the same command again
Gate rows are those with `gate: true` in the recipe.)";

void add_set(CLI::App& command, std::vector<std::string>& sets) {
  command
      .add_option("--set", sets,
                  "change a value, PATH=VALUE; outside of the recipe's free_override its rows "
                  "become NOT COMPARABLE")
      ->allow_extra_args(false);
}

int report_error(const Error& error) {
  std::string text = "recipe-run: " + std::string(error.what()) + "\n";
  if (!error.hint().empty()) text += "  " + error.hint() + "\n";
  if (error.exit_code() == Exit::kInterrupted) text += "  run the same command again to continue\n";
  print_error(text);
  return static_cast<int>(error.exit_code());
}

// Options of all commands; they live as long as the parser.
struct Options {
  std::string recipes;
  std::string recipe;
  std::string path;
  std::string run;
  std::vector<std::string> sets;
  RunArguments arguments;
  RepeatArguments repeat;
  CompareArguments compare;
  ReportArguments report;
  DataArguments data_sets;
  int threads = -1;
  std::string data;
  std::string documents;
  bool json = false;
  bool require = false;
};

void define_run(CLI::App& app, Options& o) {
  CLI::App& run = *app.add_subcommand(
      "run", "train, evaluate, measure, report; continues where an earlier call stopped");
  run.add_option("recipe", o.recipe, "id of a recipe, or its file")->required();
  add_set(run, o.sets);
  run.add_option("--seeds", o.arguments.seeds, "number of trials; more than before tops the run up")
      ->check(CLI::Range(1, 1000));
  run.add_flag("--top-up", o.arguments.top_up,
               "more trials, up to trials.max_count, while a row is undecided");
  run.add_option("--emulate-devices", o.arguments.emulate_devices,
                 "train as on this many devices, one after another on one: accuracies published "
                 "for them can be compared; nothing is timed")
      ->check(CLI::Range(2, 4096));
  run.add_option("--device", o.arguments.device,
                 "what computes: cpu, cuda:0, ...; if it cannot be used, recipe-run says why and "
                 "exits with 4")
      ->capture_default_str();
  run.add_option("--data", o.data, "folder of the converted data sets (recipe: io.data_root)");
  run.add_option("--threads", o.threads, "compute threads; 0 = every core this process may use")
      ->check(CLI::Range(0, 4096));
  run.add_option("--runs", o.arguments.runs, "folder of the runs")->capture_default_str();
  run.add_flag("--new", o.arguments.fresh, "begin a new run although there is one to continue");
  CLI::Option* no_bench =
      run.add_flag("--no-bench", o.arguments.no_bench, "train and evaluate only");
  run.add_flag("--bench-only", o.arguments.bench_only, "measure speed only")->excludes(no_bench);
  run.add_flag("--smoke", o.arguments.smoke,
               "four steps of batch 4 on whatever data lie there: does it train at all?")
      ->excludes("--bench-only");
  run.add_flag("--quiet", o.arguments.quiet, "no progress bar");
  run.add_flag("--require", o.require, "rows not run or not comparable count too (exit 4)");
}

// What `run` starts for every repeat of a measurement; not for users, so it is not in the help.
void define_bench_repeat(CLI::App& app, Options& o) {
  CLI::App& repeat = *app.add_subcommand("bench-repeat", "one repeat of a measurement")->group("");
  repeat.add_option("run", o.repeat.folder)->required();
  repeat.add_option("--bench", o.repeat.task.bench)->required();
  repeat.add_option("--devices", o.repeat.task.devices)->required();
  repeat.add_option("--batch", o.repeat.task.batch)->required();
  repeat.add_option("--repeat", o.repeat.task.repeat)->required();
  repeat.add_option("--checkpoint", o.repeat.checkpoint);
}

void define_report(CLI::App& app, Options& o) {
  CLI::App& report =
      *app.add_subcommand("report", "verdicts of a run, computed anew from what was measured");
  report.add_option("run", o.report.run, "folder or id of a run; default: the newest");
  report.add_option("--runs", o.report.runs, "folder of the runs")->capture_default_str();
  report.add_option("--format", o.report.format, "all writes every format beside the run")
      ->check(CLI::IsMember({"all", "text", "markdown", "json", "html", "junit"}))
      ->capture_default_str();
  report
      .add_option("--with", o.report.with,
                  "a run of another recipe, for ratios over two recipes and for times to train "
                  "projected from its throughput; the report is printed, not written")
      ->allow_extra_args(false);
  report.add_flag("--tight", o.report.tight,
                  "throughputs are held to 2 % instead of 5 %; the report is printed, not written");
  report.add_flag("--require", o.report.require,
                  "rows not run or not comparable count too (exit 4)");
}

void define_compare(CLI::App& app, Options& o) {
  CLI::App& command = *app.add_subcommand(
      "compare", "two runs against each other, row by row, by the tests of a report");
  command.add_option("first", o.compare.first, "folder or id of a run, or its report.json")
      ->required();
  command.add_option("second", o.compare.second, "the same of the run held against it")->required();
  command.add_option("--runs", o.compare.runs, "folder of the runs")->capture_default_str();
  command.add_option("--format", o.compare.format, "of what is printed")
      ->check(CLI::IsMember({"text", "markdown", "html", "json", "junit"}))
      ->capture_default_str();
  command.add_flag("--despite-differences", o.compare.despite_differences,
                   "judge although recipe or machine differ: what does the difference do?");
  command.add_flag("--all-rows", o.compare.all_rows,
                   "every row counts for the exit code, not only the recipe's gate rows");
}

void define_data(CLI::App& app, Options& o) {
  CLI::App& data = *app.add_subcommand(
      "data", "check data sets against the digests in data.lock, or write these");
  data.require_subcommand(1);
  const auto add = [&](const char* name, const char* does, const char* which) {
    CLI::App& command = *data.add_subcommand(name, does);
    command.add_option("data-set", o.data_sets.names, which);
    command.add_option("--lock", o.data_sets.lock, "file; default: data.lock beside the recipes");
    return &command;
  };
  CLI::App& lock = *add("lock", "compute the digests and write them into data.lock", "its name");
  CLI::App& verify = *add("verify", "compare data sets with data.lock; exit code 6 if they differ",
                          "default: all of data.lock that are here");
  lock.get_option("data-set")->required();
  for (CLI::App* command : {&lock, &verify}) {
    command->add_option("--data", o.data_sets.data, "folder of the data sets")
        ->capture_default_str();
    command->add_option("--folder", o.data_sets.folder,
                        "of the one data set named, if it lies elsewhere");
    command->add_flag("--quiet", o.data_sets.quiet, "no progress bar");
  }
}

void define(CLI::App& app, Options& o) {
  app.require_subcommand(1);
  app.footer(kExamples);
  app.add_option("--recipes", o.recipes,
                 "folder of the recipes; default: ./recipes, or the one above the program");
  app.add_subcommand("list", "recipes, their published rows, and which can run here");
  app.add_subcommand("verify-sources", "compare every published value with the cell it came from")
      ->add_option("--documents", o.documents,
                   "folder of the published documents, to compare the copied tables with");
  app.add_subcommand("lint-sources", "what the published tables themselves get wrong");
  CLI::App& explain =
      *app.add_subcommand("explain", "resolved values, who set them and what they hide");
  explain.add_option("recipe", o.recipe, "id of a recipe, or its file")->required();
  explain.add_option("path", o.path,
                     "only this field and what is below it, e.g. training.optimizer");
  add_set(explain, o.sets);
  CLI::App& plan = *app.add_subcommand(
      "plan", "what would run, and how many seeds each row needs; starts nothing");
  plan.add_option("recipe", o.recipe, "id of a recipe, or its file")->required();
  add_set(plan, o.sets);
  plan.add_option("--data", o.data, "folder of the converted data sets (recipe: io.data_root)");
  plan.add_option("--runs", o.arguments.runs, "folder of the runs")->capture_default_str();
  plan.add_option("--emulate-devices", o.arguments.emulate_devices, "as for run")
      ->check(CLI::Range(2, 4096));
  plan.add_option("--device", o.arguments.device, "as for run")->capture_default_str();
  define_run(app, o);
  define_bench_repeat(app, o);
  define_compare(app, o);
  define_data(app, o);
  define_report(app, o);
  CLI::App& verify = *app.add_subcommand(
      "verify",
      "was a run edited? files against their checksums, verdicts computed again (exit 7)");
  verify.add_option("run", o.run, "folder or id of a run; default: the newest");
  verify.add_option("--runs", o.arguments.runs, "folder of the runs")->capture_default_str();
  app.add_subcommand("probe", "what this machine is")->add_flag("--json", o.json, "as JSON");
}

int run_data(const CLI::App& command, const Options& o, const DriverFactory& make_driver) {
  const fs::path root = recipes_root(o.recipes);
  const std::string name = command.get_subcommands().at(0)->get_name();
  if (name == "lock") return data_lock_command(root, o.data_sets, make_driver);
  return data_verify_command(root, o.data_sets, make_driver);
}

int run_subcommand(const CLI::App& app, Options& o, const DriverFactory& make_driver) {
  const std::string name = app.get_subcommands().at(0)->get_name();
  if (name == "probe") return probe_machine(o.json);
  if (name == "bench-repeat") return bench_repeat_command(o.repeat, make_driver);
  if (name == "data") return run_data(*app.get_subcommand(name), o, make_driver);
  if (name == "compare") return compare_command(o.compare);
  if (name == "report") return report_command(o.report);
  if (name == "verify") return verify_command(o.arguments.runs, o.run);
  const fs::path root = recipes_root(o.recipes);
  if (name == "list") return list_recipes(root, make_driver);
  if (name == "verify-sources") return verify_sources_command(root, o.documents);
  if (name == "lint-sources") return lint_sources_command(root);
  if (name == "explain") return explain_recipe(root, o.recipe, o.path, o.sets);
  if (!o.data.empty()) o.sets.push_back("io.data_root=" + o.data);
  if (name == "plan") {
    return plan_recipe(
        root, {o.recipe, o.sets, o.arguments.runs, o.arguments.emulate_devices, o.arguments.device},
        make_driver);
  }
  o.arguments.recipe = o.recipe;
  o.arguments.sets = o.sets;
  o.arguments.require = o.require;
  if (o.threads >= 0) o.arguments.sets.push_back("io.threads=" + std::to_string(o.threads));
  return run_command(root, o.arguments, make_driver);
}

}  // namespace

int run_app(int argc, const char* const* argv, const DriverFactory& make_driver,
            const std::filesystem::path& program) {
  CLI::App app(kIntroduction, "recipe-run");
  Options options;
  options.arguments.measuring_program = program;
  define(app, options);
  try {
    app.parse(argc, argv);
    return run_subcommand(app, options, make_driver);
  } catch (const CLI::CallForHelp&) {
    print(app.help());
    return 0;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : static_cast<int>(Exit::kUsage);
  } catch (const Error& error) {
    return report_error(error);
  } catch (const std::exception& error) {
    print_error("recipe-run: " + std::string(error.what()) + "\n");
    return static_cast<int>(Exit::kCrashed);
  }
}

}  // namespace reciperun
