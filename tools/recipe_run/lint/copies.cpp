// The same numbers where different ones belong: cells copied between rows and tables.
#include <algorithm>
#include <set>
#include <tuple>

#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/lint/lint.h"

namespace reciperun::lint {
namespace {

bool is_accuracy(const Printed& number) {
  return number.expect->has_single() && number.expect->bench().empty() &&
         number.expect->metric() != "time_to_train";
}

// The numbers of each row of a table, by column (and part of it).
using Cells = std::map<std::pair<std::string, uint32_t>, double>;

std::map<int, Cells> cells_by_row(const std::vector<const Printed*>& numbers,
                                  bool accuracies_only) {
  std::map<int, Cells> rows;
  for (const Printed* number : numbers) {
    if (!accuracies_only || is_accuracy(*number))
      rows[number->row][{number->column(), number->expect->at().part()}] = number->value;
  }
  return rows;
}

std::string row_name(const std::vector<const Printed*>& numbers, int row) {
  const auto it = std::find_if(numbers.begin(), numbers.end(),
                               [&](const Printed* number) { return number->row == row; });
  return (*it)->where();
}

// Two rows of one table with the same accuracies throughout.
void check_equal_rows(const Corpus& corpus, Findings& out) {
  for (const auto& [name, numbers] : by_table(corpus)) {
    const auto rows = cells_by_row(numbers, true);
    for (auto a = rows.begin(); a != rows.end(); ++a) {
      for (auto b = std::next(a); b != rows.end(); ++b) {
        if (a->second.size() < 2 || a->second != b->second) continue;
        out.push_back({"copies", name.first, name.second,
                       row_name(numbers, a->first) + "; " + row_name(numbers, b->first),
                       "the same accuracies to the last digit: one measurement"});
      }
    }
  }
}

// Single runs that repeat the mean over seeds of another row.
void check_repeated_means(const Corpus& corpus, Findings& out) {
  std::set<std::tuple<std::string, std::string, double>> known;
  for (const Printed& number : corpus.numbers) {
    if (number.expect->has_sample() || number.expect->has_mean_std())
      known.insert({number.file, number.expect->metric(), number.value});
  }
  std::map<std::tuple<std::string, std::string, std::string>, std::vector<std::string>> repeats;
  for (const Printed& number : corpus.numbers) {
    const bool precise = number.value / number.step >= 100;
    if (is_accuracy(number) && precise &&
        known.count({number.file, number.expect->metric(), number.value}) == 1)
      repeats[{number.file, number.table->name, number.where()}].push_back(
          number.expect->at().printed());
  }
  for (const auto& [place, values] : repeats) {
    const auto& [file, table, where] = place;
    out.push_back({"copies", file, table, where,
                   join(values, ", ") + ": the means over the seeds of another table, not a run"});
  }
}

std::ptrdiff_t count_equal(const Cells& a, const Cells& b) {
  return std::count_if(a.begin(), a.end(), [&](const auto& cell) {
    const auto other = b.find(cell.first);
    return other != b.end() && other->second == cell.second;
  });
}

// Rows of different tables of one file with three or more equal numbers under equal columns.
void check_equal_cells(const Corpus& corpus, Findings& out) {
  constexpr int kCoincidence = 2;
  const auto tables = by_table(corpus);
  for (auto a = tables.begin(); a != tables.end(); ++a) {
    for (auto b = std::next(a); b != tables.end(); ++b) {
      if (a->first.first != b->first.first) continue;
      const auto rows_a = cells_by_row(a->second, false);
      const auto rows_b = cells_by_row(b->second, false);
      for (const auto& [row_a, cells_a] : rows_a) {
        for (const auto& [row_b, cells_b] : rows_b) {
          const std::ptrdiff_t equal = count_equal(cells_a, cells_b);
          if (equal <= kCoincidence) continue;
          out.push_back({"copies", b->first.first, b->first.second, row_name(b->second, row_b),
                         std::to_string(equal) + " numbers are those of table '" + a->first.second +
                             "', " + row_name(a->second, row_a)});
        }
      }
    }
  }
}

}  // namespace

void check_copies(const Corpus& corpus, Findings& out) {
  check_equal_rows(corpus, out);
  check_repeated_means(corpus, out);
  check_equal_cells(corpus, out);
}

}  // namespace reciperun::lint
