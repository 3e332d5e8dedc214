#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/report/report.h"

namespace reciperun {
namespace {

// Numbers align to the right, words to the left.
bool is_word_column(size_t column) { return column == 0 || column == 5 || column == 9; }

std::vector<int> column_widths(const Report& report) {
  const std::vector<std::string> headings = table_headings();
  std::vector<int> widths;
  for (size_t c = 0; c < headings.size(); ++c) {
    int width = display_width(headings[c]);
    for (const Row& row : report.rows) width = std::max(width, display_width(table_cells(row)[c]));
    widths.push_back(column_used(pointers(report.rows), c) ? width : 0);
  }
  return widths;
}

std::string line_of(const std::vector<std::string>& cells, const std::vector<int>& widths) {
  std::string line;
  for (size_t c = 0; c < cells.size(); ++c) {
    if (widths[c] == 0) continue;
    line += (line.empty() ? "" : "  ") +
            (is_word_column(c) ? pad_right(cells[c], widths[c]) : pad_left(cells[c], widths[c]));
  }
  line.resize(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

}  // namespace

std::string console_report(const Report& report) {
  const std::string title =
      report.recipe.title().empty() ? report.recipe.id() : report.recipe.title();
  std::string out = title + "\n" + report.run.recipe() + " " + report.run.recipe_version() +
                    " · run " + report.run.id() + "\n" + report.run.device() + " · " +
                    report.run.engine() + "\n";
  const std::vector<int> widths = column_widths(report);
  for (const RowGroup& group : grouped(report.rows)) {
    out += "\n" + group.title + "\n" + line_of(table_headings(), widths);
    for (const Row* row : group.rows) {
      out += line_of(table_cells(*row), widths);
      const bool plain = row->judgement.verdict == Verdict::kNoPublishedValue;
      if (!plain && !row->judgement.reason.empty()) out += "  ↳ " + row->judgement.reason + "\n";
      if (!row->note.empty()) out += "  ↳ " + row->note + "\n";
    }
  }
  const std::vector<std::string> deviations = deviation_lines(report.recipe);
  if (!deviations.empty()) out += "\nknown deviations from the source\n";
  for (const std::string& line : deviations) out += "  · " + line + "\n";
  return out + "\n" + summary_line(report) + "\n";
}

}  // namespace reciperun
