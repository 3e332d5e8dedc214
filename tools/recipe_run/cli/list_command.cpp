// `recipe-run list`: what there is, and how many of its published rows can be judged where.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>

#include "tools/recipe_run/cli/commands.h"
#include "tools/recipe_run/cli/list.pb.h"
#include "tools/recipe_run/cli/output.h"
#include "tools/recipe_run/recipe/facts.h"
#include "tools/recipe_run/recipe/load.h"
#include "tools/recipe_run/record/machine.h"
#include "tools/recipe_run/util/error.h"
#include "tools/recipe_run/util/json.h"
#include "tools/recipe_run/util/text.h"

namespace reciperun {
namespace {

// What a row needs before it can be judged, the least first.
enum Need : size_t { kNothing, kGpu, kData, kGpuAndData, kItsHardware, kImpossible, kNeeds };
constexpr std::array<const char*, kNeeds> kNeedWords = {"here",
                                                        "with a GPU",
                                                        "with its data",
                                                        "with a GPU and its data",
                                                        "on the published hardware",
                                                        "not at all"};

// Asks about the rows of one recipe on this machine's processor.
class Asker {
 public:
  Asker(const v1::Recipe& recipe, const TrainerDriver& driver, const std::string& machine)
      : recipe_(recipe), machine_(machine) {
    gpu_ = needs_gpu(recipe);
    missing_ = driver.missing_data(recipe);
    impossible_ = !driver.has_model(recipe) || !incomparable_as_it_stands(recipe).empty();
  }

  Need need_of(const v1::Expect& expect) const {
    if (impossible_) return kImpossible;
    if (is_timing(expect) && !other_hardware(recipe_, machine_).empty()) return kItsHardware;
    if (!missing_.empty()) return gpu_ ? kGpuAndData : kData;
    return gpu_ ? kGpu : kNothing;
  }
  bool impossible() const { return impossible_; }
  // "" or which data set is not there.
  std::string missing() const { return missing_.substr(0, missing_.find(';')); }

 private:
  const v1::Recipe& recipe_;
  const std::string& machine_;
  bool gpu_ = false, impossible_ = false;
  std::string missing_;
};

std::string table_of(const v1::Expect& expect) {
  if (!expect.has_at()) return "without a table";
  const std::string& table = expect.at().table();
  return table.empty() ? expect.at().source() : table;
}

std::string folder_of(const std::string& id) { return id.substr(0, id.find('/')); }

// "3 seeds", "5 folds", "speed".
std::string work(const v1::Recipe& recipe) {
  const uint32_t count = recipe.trials().count();
  if (count == 0) return "speed";
  const std::string unit = recipe.trials().unit().empty() ? "trial" : recipe.trials().unit();
  return fmt::format("{} {}{}", count, unit, count == 1 ? "" : "s");
}

void add_recipe(const v1::Recipe& recipe, const Asker& asker, listing::System& system) {
  listing::Recipe& out = *system.add_recipe();
  out.set_id(recipe.id());
  out.set_title(recipe.title());
  out.set_work(work(recipe));
  if (!asker.impossible()) out.set_missing_data(asker.missing());
  for (const v1::Expect& expect : recipe.expect()) {
    if (!has_published_value(expect)) continue;
    const std::string need = kNeedWords[asker.need_of(expect)];
    ++(*out.mutable_rows())[need];
    const std::string name = table_of(expect);
    const auto same =
        std::find_if(system.mutable_table()->begin(), system.mutable_table()->end(),
                     [&](const listing::Table& table) { return table.name() == name; });
    listing::Table& table = same == system.mutable_table()->end() ? *system.add_table() : *same;
    table.set_name(name);
    ++(*table.mutable_rows())[need];
  }
}

uint32_t count_of(const google::protobuf::Map<std::string, uint32_t>& rows, const char* need) {
  const auto found = rows.find(need);
  return found == rows.end() ? 0 : found->second;
}

// "2 here, 4 with a GPU".
std::string rows_text(const google::protobuf::Map<std::string, uint32_t>& rows) {
  std::vector<std::string> parts;
  for (const char* need : kNeedWords) {
    if (const uint32_t count = count_of(rows, need); count > 0)
      parts.push_back(fmt::format("{} {}", count, need));
  }
  return parts.empty() ? "no published row" : join(parts, ", ");
}

std::string system_text(const listing::System& system) {
  size_t width = 0;
  for (const auto& table : system.table()) width = std::max(width, table.name().size());
  for (const auto& recipe : system.recipe()) width = std::max(width, recipe.id().size());
  std::string text =
      fmt::format("\n{}\n  published rows of each table that can be judged\n", system.name());
  for (const listing::Table& table : system.table())
    text += fmt::format("    {:<{}}  {}\n", table.name(), width, rows_text(table.rows()));
  text += "  recipes\n";
  for (const listing::Recipe& recipe : system.recipe()) {
    text += fmt::format("    {:<{}}  {:<8}  {}{}\n", recipe.id(), width, recipe.work(),
                        rows_text(recipe.rows()),
                        recipe.missing_data().empty() ? "" : "; " + recipe.missing_data());
  }
  return text;
}

}  // namespace

Exit list_command(const fs::path& root, const ListArguments& arguments,
                  const DriverFactory& make_driver) {
  const auto driver = make_driver("cpu", 1);
  const std::string machine = machine_title(capture_machine());
  std::map<std::string, listing::System> systems;
  listing::Listing out;
  for (const std::string& id : recipe_ids(root)) {
    if (id.find(arguments.filter) == std::string::npos) continue;
    try {
      const v1::Recipe recipe = load_recipe({root, id}).recipe;
      if (recipe.abstract()) continue;
      listing::System& system = systems[folder_of(id)];
      system.set_name(folder_of(id));
      add_recipe(recipe, Asker(recipe, *driver, machine), system);
    } catch (const Error& error) {
      out.add_broken(error.what());
    }
  }
  int recipes = 0;
  for (const auto& [name, system] : systems) {
    recipes += system.recipe_size();
    *out.add_system() = system;
  }
  require(recipes > 0 || !out.broken().empty(),
          fmt::format("no recipe has '{}' in its id", arguments.filter),
          "'recipe-run list' shows all");
  if (arguments.json) {
    print_document(json_text(out));
  } else {
    std::string text = fmt::format("{} recipe{}; 'recipe-run plan RECIPE' says more of one\n",
                                   recipes, recipes == 1 ? "" : "s");
    for (const listing::System& system : out.system()) text += system_text(system);
    for (const std::string& error : out.broken()) text += "broken: " + error + "\n";
    print(text);
  }
  return out.broken().empty() ? Exit::kOk : Exit::kUsage;
}

}  // namespace reciperun
