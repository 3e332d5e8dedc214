// `recipe-run list`: what there is, by folder, and what can run here.
#include <algorithm>
#include <map>

#include "tools/recipe_run/base/error.h"
#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/cli/commands.h"
#include "tools/recipe_run/cli/output.h"
#include "tools/recipe_run/recipe/load.h"

namespace reciperun {
namespace {

using Line = std::vector<std::string>;

std::string row_count(const v1::Recipe& recipe) {
  const auto rows = std::count_if(
      recipe.expect().begin(), recipe.expect().end(),
      [](const v1::Expect& e) { return e.value_case() != v1::Expect::VALUE_NOT_SET; });
  return std::to_string(rows);
}

// "3 seeds", "5 folds", "speed".
std::string work(const v1::Recipe& recipe) {
  const uint32_t count = recipe.trials().count();
  if (count == 0) return "speed";
  const std::string unit = recipe.trials().unit().empty() ? "trial" : recipe.trials().unit();
  return std::to_string(count) + " " + unit + (count == 1 ? "" : "s");
}

std::string folder_of(const std::string& id) { return id.substr(0, id.find('/')); }

// Those that can run, then the others by what keeps them from it.
void print_group(const std::string& folder, const std::vector<Line>& lines) {
  size_t widths[3] = {};
  std::map<std::string, std::vector<Line>> by_state;  // "" first
  for (const Line& line : lines) {
    for (size_t c = 0; c < 3; ++c) widths[c] = std::max(widths[c], line[c].size());
    by_state[line[3]].push_back(line);
  }
  print("\n" + folder + "\n");
  for (const auto& [why_not, members] : by_state) {
    print("  " + (why_not.empty() ? "runs here" : why_not) + "\n");
    for (const Line& line : members)
      print("    " + pad_right(line[0], static_cast<int>(widths[0])) + "  " +
            pad_left(line[1], static_cast<int>(widths[1])) +
            (line[1] == "1" ? " row   " : " rows  ") + line[2] + "\n");
  }
}

}  // namespace

int list_recipes(const fs::path& root, const DriverFactory& make_driver) {
  const auto driver = make_driver({.threads = 1});
  std::map<std::string, std::vector<Line>> groups;
  std::vector<std::string> broken;
  int runnable = 0;
  int all = 0;
  for (const std::string& id : recipe_ids(root)) {
    try {
      const v1::Recipe recipe = load_recipe({root, id}).recipe;
      if (recipe.abstract()) continue;
      std::string why_not = driver->why_not(recipe);
      if (why_not.empty()) why_not = driver->missing_data(recipe);
      if (const size_t advice = why_not.find(';'); advice != std::string::npos)
        why_not.resize(advice);  // `plan` and `run` say what to do
      groups[folder_of(id)].push_back({id, row_count(recipe), work(recipe), why_not});
      runnable += why_not.empty();
      ++all;
    } catch (const Error& error) {
      broken.push_back(error.what());
    }
  }
  print(std::to_string(all) + " recipes, " + std::to_string(runnable) +
        " run here; 'recipe-run plan RECIPE' says more\n");
  for (const auto& [folder, lines] : groups) print_group(folder, lines);
  for (const std::string& error : broken) print("broken: " + error + "\n");
  return static_cast<int>(broken.empty() ? Exit::kOk : Exit::kUsage);
}

}  // namespace reciperun
