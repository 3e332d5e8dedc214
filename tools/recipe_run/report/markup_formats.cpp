// Documents as HTML, and their rows as JUnit's XML.
#include <fmt/core.h>

#include <array>
#include <map>

#include "tools/recipe_run/report/embedded.h"
#include "tools/recipe_run/report/tables.h"

namespace reciperun {
namespace {

// The class of a standing in the style sheet.
constexpr std::array kClasses = {"good", "fair", "bad", "open", "none"};
// Its element in JUnit's XML where it decides the exit code; "" passes.
constexpr std::array kElements = {"", "", "failure", "error", "skipped"};

size_t standing_of(const Row& row) {
  return static_cast<size_t>(facts_of(row.judgement.verdict).standing);
}

// Words align left. On narrow screens a row becomes a block: its name, its verdict, then every
// other cell behind the column's heading.
std::string cell_of(const Column& column, size_t r, const Row& row) {
  const std::string cell = html_escaped(column.cells[r]);
  switch (column.kind) {
    case ColumnKind::kTitle:
      return fmt::format("<td class=\"row\">{}</td>", cell);
    case ColumnKind::kVerdict:
      return fmt::format("<td class=\"w verdict\"><span class=\"v {}\">{}</span></td>",
                         kClasses[standing_of(row)], cell);
    case ColumnKind::kText:
    case ColumnKind::kNumber:
      break;
  }
  return fmt::format("<td{} data-h=\"{}\">{}</td>",
                     column.kind == ColumnKind::kText ? " class=\"w\"" : "",
                     html_escaped(column.heading), cell);
}

std::string html_table(const RowGroup& group, const TableWords& words) {
  const std::vector<Column> columns = columns_of(group, words);
  std::string out = fmt::format("<h2>{}</h2>\n<div class=\"scroll\"><table><thead><tr>",
                                html_escaped(group.title));
  size_t used = 0;
  for (const Column& column : columns) {
    if (!column.used) continue;
    ++used;
    const bool left = column.kind == ColumnKind::kText || column.kind == ColumnKind::kVerdict;
    out += (left ? "<th class=\"w\">" : "<th>") + html_escaped(column.heading) + "</th>";
  }
  out += "</tr></thead><tbody>\n";
  for (size_t r = 0; r < group.rows.size(); ++r) {
    std::string why;
    for (const std::string& remark : remarks_of(*group.rows[r]))
      why += (why.empty() ? "" : " · ") + remark;
    out += why.empty() ? "<tr>" : "<tr class=\"has-why\">";
    for (const Column& column : columns) {
      if (column.used) out += cell_of(column, r, *group.rows[r]);
    }
    out += "</tr>\n";
    if (!why.empty())
      out += fmt::format("<tr><td class=\"why\" colspan=\"{}\">{}</td></tr>\n", used,
                         html_escaped(why));
  }
  return out + "</tbody></table></div>\n";
}

std::string html_sections(const std::vector<Section>& sections) {
  std::string out;
  for (const Section& section : sections) {
    if (section.lines.empty()) continue;
    out += fmt::format("<h2>{}</h2>\n<ul>\n", html_escaped(section.title));
    for (const std::string& line : section.lines) out += "<li>" + html_escaped(line) + "</li>\n";
    out += "</ul>\n";
  }
  return out;
}

// XML 1.0 knows no other control characters than the end of a line.
std::string xml_escaped(const std::string& text) {
  std::string plain;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) >= 0x20 || c == '\n') plain += c;
  }
  return html_escaped(plain);
}

// "" for a row that passes, else the element that says why it does not.
std::string junit_element(const Row& row) {
  const std::string element = kElements[standing_of(row)];
  return element.empty() || row.gate ? element : "skipped";
}

std::string test_case(const Document& document, const Row& row) {
  std::string out = fmt::format("    <testcase classname=\"{}\" name=\"{}\" time=\"0\">\n",
                                xml_escaped(document.suite_class), xml_escaped(row.id));
  if (const std::string element = junit_element(row); !element.empty())
    out +=
        fmt::format("      <{} message=\"{}\"/>\n", element,
                    xml_escaped(verdict_word(row.judgement.verdict) +
                                (row.judgement.reason.empty() ? "" : ": ") + row.judgement.reason +
                                (row.gate ? "" : " (does not decide the exit code)")));
  const std::string unit = row.unit == "1" ? "" : " " + row.unit;
  std::string facts =
      fmt::format("{} {}{}\n{} {}\n", document.words.reference, row.published, unit,
                  document.words.own, row.measured.empty() ? "—" : row.measured + unit);
  if (!row.interval.empty()) facts += interval_kind(row) + " " + row.interval + "\n";
  if (!row.margin.empty()) facts += "margin " + row.margin + "\n";
  if (!row.note.empty()) facts += row.note + "\n";
  return out +
         fmt::format("      <system-out>{}</system-out>\n    </testcase>\n", xml_escaped(facts));
}

}  // namespace

std::string html_escaped(const std::string& text) {
  static const std::map<char, const char*> kEscapes = {
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}};
  std::string out;
  for (const char c : text) {
    const auto escape = kEscapes.find(c);
    escape == kEscapes.end() ? out += c : out += escape->second;
  }
  return out;
}

std::string html_text(const Document& document) {
  const std::string title = html_escaped(document.title);
  std::string body;
  for (const std::string& line : document.about)
    body += fmt::format("<p class=\"dim\">{}</p>\n", html_escaped(line));
  body += fmt::format("<p class=\"summary\">{}</p>\n", html_escaped(document.summary));
  body += html_sections(document.before);
  for (const RowGroup& group : grouped(document.rows)) body += html_table(group, document.words);
  body += document.figures + html_sections(document.after) + document.sources + kReportLegend;
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta "
      "name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>{}</title>\n"
      "<style>{}</style>\n</head>\n<body>\n<h1>{}</h1>\n{}</body>\n</html>\n",
      title, kReportStyle, title, body);
}

std::string junit_text(const Document& document) {
  std::map<std::string, int> counts;
  std::string cases;
  for (const Row& row : document.rows) {
    ++counts[junit_element(row)];
    cases += test_case(document, row);
  }
  const std::string totals =
      fmt::format(R"( tests="{}" failures="{}" errors="{}" skipped="{}")", document.rows.size(),
                  counts["failure"], counts["error"], counts["skipped"]);
  // The schema has no zone.
  std::string created = document.created.substr(0, document.created.find('Z'));
  if (!created.empty()) created = fmt::format(" timestamp=\"{}\"", xml_escaped(created));
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites{0}>\n  <testsuite "
      "name=\"{1}\"{0} time=\"0\"{2}>\n{3}  </testsuite>\n</testsuites>\n",
      totals, xml_escaped(document.suite), created, cases);
}

}  // namespace reciperun
