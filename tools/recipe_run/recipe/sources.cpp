// Holds expectations against the characters of their cells, and all cells against the expectations
// that claim them. What a cell was measured under is read in attribution.cpp.
#include "tools/recipe_run/recipe/sources.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <tuple>

#include "tools/recipe_run/recipe/facts.h"
#include "tools/recipe_run/util/error.h"
#include "tools/recipe_run/util/file.h"
#include "tools/recipe_run/util/text.h"

namespace reciperun {
namespace {

// --- An expectation against the characters of its cells. ---

// The characters that the locator means inside a whole cell; "" if it has no such part.
std::string part_of(const std::string& cell, uint32_t part) {
  if (part == 0) return cell;
  const std::vector<std::string> numbers = numbers_in(cell);
  return part <= numbers.size() ? numbers[part - 1] : "";
}

std::string printed_problem(const CellPlace& row, const std::string& column,
                            const std::string& says, uint32_t part) {
  const int at = row.table->column(column);
  if (at < 0) return "the source has no column '" + column + "'";
  const std::string prints = part_of(row.cell(at), part);
  return prints == says ? ""
                        : fmt::format("the source prints '{}', the recipe says '{}'", prints, says);
}

std::string cell_problem(const SourceFile& file, const v1::Locator& at) {
  std::string problem;
  const auto place = find_cell(file, at, problem);
  if (!place) return problem;
  problem = printed_problem(*place, at.column(), at.printed(), at.part());
  for (const v1::Cell& cell : at.also()) {
    if (problem.empty()) problem = printed_problem(*place, cell.column(), cell.equals(), 0);
  }
  return problem;
}

// The first problem of any cell that the expectation points at.
std::string cells_problem(const v1::Expect& expect, const SourceFiles& files) {
  std::vector<const v1::Locator*> places = {&expect.at()};
  for (const v1::Locator& seen : expect.seen()) places.push_back(&seen);
  if (expect.has_runs()) places.push_back(&expect.runs());
  for (const v1::Locator* at : places) {
    const auto file = files.find(at->source());
    if (file == files.end())
      return "its source '" + at->source() + "' holds no tables, so nothing is known to be printed";
    if (std::string problem = cell_problem(file->second, *at); !problem.empty()) return problem;
  }
  return "";
}

// The first number of `printed` must be exactly `value`.
std::string number_problem(double value, const std::string& printed) {
  const std::vector<std::string> numbers = numbers_in(printed);
  if (!numbers.empty() && std::strtod(numbers[0].c_str(), nullptr) == value) return "";
  const size_t point = printed.find('.');
  const size_t decimals = point == std::string::npos ? 0 : printed.size() - point - 1;
  return fmt::format("the value {} is not the printed '{}'",
                     fixed(value, static_cast<int>(std::min<size_t>(decimals, 9))), printed);
}

// The recipe's numbers must be the printed ones.
std::string value_problem(const v1::Expect& expect) {
  const std::vector<double> values = stated_numbers(expect);
  if (values.empty()) return "";
  const auto& also = expect.at().also();
  if (std::ssize(values) != 1 + also.size())
    return fmt::format("it states {} numbers, its locator names {} cells", values.size(),
                       1 + also.size());
  std::string problem = number_problem(values[0], expect.at().printed());
  for (int i = 0; i < also.size() && problem.empty(); ++i)
    problem = number_problem(values[static_cast<size_t>(i) + 1], also[i].equals());
  return problem;
}

// --- All cells against the expectations that claim them. ---

// A number of a table: file, table, row, column, which number of the cell.
using Number = std::tuple<std::string, std::string, int, int, uint32_t>;
using Claims = std::map<Number, std::vector<std::string>>;  // by which expectations

std::string words(const Number& number, const SourceTable& table) {
  const auto& [file, name, row, column, part] = number;
  return fmt::format("{}, table '{}', row {}, '{}'{}", file, name, row + 1,
                     table.columns[static_cast<size_t>(column)],
                     part > 1 ? fmt::format(", number {}", part) : "");
}

void claim(const v1::Recipe& recipe, const fs::path& root, Claims& claims) {
  std::vector<SourceProblem> ignored;
  const SourceFiles files = source_files(recipe, root, ignored);
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
  return kSettings.contains(column) || column.starts_with("Batch size / GPU") ||
         column.starts_with("Accumulation steps");
}

// The results in a cell. The scaling of one GPU over one GPU is a definition.
uint32_t results_in(const CellPlace& cell) {
  if (is_setting(cell.title())) return 0;
  if (cell.title().starts_with("Weak scaling") && cell.cell(cell.table->column("GPUs")) == "1")
    return 0;
  const bool batch_beside = cell.text().find("bsz=") != std::string::npos;
  return static_cast<uint32_t>(numbers_in(cell.text()).size()) - (batch_beside ? 1 : 0);
}

void count_claims(const std::string& file, bool has_document, const CellPlace& cell,
                  const Claims& claims, Completeness& out) {
  for (uint32_t part = 1; part <= results_in(cell); ++part) {
    const Number number{file, cell.table->name, cell.row, cell.column, part};
    const auto found = claims.find(number);
    const size_t count = found == claims.end() ? 0 : found->second.size();
    out.results += has_document;
    out.claimed += has_document && count == 1;
    if (count == 0 && has_document)
      out.problems.push_back(words(number, *cell.table) + ": claimed by no recipe");
    if (count > 1)
      out.problems.push_back(fmt::format("{}: claimed by {} and by {}", words(number, *cell.table),
                                         found->second[0], found->second[1]));
  }
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

SourceFiles source_files(const v1::Recipe& recipe, const std::filesystem::path& root,
                         std::vector<SourceProblem>& problems) {
  SourceFiles files;
  for (const v1::Source& source : recipe.source()) {
    if (fs::path(source.file()).extension() != ".tsv") continue;
    const std::string text = read_file(root / source.file());
    if (sha256_hex(text) != source.sha256())
      problems.push_back({"",
                          fmt::format("{} has digest {}, the recipe says {}", source.file(),
                                      sha256_hex(text), source.sha256()),
                          "source." + source.id() + ".sha256"});
    files[source.id()] = parse_source(source.file(), text);
  }
  return files;
}

std::vector<SourceProblem> verify_sources(const v1::Recipe& recipe,
                                          const std::filesystem::path& root, const FindRow& rows) {
  std::vector<SourceProblem> problems;
  const SourceFiles files = source_files(recipe, root, problems);
  const FindRow find_row = [&](const std::string& other, const std::string& id) {
    if (!other.empty() && other != recipe.id()) return rows ? rows(other, id) : nullptr;
    return find_expectation(recipe, id);
  };
  const bool comparable = incomparable_as_it_stands(recipe).empty();
  for (const v1::Expect& expect : recipe.expect()) {
    if (!expect.has_at()) continue;
    const std::string path = "expect." + expect.id();
    std::string problem = cells_problem(expect, files);
    if (problem.empty()) problem = value_problem(expect);
    if (!problem.empty()) {
      problems.push_back({expect.id(), problem, path + ".at"});
    } else if (comparable) {
      for (const std::string& text : attribution_problems(recipe, expect, files, find_row))
        problems.push_back({expect.id(), text, path, true});
    }
  }
  return problems;
}

void require_sources(const ResolvedRecipe& resolved, const std::filesystem::path& root) {
  std::vector<SourceProblem> problems = verify_sources(resolved.recipe, root);
  if (!resolved.modified_reason().empty())
    std::erase_if(problems, [](const SourceProblem& problem) { return problem.attribution; });
  if (problems.empty()) return;
  const auto& [expectation, text, path, attribution] = problems[0];
  throw Error(Exit::kSourceChanged,
              fmt::format("{}{}{}", resolved.place_of(path),
                          expectation.empty() ? "" : "expectation '" + expectation + "': ", text),
              "correct the recipe, or put the source back as it was");
}

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
        for (size_t column = 0; column < table.columns.size(); ++column)
          count_claims(name, !file.document.empty(),
                       {&table, static_cast<int>(row), static_cast<int>(column)}, claims, out);
      }
    }
  }
  return out;
}

}  // namespace reciperun
