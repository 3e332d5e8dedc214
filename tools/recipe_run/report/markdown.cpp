#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/report/report.h"
#include "tools/recipe_run/report/shards.h"

namespace reciperun {
namespace {

std::string line_of(const std::vector<std::string>& cells, const std::vector<const Row*>& rows) {
  std::string line = "|";
  for (size_t c = 0; c < cells.size(); ++c) {
    if (column_used(rows, c)) line += " " + cells[c] + " |";
  }
  return line + "\n";
}

std::string list_of(const std::string& title, const std::vector<std::string>& lines) {
  std::string out = lines.empty() ? "" : "\n## " + title + "\n\n";
  for (const std::string& line : lines) out += "- " + markdown_escaped(line) + "\n";
  return out;
}

}  // namespace

std::string markdown_escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '|' || c == '\\' || c == '*' || c == '_' || c == '<' || c == '`') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

std::string markdown_tables(const std::vector<Row>& rows, const TableWords& words) {
  std::string out;
  for (const RowGroup& group : grouped(rows)) {
    const std::vector<std::string> headings = table_headings(group.rows, words);
    std::vector<std::string> rules;
    for (size_t c = 0; c < headings.size(); ++c)
      rules.push_back(column_kind(c) == ColumnKind::kNumber ? "---:" : "---");
    out += "\n## " + group.title + "\n\n" + line_of(headings, group.rows);
    out += line_of(rules, group.rows);
    std::string remarks;
    for (const Row* row : group.rows) {
      std::vector<std::string> cells = table_cells(*row, group.rows);
      for (std::string& cell : cells) cell = markdown_escaped(cell);
      if (row->judgement.verdict != Verdict::kNoPublishedValue)
        cells.back() = "**" + cells.back() + "**";
      out += line_of(cells, group.rows);
      const std::string item = "- " + markdown_escaped(row->title) + ": ";
      if (shows_reason(*row)) remarks += item + markdown_escaped(row->judgement.reason) + "\n";
      if (!row->note.empty()) remarks += item + markdown_escaped(row->note) + "\n";
    }
    if (!remarks.empty()) out += "\n" + remarks;
  }
  return out;
}

std::string markdown_report(const Report& report) {
  const std::string title =
      report.recipe.title().empty() ? report.recipe.id() : report.recipe.title();
  std::string out = "# " + markdown_escaped(title) + "\n\n" +
                    markdown_escaped(summary_line(report)) + "\n\n- recipe `" +
                    report.run.recipe() + "` " + report.run.recipe_version() + ", run `" +
                    report.run.id() + "`\n- " + markdown_escaped(report.run.device()) + ", " +
                    markdown_escaped(report.run.engine()) + "\n" + markdown_tables(report.rows);
  const std::vector<ShardLine> shards = shard_lines(report.recipe, report.measurements.trials);
  std::vector<std::string> parts;
  for (const ShardLine& line : shards) parts.push_back(line.trial + ", " + shard_text(line));
  out += list_of(kShardsTitle, parts);
  return out + list_of("Changed for this run", change_lines(report.run)) +
         list_of("Known deviations from the source", deviation_lines(report.recipe));
}

}  // namespace reciperun
