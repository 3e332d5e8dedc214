#include "tools/recipe_run/lint/corpus.h"

#include <cmath>

#include "tools/recipe_run/base/error.h"
#include "tools/recipe_run/base/file.h"
#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/recipe/load.h"
#include "tools/recipe_run/sources/verify.h"

namespace reciperun::lint {
namespace {

// 0.01 for "8.69", 1 for "1376".
double step_of(const std::string& printed) {
  const std::vector<std::string> numbers = numbers_in(printed);
  const std::string number = numbers.empty() ? printed : numbers[0];
  const size_t point = number.find('.');
  return point == std::string::npos
             ? 1
             : std::pow(10.0, -static_cast<double>(number.size() - point - 1));
}

Printed locate(const v1::Recipe& recipe, const v1::Expect& expect, const std::string& name,
               const SourceFile& file) {
  std::string problem;
  const auto place = find_cell(file, expect.at(), problem);
  if (!place) {
    throw Error(Exit::kSourceChanged, recipe.id() + ": " + expect.id() + ": " + problem,
                "'recipe-run verify-sources' shows all of them");
  }
  Printed number;
  number.recipe = &recipe;
  number.expect = &expect;
  number.file = name;
  number.table = place->table;
  number.row = place->row;
  number.value = stated_numbers(expect).at(0);
  number.step = step_of(expect.at().printed());
  return number;
}

}  // namespace

std::string Printed::where() const {
  std::vector<std::string> parts;
  for (const v1::Cell& cell : expect->at().where())
    parts.push_back(cell.column() + " " + cell.equals());
  return join(parts, ", ");
}

const Printed* Corpus::find(const std::string& recipe, const std::string& row) const {
  const auto it = index_.find({recipe, row});
  return it == index_.end() ? nullptr : &numbers[it->second];
}

Corpus load_corpus(const std::filesystem::path& root) {
  Corpus corpus;
  for (const std::string& id : recipe_ids(root)) {
    v1::Recipe recipe = load_recipe({root, id}).recipe;
    if (!recipe.abstract()) corpus.recipes.emplace(id, std::move(recipe));
  }
  for (const auto& [id, recipe] : corpus.recipes) {
    std::map<std::string, std::string> names;
    for (const v1::Source& source : recipe.source()) {
      if (fs::path(source.file()).extension() != ".tsv") continue;
      names[source.id()] = source.file();
      if (corpus.files.count(source.file()) == 0)
        corpus.files[source.file()] = parse_source(source.file(), read_file(root / source.file()));
    }
    for (const v1::Expect& expect : recipe.expect()) {
      const auto name = names.find(expect.at().source());
      if (name == names.end() || stated_numbers(expect).empty()) continue;
      corpus.index_[{id, expect.id()}] = corpus.numbers.size();
      corpus.numbers.push_back(locate(recipe, expect, name->second, corpus.files.at(name->second)));
    }
  }
  return corpus;
}

Interval printed_interval(const Printed& number) {
  return {number.value - number.step / 2, number.value + number.step};
}

Interval rounded_interval(const Printed& number) {
  return {number.value - number.step / 2, number.value + number.step / 2};
}

std::map<std::pair<std::string, std::string>, std::vector<const Printed*>> by_table(
    const Corpus& corpus) {
  std::map<std::pair<std::string, std::string>, std::vector<const Printed*>> tables;
  for (const Printed& number : corpus.numbers)
    tables[{number.file, number.table->name}].push_back(&number);
  return tables;
}

}  // namespace reciperun::lint
