#include "tools/recipe_run/sources/completeness.h"

#include <map>
#include <set>
#include <tuple>

#include "tools/recipe_run/base/file.h"
#include "tools/recipe_run/recipe/facts.h"
#include "tools/recipe_run/sources/table_file.h"
#include "tools/recipe_run/sources/verify.h"

namespace reciperun {
namespace {

// A number of a table: file, table, row, column, which number of the cell.
using Place = std::tuple<std::string, std::string, int, int, uint32_t>;
using Claims = std::map<Place, std::vector<std::string>>;  // by which expectations

std::string words(const Place& place, const SourceTable& table) {
  const auto& [file, name, row, column, part] = place;
  return file + ", table '" + name + "', row " + std::to_string(row + 1) + ", '" +
         table.columns[static_cast<size_t>(column)] + "'" +
         (part > 1 ? ", number " + std::to_string(part) : "");
}

void claim(const v1::Recipe& recipe, const fs::path& root, Claims& claims) {
  std::vector<SourceProblem> ignored;
  const auto files = source_files(recipe, root, ignored);
  std::map<std::string, std::string> names;
  for (const v1::Source& source : recipe.source()) names[source.id()] = source.file();
  for (const v1::Expect& expect : recipe.expect()) {
    const auto file = files.find(expect.at().source());
    if (!expect.has_at() || file == files.end()) continue;
    std::string problem;
    const auto place = find_cell(file->second, expect.at(), problem);
    if (!place) continue;
    const auto add = [&](int column, uint32_t part) {
      claims[{names.at(file->first), place->table->name, place->row, column, std::max(1u, part)}]
          .push_back(recipe.id() + ": " + expect.id());
    };
    add(place->column, expect.at().part());
    // The seeds of a sample; a standard deviation has a row of its own.
    for (int i = 0; i < expect.sample().v_size() && i < expect.at().also_size(); ++i)
      add(place->table->column(expect.at().also(i).column()), 0);
  }
}

// What is printed in a table but is no result: the settings of a row.
bool is_setting(const std::string& column) {
  static const std::set<std::string> kSettings = {
      "GPUs",      "# of epochs",      "Batch size",      "Resolution",     "Image size",
      "Precision", "Local Batch size", "Sequence length", "DGX System",     "SQuAD version",
      "Framework", "Source",           "Config",          "Accuracy Metric"};
  return kSettings.count(column) == 1 || column.starts_with("Batch size / GPU") ||
         column.starts_with("Accumulation steps");
}

// The scaling of one GPU over one GPU: a definition.
bool is_unity(const SourceTable& table, size_t row, const std::string& column) {
  return column.starts_with("Weak scaling") &&
         table.rows[row][static_cast<size_t>(table.column("GPUs"))] == "1";
}

uint32_t results_in(const SourceTable& table, size_t row, size_t column) {
  const std::string& title = table.columns[column];
  if (is_setting(title) || is_unity(table, row, title)) return 0;
  const std::string& cell = table.rows[row][column];
  const auto numbers = static_cast<uint32_t>(numbers_in(cell).size());
  const bool batch_beside = cell.find("bsz=") != std::string::npos;
  return numbers - (batch_beside ? 1 : 0);
}

}  // namespace

Completeness completeness_of(const std::vector<const v1::Recipe*>& recipes,
                             const std::filesystem::path& root) {
  Claims claims;
  for (const v1::Recipe* recipe : recipes) {
    if (incomparable_as_it_stands(*recipe).empty()) claim(*recipe, root, claims);
  }
  Completeness out;
  for (const auto& entry : fs::directory_iterator(root / "sources")) {
    const std::string name = "sources/" + entry.path().filename().string();
    const SourceFile file = parse_source(entry.path().string(), read_file(entry.path()));
    for (const SourceTable& table : file.tables) {
      if (table.name == kTextTable) continue;
      for (size_t row = 0; row < table.rows.size(); ++row) {
        for (size_t column = 0; column < table.columns.size(); ++column) {
          for (uint32_t part = 1; part <= results_in(table, row, column); ++part) {
            const Place place{name, table.name, static_cast<int>(row), static_cast<int>(column),
                              part};
            const auto found = claims.find(place);
            const size_t count = found == claims.end() ? 0 : found->second.size();
            if (!file.document.empty()) {
              ++out.results;
              out.claimed += count == 1;
              if (count == 0)
                out.problems.push_back(words(place, table) + ": claimed by no recipe");
            }
            if (count > 1)
              out.problems.push_back(words(place, table) + ": claimed by " + found->second[0] +
                                     " and by " + found->second[1]);
          }
        }
      }
    }
  }
  return out;
}

}  // namespace reciperun
