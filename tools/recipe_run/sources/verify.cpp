#include "tools/recipe_run/sources/verify.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "tools/recipe_run/base/error.h"
#include "tools/recipe_run/base/file.h"
#include "tools/recipe_run/base/sha256.h"
#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/recipe/facts.h"

namespace reciperun {
namespace {

bool selects(const SourceTable& table, const std::vector<std::string>& row,
             const v1::Cell& selector) {
  const int column = table.column(selector.column());
  return column >= 0 && row[static_cast<size_t>(column)] == selector.equals();
}

// The characters that the locator means inside a whole cell; "" if it has no such part.
std::string part_of(const std::string& cell, uint32_t part) {
  if (part == 0) return cell;
  const std::vector<std::string> numbers = numbers_in(cell);
  return part <= numbers.size() ? numbers[part - 1] : "";
}

std::string printed_problem(const SourceTable& table, const std::vector<std::string>& row,
                            const std::string& column, const std::string& says, uint32_t part) {
  const int at = table.column(column);
  if (at < 0) return "the source has no column '" + column + "'";
  const std::string prints = part_of(row[static_cast<size_t>(at)], part);
  return prints == says ? "" : "the source prints '" + prints + "', the recipe says '" + says + "'";
}

std::string cell_problem(const SourceFile& file, const v1::Locator& at) {
  std::string problem;
  const auto place = find_cell(file, at, problem);
  if (!place) return problem;
  const auto& row = place->table->rows[static_cast<size_t>(place->row)];
  problem = printed_problem(*place->table, row, at.column(), at.printed(), at.part());
  for (const v1::Cell& cell : at.also()) {
    if (problem.empty())
      problem = printed_problem(*place->table, row, cell.column(), cell.equals(), 0);
  }
  return problem;
}

// The first problem of any cell that the expectation points at.
std::string cells_problem(const v1::Expect& expect, const FindSource& sources) {
  std::vector<const v1::Locator*> places = {&expect.at()};
  for (const v1::Locator& seen : expect.seen()) places.push_back(&seen);
  if (expect.has_runs()) places.push_back(&expect.runs());
  for (const v1::Locator* at : places) {
    const SourceFile* file = sources(at->source());
    if (file == nullptr)
      return "its source '" + at->source() + "' holds no tables, so nothing is known to be printed";
    if (const std::string problem = cell_problem(*file, *at); !problem.empty()) return problem;
  }
  return "";
}

// The first number of `printed` must be exactly `value`.
std::string number_problem(double value, const std::string& printed) {
  const std::vector<std::string> numbers = numbers_in(printed);
  if (!numbers.empty() && std::strtod(numbers[0].c_str(), nullptr) == value) return "";
  const auto point = printed.find('.');
  const auto decimals = point == std::string::npos ? 0 : printed.size() - point - 1;
  return "the value " + fixed(value, static_cast<int>(std::min<size_t>(decimals, 9))) +
         " is not the printed '" + printed + "'";
}

// The recipe's numbers must be the printed ones.
std::string value_problem(const v1::Expect& expect) {
  const std::vector<double> values = stated_numbers(expect);
  if (values.empty()) return "";
  if (values.size() != 1 + static_cast<size_t>(expect.at().also_size())) {
    return "it states " + std::to_string(values.size()) + " numbers, its locator names " +
           std::to_string(1 + expect.at().also_size()) + " cells";
  }
  std::string problem = number_problem(values[0], expect.at().printed());
  for (int i = 0; i < expect.at().also_size() && problem.empty(); ++i)
    problem = number_problem(values[static_cast<size_t>(i) + 1], expect.at().also(i).equals());
  return problem;
}

}  // namespace

std::vector<double> stated_numbers(const v1::Expect& expect) {
  std::vector<double> sample(expect.sample().v().begin(), expect.sample().v().end());
  switch (expect.value_case()) {
    case v1::Expect::kSingle:
      return {expect.single().v()};
    case v1::Expect::kMeanStd:
      return {expect.mean_std().mean(), expect.mean_std().std()};
    case v1::Expect::kSample:
      sample.insert(sample.begin(), expect.sample().printed_mean());
      if (expect.sample().printed_std() != 0) sample.push_back(expect.sample().printed_std());
      return sample;
    case v1::Expect::kExtreme:
      return {expect.extreme().v()};
    case v1::Expect::kRatio:
      return {expect.ratio().v()};
    case v1::Expect::kTail:
      return {expect.tail().v()};
    case v1::Expect::kSpread:
      return {expect.spread().v()};
    default:
      return {};
  }
}

std::optional<CellPlace> find_cell(const SourceFile& file, const v1::Locator& at,
                                   std::string& problem) {
  const SourceTable* table = file.find(at.table());
  if (table == nullptr) {
    problem = "the source has no table '" + at.table() + "'";
    return std::nullopt;
  }
  const int column = table->column(at.column());
  if (column < 0) {
    problem = "the source has no column '" + at.column() + "'";
    return std::nullopt;
  }
  std::vector<int> found;
  for (size_t row = 0; row < table->rows.size(); ++row) {
    if (std::all_of(at.where().begin(), at.where().end(), [&](const v1::Cell& selector) {
          return selects(*table, table->rows[row], selector);
        }))
      found.push_back(static_cast<int>(row));
  }
  if (found.size() == 1) return CellPlace{table, found[0], column};
  problem = "the locator selects " + std::to_string(found.size()) + " rows, expected one";
  return std::nullopt;
}

std::map<std::string, SourceFile> source_files(const v1::Recipe& recipe,
                                               const std::filesystem::path& root,
                                               std::vector<SourceProblem>& problems) {
  std::map<std::string, SourceFile> files;
  for (const v1::Source& source : recipe.source()) {
    if (fs::path(source.file()).extension() != ".tsv") continue;
    const std::string text = read_file(root / source.file());
    if (sha256_hex(text) != source.sha256()) {
      problems.push_back({"",
                          source.file() + " has digest " + sha256_hex(text) + ", the recipe says " +
                              source.sha256(),
                          "source." + source.id() + ".sha256"});
    }
    files[source.id()] = parse_source(source.file(), text);
  }
  return files;
}

std::vector<SourceProblem> verify_sources(const v1::Recipe& recipe,
                                          const std::filesystem::path& root, const FindRow& rows) {
  std::vector<SourceProblem> problems;
  const std::map<std::string, SourceFile> files = source_files(recipe, root, problems);
  const FindSource find_source = [&](const std::string& id) {
    const auto found = files.find(id);
    return found == files.end() ? nullptr : &found->second;
  };
  const FindRow find_row = [&](const std::string& other, const std::string& id) {
    if (!other.empty() && other != recipe.id()) return rows ? rows(other, id) : nullptr;
    const auto found = std::find_if(recipe.expect().begin(), recipe.expect().end(),
                                    [&](const v1::Expect& e) { return e.id() == id; });
    return found == recipe.expect().end() ? nullptr : &*found;
  };
  const bool comparable = incomparable_as_it_stands(recipe).empty();
  for (const v1::Expect& expect : recipe.expect()) {
    if (!expect.has_at()) continue;
    const std::string path = "expect." + expect.id();
    std::string problem = cells_problem(expect, find_source);
    if (problem.empty()) problem = value_problem(expect);
    if (!problem.empty()) {
      problems.push_back({expect.id(), problem, path + ".at"});
      continue;
    }
    if (!comparable) continue;
    for (const std::string& text : attribution_problems(recipe, expect, find_source, find_row))
      problems.push_back({expect.id(), text, path, true});
  }
  return problems;
}

void require_sources(const ResolvedRecipe& resolved, const std::filesystem::path& root) {
  std::vector<SourceProblem> problems = verify_sources(resolved.recipe, root);
  if (!resolved.modified_reason().empty())
    std::erase_if(problems, [](const SourceProblem& problem) { return problem.attribution; });
  if (problems.empty()) return;
  const SourceProblem& first = problems[0];
  const Origin* origin = find_origin(resolved.origins, first.path);
  throw Error(Exit::kSourceChanged,
              (origin == nullptr ? resolved.file.string() : origin->place()) + ": " +
                  (first.expectation.empty() ? "" : "expectation '" + first.expectation + "': ") +
                  first.text,
              "correct the recipe, or put the source back as it was");
}

}  // namespace reciperun
