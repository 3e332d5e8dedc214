#include "tools/recipe_run/recipe/sources.h"

#include <algorithm>
#include <map>
#include <optional>

#include "tools/recipe_run/base/error.h"
#include "tools/recipe_run/base/file.h"
#include "tools/recipe_run/base/sha256.h"
#include "tools/recipe_run/base/text.h"

namespace reciperun {
namespace {

struct Table {
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;

  // Value of `column` in a row; fails softly with "" for short rows and unknown columns.
  std::string cell(const std::vector<std::string>& row, const std::string& column) const {
    const auto it = std::find(columns.begin(), columns.end(), column);
    const auto at = static_cast<size_t>(it - columns.begin());
    return it == columns.end() || at >= row.size() ? "" : row[at];
  }
};

Table read_table(const std::string& text) {
  Table table;
  for (const std::string& line : split(text, '\n')) {
    if (line.empty() || line[0] == '#') continue;
    (table.columns.empty() ? table.columns : table.rows.emplace_back()) = split(line, '\t');
  }
  return table;
}

// "" if the cell at `at` holds the printed characters, else what is wrong.
std::string cell_problem(const Table& table, const v1::Locator& at) {
  if (std::find(table.columns.begin(), table.columns.end(), at.column()) == table.columns.end()) {
    return "the source has no column '" + at.column() + "'";
  }
  std::vector<std::string> found;
  for (const auto& row : table.rows) {
    const bool selected = std::all_of(
        at.where().begin(), at.where().end(),
        [&](const v1::Cell& cell) { return table.cell(row, cell.column()) == cell.equals(); });
    if (selected) found.push_back(table.cell(row, at.column()));
  }
  if (found.size() != 1)
    return "the locator selects " + std::to_string(found.size()) + " rows, expected one";
  if (found[0] != at.printed())
    return "the source prints '" + found[0] + "', the recipe says '" + at.printed() + "'";
  return "";
}

double value_of(const v1::Expect& expect) {
  return expect.has_single()     ? expect.single().v()
         : expect.has_mean_std() ? expect.mean_std().mean()
                                 : 0;
}

// The recipe's number must be the printed one.
std::string value_problem(const v1::Expect& expect) {
  if (!expect.has_single() && !expect.has_mean_std()) return "";
  const int decimals = static_cast<int>(split(expect.at().printed() + ".", '.')[1].size());
  const std::string text = fixed(value_of(expect), decimals);
  return text == expect.at().printed()
             ? ""
             : "the value " + text + " is not the printed '" + expect.at().printed() + "'";
}

}  // namespace

std::vector<SourceProblem> verify_sources(const v1::Recipe& recipe,
                                          const std::filesystem::path& root) {
  std::vector<SourceProblem> problems;
  std::map<std::string, Table> tables;
  for (const v1::Source& source : recipe.source()) {
    if (fs::path(source.file()).extension() != ".tsv") continue;
    const std::string text = read_file(root / source.file());
    if (sha256_hex(text) != source.sha256()) {
      problems.push_back({"", source.file() + " has digest " + sha256_hex(text) +
                                  ", the recipe says " + source.sha256()});
    }
    tables[source.id()] = read_table(text);
  }
  for (const v1::Expect& expect : recipe.expect()) {
    const auto table = tables.find(expect.at().source());
    if (!expect.has_at() || table == tables.end()) continue;
    std::string problem = cell_problem(table->second, expect.at());
    if (problem.empty()) problem = value_problem(expect);
    if (!problem.empty()) problems.push_back({expect.id(), problem});
  }
  return problems;
}

}  // namespace reciperun
