#include <algorithm>

#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/report/report.h"

namespace reciperun {
namespace {

// The same in all tables, so that their columns stand below each other; 0 for an empty column.
std::vector<int> column_widths(const std::vector<Row>& rows,
                               const std::vector<std::string>& headings) {
  std::vector<int> widths;
  for (size_t c = 0; c < headings.size(); ++c) {
    int width = 0;
    for (const Row& row : rows) width = std::max(width, display_width(table_cells(row)[c]));
    widths.push_back(width == 0 ? 0 : std::max(width, display_width(headings[c])));
  }
  return widths;
}

std::string line_of(const std::vector<std::string>& cells, const std::vector<int>& widths) {
  std::string line;
  for (size_t c = 0; c < cells.size(); ++c) {
    if (widths[c] == 0) continue;
    const bool number = column_kind(c) == ColumnKind::kNumber;
    line += (line.empty() ? "" : "  ") +
            (number ? pad_left(cells[c], widths[c]) : pad_right(cells[c], widths[c]));
  }
  line.resize(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

}  // namespace

std::string console_tables(const std::vector<Row>& rows, const TableWords& words) {
  const std::vector<std::string> headings = table_headings(words);
  const std::vector<int> widths = column_widths(rows, headings);
  std::string out;
  for (const RowGroup& group : grouped(rows)) {
    out += "\n" + group.title + "\n" + line_of(headings, widths);
    for (const Row* row : group.rows) {
      out += line_of(table_cells(*row), widths);
      if (shows_reason(*row)) out += "  ↳ " + row->judgement.reason + "\n";
      if (!row->note.empty()) out += "  ↳ " + row->note + "\n";
    }
  }
  return out;
}

std::string console_report(const Report& report) {
  const std::string title =
      report.recipe.title().empty() ? report.recipe.id() : report.recipe.title();
  std::string out = title + "\n" + report.run.recipe() + " " + report.run.recipe_version() +
                    " · run " + report.run.id() + "\n" + report.run.device() + " · " +
                    report.run.engine() + "\n" + console_tables(report.rows);
  const std::vector<std::string> deviations = deviation_lines(report.recipe);
  if (!deviations.empty()) out += "\nknown deviations from the source\n";
  for (const std::string& line : deviations) out += "  · " + line + "\n";
  return out + "\n" + summary_line(report) + "\n";
}

}  // namespace reciperun
