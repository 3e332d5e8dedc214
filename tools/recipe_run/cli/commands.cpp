#include "tools/recipe_run/cli/commands.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tools/recipe_run/base/error.h"
#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/recipe/load.h"
#include "tools/recipe_run/recipe/path.h"
#include "tools/recipe_run/report/report.h"
#include "tools/recipe_run/run_record/machine.h"
#include "tools/recipe_run/sources/verify.h"
#include "tools/recipe_run/statistics/power.h"
#include "tools/recipe_run/statistics/quantiles.h"
#include "tools/recipe_run/verdict/expectation.h"

namespace reciperun {
namespace {

void print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

std::string place_of(const Origin& origin) {
  return origin.line == 0 ? origin.file : origin.file + ":" + std::to_string(origin.line);
}

std::string training_text(const v1::Training& training) {
  if (!training.phase().empty()) {
    std::vector<std::string> phases;
    for (const v1::Phase& phase : training.phase())
      phases.push_back(phase.name() + " " + training_text(phase.training()));
    return join(phases, "; then ");
  }
  std::string length = training.has_steps() ? std::to_string(training.steps()) + " steps"
                                            : shortest(training.epochs()) + " epochs";
  return length + " of batch " + std::to_string(training.batch_per_device()) + ", " +
         training.optimizer().name() + " " + shortest(training.optimizer().lr());
}

// What the published spread says about the number of seeds; "" if there is none.
std::string power_text(const v1::Recipe& recipe, const v1::Expect& expect, uint32_t count) {
  const Published published = published_side(expect);
  const double margin =
      expect.margin().absolute() > 0 ? expect.margin().absolute() : default_margin(recipe, expect);
  if (!expect.bench().empty() || !published.value) return "";
  if (!published.has_spread) {
    return "no published spread: judged by the margin ±" + shortest(margin) +
           " alone, at best WITHIN TOLERANCE";
  }
  const int needed = runs_for_90_percent(published.summary, margin);
  Summary careful = published.summary;
  careful.sd *= sd_upper_factor(careful.n);
  const int needed_careful = runs_for_90_percent(careful, margin);
  const auto runs = [](int n) {
    return n == 0 ? std::string("no number of runs")
                  : std::to_string(n) + (n == 1 ? " run" : " runs");
  };
  std::string text =
      runs(needed) + " for 90 % power against a drop of " + shortest(margin) + " (" +
      runs(needed_careful) + " if the published spread is underestimated); with " +
      std::to_string(count) + ": power " +
      fixed(power(published.summary, static_cast<int>(count), margin), 2) +
      ", REPRODUCED with probability " +
      fixed(equivalence_power(published.summary, static_cast<int>(count), margin), 2) +
      " if nothing is wrong";
  return text;
}

std::string bench_note(const v1::Recipe& recipe, const v1::Expect& expect) {
  for (const v1::Bench& bench : recipe.bench()) {
    const bool other = bench.id() != expect.bench() || expect.metric() != "latency";
    if (other || expect.has_ratio()) continue;
    const v1::Quantile q = expect.has_tail() ? expect.tail().q() : expect.quantile();
    const int needed = minimum_samples(q.p());
    if (static_cast<int>(bench.measure_steps()) < needed) {
      return quantile_title(q) + " needs " + std::to_string(needed) + " steps, the bench has " +
             std::to_string(bench.measure_steps());
    }
  }
  return "";
}

fs::path find_run_folder(const fs::path& runs, const std::string& run) {
  std::error_code ignored;
  if (!run.empty()) {
    for (const fs::path& candidate : {fs::path(run), runs / run}) {
      if (fs::exists(candidate / "run.json", ignored)) return candidate;
    }
    throw Error(Exit::kUsage,
                "there is no run '" + run + "' here or below '" + runs.string() + "'");
  }
  fs::path newest;
  for (const auto& entry : fs::directory_iterator(runs, ignored)) {
    if (fs::exists(entry.path() / "run.json", ignored)) newest = std::max(newest, entry.path());
  }
  if (newest.empty()) {
    throw Error(Exit::kUsage, "there is no run below '" + runs.string() + "'",
                "'recipe-run run RECIPE' makes one");
  }
  return newest;
}

}  // namespace

fs::path recipes_root(const std::string& given) {
  std::error_code ignored;
  if (!given.empty()) {
    if (fs::is_directory(given, ignored)) return given;
    throw Error(Exit::kUsage, "--recipes '" + given + "' is not a folder");
  }
  std::vector<fs::path> candidates = {"recipes"};
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  for (fs::path up = program.parent_path(); up.has_relative_path(); up = up.parent_path()) {
    candidates.push_back(up / "recipes");
    candidates.push_back(up / "share/assay/recipes");
  }
  for (const fs::path& candidate : candidates) {
    if (fs::is_regular_file(candidate / "recipe.proto", ignored)) return candidate;
  }
  throw Error(Exit::kUsage, "there is no recipes folder here or above the program",
              "name it with --recipes DIR");
}

int explain_recipe(const fs::path& root, const std::string& name, const std::string& path,
                   const std::vector<std::string>& sets) {
  ResolvedRecipe resolved = load_recipe(locate_recipe(root, name), sets);
  if (!path.empty()) find_place(resolved.recipe, path);  // raises if the schema has no such path
  int shown = 0;
  for (const auto& [set_path, history] : resolved.origins) {
    if (!path.empty() && !is_under(set_path, path)) continue;
    print(set_path + " = " + history.back().value + "    " + place_of(history.back()) + "\n");
    for (auto it = history.rbegin() + 1; it != history.rend(); ++it)
      print("    hides " + it->value + "    " + place_of(*it) + "\n");
    ++shown;
  }
  if (shown == 0) print(path + " is not set\n");
  if (path.empty())
    print("\nexec digest    " + resolved.exec_digest + "\nexpect digest  " +
          resolved.expect_digest + "\n");
  return 0;
}

int plan_recipe(const fs::path& root, const std::string& name,
                const std::vector<std::string>& sets) {
  const RecipeFile file = locate_recipe(root, name);
  const ResolvedRecipe resolved = load_recipe(file, sets);
  const v1::Recipe& recipe = resolved.recipe;
  require_concrete(resolved);
  require_sources(resolved, file.root);
  print((recipe.title().empty() ? recipe.id() : recipe.title()) + "\n");
  if (recipe.trials().count() > 0) {
    print("trains    " + std::to_string(recipe.trials().count()) + " × " + recipe.trials().unit() +
          ", " + training_text(recipe.training()) + "\n");
  }
  for (const v1::Bench& bench : recipe.bench()) {
    std::vector<std::string> batches;
    for (const uint32_t batch : bench.batch()) batches.push_back(std::to_string(batch));
    std::string text = "measures  " + bench.id() + ", batch " + join(batches, ", ") + ", " +
                       std::to_string(bench.repeats()) + " repeats";
    if (bench.max_seconds() > 0) {
      text += ", at most " +
              duration_text(bench.max_seconds() * 1.5 * bench.repeats() * bench.batch_size());
    }
    print(text + "\n");
  }
  int width = 16;
  for (const v1::Expect& expect : recipe.expect())
    width = std::max(width, display_width(expect.id()) + 2);
  print("\nrows\n");
  for (const v1::Expect& expect : recipe.expect()) {
    const Published published = published_side(expect);
    print("  " + pad_right(expect.id(), width) +
          (published.value ? "published " + published_text(expect) +
                                 (expect.gate() ? ", decides the exit code" : "")
                           : "measured only") +
          "\n");
    for (const std::string& note :
         {power_text(recipe, expect, recipe.trials().count()), bench_note(recipe, expect)}) {
      if (!note.empty()) print("    ↳ " + note + "\n");
    }
  }
  for (const std::string& line : deviation_lines(recipe)) print("deviation  " + line + "\n");
  if (!resolved.modified_reason().empty())
    print("\nevery published row will be NOT COMPARABLE (" + resolved.modified_reason() + ")\n");
  return 0;
}

int report_command(const std::string& runs, const std::string& run, const std::string& format,
                   bool require) {
  const RunRecord record = RunRecord::open(find_run_folder(runs, run));
  const Report report = make_report(record, require);
  if (format == "all") {
    print(console_report(report));
    print("\nwritten to " + write_reports(record, report).string() + "\n");
  } else if (format == "text") {
    print(console_report(report));
  } else if (format == "markdown") {
    print(markdown_report(report));
  } else if (format == "json") {
    print(json_report(report));
  } else {
    print(html_report(report));
  }
  return static_cast<int>(report.exit);
}

int probe_machine(bool json) {
  const record::Machine machine = capture_machine();
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.preserve_proto_field_names = true;
  std::string text;
  if (json && google::protobuf::util::MessageToJsonString(machine, &text, options).ok()) {
    print(text);
    return 0;
  }
  const auto line = [](const std::string& name, const std::string& value) {
    if (!value.empty()) print(pad_right(name, 14) + value + "\n");
  };
  line("machine", machine_title(machine));
  line("instructions", join({machine.isa().begin(), machine.isa().end()}, " "));
  line("governor", machine.governor());
  line("turbo", machine.turbo());
  line("NUMA nodes", std::to_string(machine.numa_nodes()));
  line("system", machine.os() + ", " + machine.kernel() + ", " + machine.libc());
  line("load", shortest(machine.load_average()));
  for (const auto& [name, value] : machine.environment()) line(name, value);
  return 0;
}

}  // namespace reciperun
