// Documents on a terminal and as Markdown.
#include <fmt/core.h>

#include <algorithm>

#include "tools/recipe_run/report/tables.h"
#include "tools/recipe_run/util/text.h"

namespace reciperun {
namespace {

struct Table {
  RowGroup group;
  std::vector<Column> columns;
};

std::vector<Table> tables_of(const Document& document) {
  std::vector<Table> out;
  for (const RowGroup& group : grouped(document.rows))
    out.push_back({group, columns_of(group, document.words)});
  return out;
}

// --- Terminal. ---

// The same in all tables, so that their columns stand below each other; 0 for an empty column.
std::vector<int> column_widths(const std::vector<Table>& tables) {
  std::vector<int> widths;
  for (const Table& table : tables) {
    widths.resize(table.columns.size());
    for (size_t c = 0; c < widths.size(); ++c) {
      const Column& column = table.columns[c];
      if (!column.used) continue;
      widths[c] = std::max(widths[c], display_width(column.heading));
      for (const std::string& cell : column.cells)
        widths[c] = std::max(widths[c], display_width(cell));
    }
  }
  return widths;
}

int table_width(const std::vector<int>& widths) {
  int sum = -2;
  for (const int width : widths) sum += width == 0 ? 0 : width + 2;
  return sum;
}

// The headings (row -1) or a row of a table.
std::string console_line(const Table& table, int row, const std::vector<int>& widths) {
  std::string line;
  for (size_t c = 0; c < widths.size(); ++c) {
    if (widths[c] == 0) continue;
    const Column& column = table.columns[c];
    const std::string& cell = row < 0 ? column.heading : column.cells[static_cast<size_t>(row)];
    line += (line.empty() ? "" : "  ") + (column.kind == ColumnKind::kNumber
                                              ? pad_left(cell, widths[c])
                                              : pad_right(cell, widths[c]));
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
        side_text(words.own, row.measured, row.measured_n, count_word({&row}), row.unit),
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

std::string console_sections(const std::vector<Section>& sections) {
  std::string out;
  for (const Section& section : sections) {
    if (!section.lines.empty()) out += "\n" + section.title + "\n";
    for (const std::string& line : section.lines) out += "  · " + line + "\n";
  }
  return out;
}

// --- Markdown. ---

std::string markdown_escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '|' || c == '\\' || c == '*' || c == '_' || c == '<' || c == '`') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

std::string markdown_table(const Table& table) {
  std::string headings = "|", rules = "|", rows, remarks;
  for (const Column& column : table.columns) {
    if (!column.used) continue;
    headings += " " + column.heading + " |";
    rules += column.kind == ColumnKind::kNumber ? " ---: |" : " --- |";
  }
  for (size_t r = 0; r < table.group.rows.size(); ++r) {
    const Row& row = *table.group.rows[r];
    const bool judged = row.judgement.verdict != Verdict::kNoPublishedValue;
    rows += "|";
    for (const Column& column : table.columns) {
      const std::string bold = judged && column.kind == ColumnKind::kVerdict ? "**" : "";
      if (column.used)
        rows += fmt::format(" {}{}{} |", bold, markdown_escaped(column.cells[r]), bold);
    }
    rows += "\n";
    for (const std::string& remark : remarks_of(row))
      remarks += fmt::format("- {}: {}\n", markdown_escaped(row.title), markdown_escaped(remark));
  }
  return fmt::format("\n## {}\n\n{}\n{}\n{}{}{}", table.group.title, headings, rules, rows,
                     remarks.empty() ? "" : "\n", remarks);
}

std::string markdown_sections(const std::vector<Section>& sections) {
  std::string out;
  for (const Section& section : sections) {
    if (!section.lines.empty()) out += fmt::format("\n## {}\n\n", section.title);
    for (const std::string& line : section.lines) out += "- " + markdown_escaped(line) + "\n";
  }
  return out;
}

}  // namespace

std::string console_text(const Document& document, int columns) {
  std::string out = document.title + "\n";
  for (const std::string& line : document.about) out += line + "\n";
  out += console_sections(document.before);
  const std::vector<Table> tables = tables_of(document);
  const std::vector<int> widths = column_widths(tables);
  const bool in_blocks = columns > 0 && table_width(widths) > columns;
  for (const Table& table : tables) {
    out += "\n" + table.group.title + "\n";
    if (!in_blocks) out += console_line(table, -1, widths);
    for (size_t r = 0; r < table.group.rows.size(); ++r) {
      const Row& row = *table.group.rows[r];
      out += in_blocks ? block_of(row, document.words, columns)
                       : console_line(table, static_cast<int>(r), widths);
      for (const std::string& remark : remarks_of(row)) out += "  ↳ " + remark + "\n";
    }
  }
  return out + console_sections(document.after) + "\n" + document.summary + "\n";
}

std::string markdown_text(const Document& document) {
  std::string out = fmt::format("# {}\n\n{}\n\n", markdown_escaped(document.title),
                                markdown_escaped(document.summary));
  for (const std::string& line : document.about) out += "- " + markdown_escaped(line) + "\n";
  out += markdown_sections(document.before);
  for (const Table& table : tables_of(document)) out += markdown_table(table);
  return out + markdown_sections(document.after);
}

}  // namespace reciperun
