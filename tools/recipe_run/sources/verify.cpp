#include "tools/recipe_run/sources/verify.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "tools/recipe_run/base/error.h"
#include "tools/recipe_run/base/file.h"
#include "tools/recipe_run/base/sha256.h"
#include "tools/recipe_run/base/text.h"

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

std::vector<SourceProblem> verify_sources(const v1::Recipe& recipe,
                                          const std::filesystem::path& root) {
  std::vector<SourceProblem> problems;
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
  for (const v1::Expect& expect : recipe.expect()) {
    const auto file = files.find(expect.at().source());
    if (!expect.has_at() || file == files.end()) continue;
    std::string problem = cell_problem(file->second, expect.at());
    if (problem.empty()) problem = value_problem(expect);
    if (!problem.empty())
      problems.push_back({expect.id(), problem, "expect." + expect.id() + ".at"});
  }
  return problems;
}

void require_sources(const ResolvedRecipe& resolved, const std::filesystem::path& root) {
  const std::vector<SourceProblem> problems = verify_sources(resolved.recipe, root);
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
