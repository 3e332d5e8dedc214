// The page of every HTML file and the tables in it.
#include "tools/recipe_run/report/chart.h"
#include "tools/recipe_run/report/embedded.h"
#include "tools/recipe_run/report/tables.h"

namespace reciperun {
namespace {

std::string verdict_class(Verdict verdict) {
  switch (verdict) {
    case Verdict::kReproduced:
      return "good";
    case Verdict::kWithinTolerance:
    case Verdict::kConsistent:
      return "fair";
    case Verdict::kDiffersWorse:
      return "bad";
    case Verdict::kDiffersBetter:
      return "good";
    case Verdict::kInconclusive:
    case Verdict::kInvalid:
      return "open";
    default:
      return "none";
  }
}

// Attributes of a column's cells. Words align left. On narrow screens a row becomes a block: its
// name, its verdict, then every other cell behind the column's heading.
std::string cell_attributes(size_t c, const std::string& heading) {
  const ColumnKind kind = column_kind(c);
  if (kind == ColumnKind::kTitle) return " class=\"row\"";
  if (kind == ColumnKind::kVerdict) return " class=\"w verdict\"";
  return std::string(kind == ColumnKind::kText ? " class=\"w\"" : "") + " data-h=\"" +
         html_escaped(heading) + "\"";
}

std::string table_of(const RowGroup& group, const std::vector<std::string>& headings) {
  std::string out =
      "<h2>" + html_escaped(group.title) + "</h2>\n<div class=\"scroll\"><table><thead><tr>";
  size_t columns = 0;
  for (size_t c = 0; c < headings.size(); ++c) {
    if (!column_used(group.rows, c)) continue;
    ++columns;
    const ColumnKind kind = column_kind(c);
    const bool left = kind == ColumnKind::kText || kind == ColumnKind::kVerdict;
    out += (left ? "<th class=\"w\">" : "<th>") + html_escaped(headings[c]) + "</th>";
  }
  out += "</tr></thead><tbody>\n";
  for (const Row* row : group.rows) {
    std::string why = shows_reason(*row) ? row->judgement.reason : "";
    if (!row->note.empty()) why += (why.empty() ? "" : " · ") + row->note;
    const std::vector<std::string> cells = table_cells(*row, group.rows);
    out += why.empty() ? "<tr>" : "<tr class=\"has-why\">";
    for (size_t c = 0; c < cells.size(); ++c) {
      if (!column_used(group.rows, c)) continue;
      std::string cell = html_escaped(cells[c]);
      if (column_kind(c) == ColumnKind::kVerdict)
        cell =
            "<span class=\"v " + verdict_class(row->judgement.verdict) + "\">" + cell + "</span>";
      out += "<td" + cell_attributes(c, headings[c]) + ">" + cell + "</td>";
    }
    out += "</tr>\n";
    if (!why.empty())
      out += "<tr><td class=\"why\" colspan=\"" + std::to_string(columns) + "\">" +
             html_escaped(why) + "</td></tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

}  // namespace

std::string verdict_legend() { return kReportLegend; }

std::string html_tables(const std::vector<Row>& rows, const TableWords& words) {
  std::string out;
  for (const RowGroup& group : grouped(rows))
    out += table_of(group, table_headings(group.rows, words));
  return out;
}

std::string html_page(const std::string& title, const std::string& body) {
  return "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
         "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>" +
         html_escaped(title) + "</title>\n<style>" + kReportStyle +
         "</style>\n</head>\n<body>\n<h1>" + html_escaped(title) + "</h1>\n" + body +
         "</body>\n</html>\n";
}

}  // namespace reciperun
