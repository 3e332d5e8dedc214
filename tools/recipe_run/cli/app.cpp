// Every command's options and examples, and which function does its work.
#include "tools/recipe_run/cli/app.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include "tools/common/program.h"
#include "tools/recipe_run/util/error.h"

namespace reciperun {
namespace {

constexpr char kIntroduction[] =
    "Trains and measures what a recipe describes, and holds the results against the published "
    "values, row by row.";

constexpr char kFooter[] = R"(Begin with:
  recipe-run list                                    which recipes there are, and what can be judged here
  recipe-run plan fashion_mnist/cnn_2conv_bn         what would become of each row, and what it would cost
  recipe-run run fashion_mnist/cnn_2conv_bn          train, measure, report; interrupted, the same command continues
Each command explains itself: recipe-run COMMAND --help.

Exit codes:
  0 none of those below                                 1 a required row differs for the worse
  2 usage or recipe error                               3 a required row is INCONCLUSIVE or INVALID
  4 nothing could be run here; with --require also: a required row was not run or cannot be compared
  5 training or a measurement failed                    6 these are not the data that the recipe means
  7 the record of the run was edited                    8 a recipe no longer says what its source prints
  75 interrupted: run the same command again
Required rows are those with `gate: true` in the recipe.)";

// The command line of one call: what its options are read into, and what its command returned.
class CommandLine {
 public:
  CommandLine(const DriverFactory& make_driver, const fs::path& program)
      : make_driver_(make_driver) {
    run_.options.measuring_program = program;
    app_.require_subcommand(1);
    app_.footer(kFooter);
    app_.set_version_flag(
        "--version", [this] { return "recipe-run, " + make_driver_("cpu", 0)->info().engine; });
    option(app_, "--recipes", recipes_, "DIR",
           "folder of the recipes; default: ./recipes, or the one above the program");
    define_list();
    define_show();
    define_plan();
    define_run();
    define_report();
    define_compare();
    define_verify();
    define_data();
    define_sources();
    define_bench_repeat();
  }

  Exit parse(int argc, const char* const* argv) {
    try {
      app_.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      return assay::tools::explain(app_, error);
    }
    return result_;
  }

 private:
  fs::path root() const { return recipes_root(recipes_); }

  // `work` is done once the command's options are read; it returns the exit code.
  template <class Work>
  CLI::App& command(CLI::App& parent, const std::string& name, const std::string& does,
                    const std::string& examples, Work work) {
    CLI::App& made = *parent.add_subcommand(name, does);
    if (!examples.empty()) made.footer("Examples:\n" + examples);
    made.callback([this, work] { result_ = work(); });
    return made;
  }

  // Commands under one word.
  CLI::App& group(const std::string& name, const std::string& does, const std::string& examples) {
    CLI::App& made = *app_.add_subcommand(name, does)->require_subcommand(1);
    made.footer("Examples:\n" + examples);
    return made;
  }

  // `type` stands in the help for the value, a text's default beside it.
  template <class T>
  static CLI::Option& option(CLI::App& to, const std::string& name, T& value,
                             const std::string& type, const std::string& help) {
    CLI::Option& made = *to.add_option(name, value, help)->type_name(type);
    if constexpr (std::is_same_v<T, std::string>) {
      if (!value.empty()) made.capture_default_str();
    }
    return made;
  }
  static void add_recipe(CLI::App& to, std::string& recipe) {
    to.add_option("recipe", recipe, "id of a recipe, or its file")->required();
  }
  static void add_sets(CLI::App& to, std::vector<std::string>& sets) {
    option(to, "--set", sets, "PATH=VALUE",
           "change a value; outside of the recipe's free_override its rows become NOT COMPARABLE")
        .allow_extra_args(false);
  }
  static void add_runs(CLI::App& to, std::string& runs) {
    option(to, "--runs", runs, "DIR", "folder of the runs");
  }
  static void add_device(CLI::App& to, std::string& device) {
    option(to, "--device", device, "NAME",
           "what computes: cpu, cuda:0, ...; if it cannot be used, recipe-run says why and exits "
           "with 4");
  }
  static void add_emulation(CLI::App& to, uint32_t& devices) {
    option(to, "--emulate-devices", devices, "N",
           "train as on so many devices, one after another on one: accuracies published for them "
           "can be compared; nothing is timed")
        .check(CLI::Range(2, 4096));
  }
  void add_data_root(CLI::App& to) {
    option(to, "--data", data_root_, "DIR",
           "folder of the converted data sets (recipe: io.data_root)");
  }
  // --data is a change of the recipe like any other.
  void apply_data_root(std::vector<std::string>& sets) const {
    if (!data_root_.empty()) sets.push_back("io.data_root=" + data_root_);
  }

  void define_list() {
    CLI::App& list = command(app_, "list", "recipes, and how many of their rows can be judged here",
                             "  recipe-run list resnet50\n  recipe-run list --json",
                             [this] { return list_command(root(), list_, make_driver_); });
    list.add_option("filter", list_.filter, "only recipes with this in their id");
    list.add_flag("--json", list_.json, "as JSON, for programs");
  }

  void define_show() {
    CLI::App& show =
        command(app_, "show", "the values of a recipe, which file set them and what they hide",
                "  recipe-run show fashion_mnist/cnn_2conv_bn training.optimizer\n"
                "  recipe-run show fashion_mnist/cnn_2conv_bn --set training.epochs=1",
                [this] { return show_command(root(), plan_.recipe, path_, plan_.sets); });
    add_recipe(show, plan_.recipe);
    show.add_option("path", path_, "only this field and what is below it");
    add_sets(show, plan_.sets);
  }

  void define_plan() {
    CLI::App& plan = command(app_, "plan",
                             "what would become of each row here, how many seeds it needs, hours, "
                             "disk space; starts nothing",
                             "  recipe-run plan fashion_mnist/cnn_2conv_bn\n"
                             "  recipe-run plan unet_medical/dgx1_amp_8gpu --emulate-devices 8",
                             [this] {
                               apply_data_root(plan_.sets);
                               return plan_command(root(), plan_, make_driver_);
                             });
    add_recipe(plan, plan_.recipe);
    add_sets(plan, plan_.sets);
    add_data_root(plan);
    add_runs(plan, plan_.runs);
    add_emulation(plan, plan_.place.emulated_devices);
    add_device(plan, plan_.place.device);
  }

  void define_run() {
    CLI::App& run = command(
        app_, "run", "train, evaluate, measure, report; continues where an earlier call stopped",
        "  recipe-run run fashion_mnist/cnn_2conv_bn --seeds 5      five seeds, or two more than "
        "the three that are there\n"
        "  recipe-run run fashion_mnist/resnet18 --smoke            four steps on whatever data "
        "lie there: does it train?\n"
        "  mpirun -np 8 recipe-run run unet_medical/dgx1_amp_8gpu   a process for each of the "
        "recipe's devices",
        [this] {
          apply_data_root(run_.sets);
          if (threads_ >= 0) run_.sets.push_back(fmt::format("io.threads={}", threads_));
          return run_command(root(), run_, make_driver_);
        });
    add_recipe(run, run_.recipe);
    add_sets(run, run_.sets);
    option(run, "--seeds", run_.seeds, "N", "number of trials; more than before adds to the run")
        .check(CLI::Range(1, 1000));
    run.add_flag("--top-up", run_.options.top_up,
                 "more trials, up to trials.max_count, while a row is undecided");
    add_emulation(run, run_.options.place.emulated_devices);
    add_device(run, run_.options.place.device);
    add_data_root(run);
    option(run, "--threads", threads_, "N", "compute threads; 0 = every core this process may use")
        .check(CLI::Range(0, 4096));
    add_runs(run, run_.options.runs);
    run.add_flag("--new", run_.options.fresh, "begin a new run although there is one to continue");
    CLI::Option* no_bench = run.add_flag("--no-bench", run_.no_bench, "train and evaluate only");
    run.add_flag("--bench-only", run_.bench_only, "measure speed only")->excludes(no_bench);
    run.add_flag("--smoke", run_.smoke,
                 "four steps of batch 4 on whatever data lie there: does it train at all?")
        ->excludes("--bench-only");
    option(run, "--rank-timeout", run_.rank_timeout, "SECONDS",
           fmt::format("started by mpirun: how long a rank waits for another before it gives up; "
                       "more than an evaluation takes; default {:g}",
                       run_.rank_timeout))
        .check(CLI::Range(1.0, 1e6));
    run.add_flag("--tensorboard", run_.options.tensorboard,
                 "trials leave event files: tensorboard --logdir runs shows them while they train");
    run.add_flag("--quiet", run_.quiet, "no progress bar");
    run.add_flag("--require", run_.require,
                 "required rows that were not run or cannot be compared count too (exit 4)");
  }

  void define_report() {
    CLI::App& report = command(
        app_, "report", "verdicts of a run, computed anew from what was measured",
        "  recipe-run report                                        the newest run; files beside "
        "it\n"
        "  recipe-run report RUN --with OTHER --format markdown     ratios over two recipes",
        [this] { return report_command(report_); });
    report.add_option("run", report_.run, "folder or id of a run; default: the newest");
    add_runs(report, report_.runs);
    report.add_option("--format", report_.format, "all writes every format beside the run")
        ->check(CLI::IsMember({"all", "text", "markdown", "json", "html", "junit"}))
        ->capture_default_str();
    option(report, "--with", report_.with, "RUN",
           "a run of another recipe, for ratios over two recipes and for times to train projected "
           "from its throughput; the report is printed, not written")
        .allow_extra_args(false);
    report.add_flag(
        "--tight", report_.tight,
        "throughputs are held to 2 % instead of 5 %; the report is printed, not written");
    report.add_flag("--require", report_.require,
                    "required rows that were not run or cannot be compared count too (exit 4)");
  }

  void define_compare() {
    CLI::App& compare = command(
        app_, "compare", "two runs against each other, row by row, by the tests of a report",
        "  recipe-run compare FIRST SECOND\n"
        "  recipe-run compare FIRST/report/report.json SECOND --despite-differences",
        [this] { return compare_command(compare_); });
    compare.add_option("first", compare_.first, "folder or id of a run, or its report.json")
        ->required();
    compare.add_option("second", compare_.second, "the same of the run held against it")
        ->required();
    add_runs(compare, compare_.runs);
    compare.add_option("--format", compare_.format, "of what is printed")
        ->check(CLI::IsMember({"text", "markdown", "html", "json", "junit"}))
        ->capture_default_str();
    compare.add_flag("--despite-differences", compare_.despite_differences,
                     "judge although recipe or machine differ: what does the difference do?");
    compare.add_flag("--all-rows", compare_.all_rows,
                     "every row counts for the exit code, not only the required ones");
  }

  void define_verify() {
    CLI::App& verify = command(app_, "verify",
                               "was a run edited? files against their checksums, recorded verdicts "
                               "against the measurements (exit 7)",
                               "  recipe-run verify\n  recipe-run verify RUN --runs results",
                               [this] { return verify_command(report_.runs, report_.run); });
    verify.add_option("run", report_.run, "folder or id of a run; default: the newest");
    add_runs(verify, report_.runs);
  }

  void define_data() {
    CLI::App& data = group("data", "data sets against the digests in data.lock",
                           "  recipe-run data lock fashion_mnist\n  recipe-run data verify");
    CLI::App& lock =
        command(data, "lock", "compute the digests of data sets and write them into data.lock",
                "  recipe-run data lock fashion_mnist\n"
                "  recipe-run data lock imagenet --folder /data/imagenet_records",
                [this] { return data_lock_command(root(), data_, make_driver_); });
    lock.add_option("data-set", data_.names, "its name")->required();
    CLI::App& verify =
        command(data, "verify", "compare data sets with data.lock; exit code 6 if they differ",
                "  recipe-run data verify\n  recipe-run data verify fashion_mnist --data /data",
                [this] { return data_verify_command(root(), data_, make_driver_); });
    verify.add_option("data-set", data_.names, "default: all of data.lock that are here");
    for (CLI::App* each : {&lock, &verify}) {
      option(*each, "--lock", data_.lock, "FILE", "file; default: data.lock beside the recipes");
      option(*each, "--data", data_.data, "DIR", "folder of the data sets");
      option(*each, "--folder", data_.folder, "DIR",
             "of the one data set named, if it lies elsewhere");
      each->add_flag("--quiet", data_.quiet, "no progress bar");
    }
  }

  void define_sources() {
    CLI::App& sources =
        group("sources", "recipes against the published tables", "  recipe-run sources verify");
    command(sources, "verify",
            "compare every published value with the cell it came from, and every cell with what "
            "claims it (exit 8)",
            "  recipe-run sources verify\n  recipe-run --recipes DIR sources verify",
            [this] { return sources_verify_command(root()); });
  }

  // What `run` starts for every repeat of a measurement; not for users, so it is not in the help.
  void define_bench_repeat() {
    CLI::App& repeat = command(app_, "bench-repeat", "one repeat of a measurement", "", [this] {
      return bench_repeat_command(report_.run, repeat_, checkpoint_, make_driver_);
    });
    repeat.group("");
    repeat.add_option("run", report_.run)->required();
    repeat.add_option("--bench", repeat_.bench)->required();
    repeat.add_option("--devices", repeat_.devices)->required();
    repeat.add_option("--batch", repeat_.batch)->required();
    repeat.add_option("--repeat", repeat_.repeat)->required();
    repeat.add_option("--checkpoint", checkpoint_);
  }

  const DriverFactory& make_driver_;
  CLI::App app_{kIntroduction, "recipe-run"};
  Exit result_ = Exit::kOk;
  std::string recipes_, data_root_, path_, checkpoint_;
  int threads_ = -1;
  ListArguments list_;
  PlanArguments plan_;
  RunArguments run_;
  BenchTask repeat_;
  ReportArguments report_;
  CompareArguments compare_;
  DataArguments data_;
};

}  // namespace

int run_app(int argc, const char* const* argv, const DriverFactory& make_driver,
            const std::filesystem::path& program) {
  return assay::tools::run_program(
      "recipe-run",
      [&](int count, const char* const* words) {
        return CommandLine(make_driver, program).parse(count, words);
      },
      argc, argv);
}

}  // namespace reciperun
