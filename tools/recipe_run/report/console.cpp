#include <fmt/core.h>

#include <algorithm>

#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/report/report.h"
#include "tools/recipe_run/report/shards.h"

namespace reciperun {
namespace {

// The same in all tables, so that their columns stand below each other; 0 for an empty column.
std::vector<int> column_widths(const std::vector<RowGroup>& groups, const TableWords& words) {
  std::vector<int> widths;
  for (const RowGroup& group : groups) {
    const std::vector<std::string> headings = table_headings(group.rows, words);
    widths.resize(headings.size());
    for (size_t c = 0; c < headings.size(); ++c) {
      if (!column_used(group.rows, c)) continue;
      widths[c] = std::max(widths[c], display_width(headings[c]));
      for (const Row* row : group.rows)
        widths[c] = std::max(widths[c], display_width(table_cells(*row, group.rows)[c]));
    }
  }
  return widths;
}

int table_width(const std::vector<int>& widths) {
  int sum = -2;
  for (const int width : widths) sum += width == 0 ? 0 : width + 2;
  return sum;
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

// "published 77.150 ± 0.098 % (8 runs)"; "" without a value.
std::string side_text(const std::string& heading, const std::string& value, const std::string& n,
                      const std::string& counted, const std::string& unit) {
  if (value.empty()) return "";
  return fmt::format("{} {}{}{}", heading, value, unit == "1" ? "" : " " + unit,
                     n.empty() ? "" : fmt::format(" ({} {})", n, counted));
}

// A row on a narrow terminal: its name, its verdict at the right edge, its numbers below.
std::string block_of(const Row& row, const TableWords& words, int columns) {
  const std::string verdict = verdict_word(row.judgement.verdict);
  const int room = columns - display_width(verdict);
  std::string out = display_width(row.title) + 2 > room
                        ? row.title + "\n" + pad_left(verdict, columns)
                        : pad_right(row.title, room) + verdict;
  std::string line;
  for (const std::string& part :
       {side_text(words.reference, row.published, row.published_n, "runs", row.unit),
        side_text(words.own, row.measured, row.measured_n, table_headings({&row})[4], row.unit),
        row.delta.empty() ? "" : "Δ " + row.delta,
        row.interval.empty() ? "" : interval_kind(row) + " " + row.interval,
        row.margin.empty() ? "" : "margin " + row.margin}) {
    if (part.empty()) continue;
    const bool fits = !line.empty() && display_width(line + ", " + part) < columns;
    if (!fits && !line.empty()) out += "\n" + line;
    line = fits ? line + ", " + part : "    " + part;
  }
  return out + (line.empty() ? "" : "\n" + line) + "\n";
}

std::string list_of(const std::string& title, const std::vector<std::string>& lines) {
  std::string out = lines.empty() ? "" : "\n" + title + "\n";
  for (const std::string& line : lines) out += "  · " + line + "\n";
  return out;
}

}  // namespace

std::string console_tables(const std::vector<Row>& rows, const TableWords& words, int columns) {
  const std::vector<RowGroup> groups = grouped(rows);
  const std::vector<int> widths = column_widths(groups, words);
  const bool in_blocks = columns > 0 && table_width(widths) > columns;
  std::string out;
  for (const RowGroup& group : groups) {
    out += "\n" + group.title + "\n";
    if (!in_blocks) out += line_of(table_headings(group.rows, words), widths);
    for (const Row* row : group.rows) {
      out += in_blocks ? block_of(*row, words, columns)
                       : line_of(table_cells(*row, group.rows), widths);
      if (shows_reason(*row)) out += "  ↳ " + row->judgement.reason + "\n";
      if (!row->note.empty()) out += "  ↳ " + row->note + "\n";
    }
  }
  return out;
}

std::string console_report(const Report& report, int columns) {
  const std::string title =
      report.recipe.title().empty() ? report.recipe.id() : report.recipe.title();
  std::string out = title + "\n" + report.run.recipe() + " " + report.run.recipe_version() +
                    " · run " + report.run.id() + "\n" + report.run.device() + " · " +
                    report.run.engine() + "\n" + console_tables(report.rows, {}, columns);
  const std::vector<ShardLine> shards = shard_lines(report.recipe, report.measurements.trials);
  std::vector<std::string> parts;
  for (const ShardLine& line : shards) parts.push_back(line.trial + ", " + shard_text(line));
  out += list_of(kShardsTitle, parts);
  out += list_of("changed for this run", change_lines(report.run));
  out += list_of("known deviations from the source", deviation_lines(report.recipe));
  return out + "\n" + summary_line(report) + "\n";
}

}  // namespace reciperun
