// A comparison in every format.
#include <map>

#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/compare/comparison.h"
#include "tools/recipe_run/report/chart.h"
#include "tools/recipe_run/report/json_row.h"
#include "tools/recipe_run/report/junit.h"
#include "tools/recipe_run/report/tables.h"

namespace reciperun {
namespace {

const TableWords kWords = {"first", "second"};

std::string title_of(const Comparison& c) {
  return c.first.recipe == c.second.recipe
             ? c.first.recipe + ": two runs compared"
             : "Two runs compared: " + c.first.recipe + ", " + c.second.recipe;
}

std::string side_text(const Side& side) {
  return side.run + " · " + side.recipe + " " + side.recipe_version + " · " + side.device + " · " +
         side.engine;
}

std::string value_text(const std::string& value) { return value.empty() ? "unset" : value; }

std::string difference_text(const FieldDifference& d) {
  return d.path + ": " + value_text(d.first) + " → " + value_text(d.second);
}

std::string summary_of(const Comparison& c) {
  std::map<Verdict, int> counts;
  for (const Row& row : c.rows) ++counts[row.judgement.verdict];
  std::vector<std::string> parts;
  for (const auto& [verdict, count] : counts)
    parts.push_back(std::to_string(count) + " × " + verdict_word(verdict));
  return parts.empty() ? "the recipes have no row in common" : join(parts, " · ");
}

std::string sameness(const Comparison& c) {
  return c.differences.empty() ? "Same recipe, machine and engine." : "These differ:";
}

}  // namespace

std::string console_comparison(const Comparison& c, int columns) {
  std::string out = title_of(c) + "\n  first   " + side_text(c.first) + "\n  second  " +
                    side_text(c.second) + "\n" + sameness(c) + "\n";
  for (const FieldDifference& d : c.differences) out += "  " + difference_text(d) + "\n";
  out += console_tables(c.rows, kWords, columns);
  if (!c.unmatched.empty()) out += "\n";
  for (const std::string& line : c.unmatched) out += line + "\n";
  return out + "\n" + summary_of(c) + "\n";
}

std::string markdown_comparison(const Comparison& c) {
  std::string out = "# " + markdown_escaped(title_of(c)) + "\n\n" + summary_of(c) +
                    "\n\n- first: " + markdown_escaped(side_text(c.first)) +
                    "\n- second: " + markdown_escaped(side_text(c.second)) + "\n\n" + sameness(c) +
                    "\n";
  if (!c.differences.empty()) out += "\n";
  for (const FieldDifference& d : c.differences)
    out += "- " + markdown_escaped(difference_text(d)) + "\n";
  out += markdown_tables(c.rows, kWords);
  if (!c.unmatched.empty()) out += "\n";
  for (const std::string& line : c.unmatched) out += "- " + markdown_escaped(line) + "\n";
  return out;
}

std::string html_comparison(const Comparison& c) {
  std::string body;
  for (const auto& [name, side] : {std::pair("first", &c.first), std::pair("second", &c.second)})
    body += "<p class=\"dim\"><b>" + std::string(name) + "</b> " + html_escaped(side_text(*side)) +
            "</p>\n";
  body +=
      "<p class=\"summary\">" + html_escaped(summary_of(c)) + "</p>\n<p>" + sameness(c) + "</p>\n";
  if (!c.differences.empty()) body += "<ul>\n";
  for (const FieldDifference& d : c.differences) {
    body += "<li><code>" + html_escaped(d.path) + "</code>: " + html_escaped(value_text(d.first)) +
            " → " + html_escaped(value_text(d.second)) + "</li>\n";
  }
  if (!c.differences.empty()) body += "</ul>\n";
  body += html_tables(c.rows, kWords);
  for (const std::string& line : c.unmatched)
    body += "<p class=\"dim\">" + html_escaped(line) + "</p>\n";
  return html_page(title_of(c), body + verdict_legend());
}

std::string json_comparison(const Comparison& c) {
  JsonWriter json(1);
  json.begin_object().field("schema", 1);
  for (const auto& [name, side] : {std::pair("first", &c.first), std::pair("second", &c.second)}) {
    json.key(name).begin_object().field("run", side->run).field("recipe", side->recipe);
    json.field("recipe_version", side->recipe_version).field("exec_digest", side->exec_digest);
    json.field("device", side->device).field("engine", side->engine).end_object();
  }
  json.key("differences").begin_array();
  for (const FieldDifference& d : c.differences) {
    json.begin_object().field("path", d.path).field("first", d.first);
    json.field("second", d.second).end_object();
  }
  json.end_array().field("exit", static_cast<int>(c.exit)).field("summary", summary_of(c));
  json.key("rows").begin_array();
  for (const Row& row : c.rows) write_row(json, row, kWords);
  json.end_array().field("unmatched", c.unmatched).end_object();
  return json.text() + "\n";
}

std::string junit_comparison(const Comparison& c) {
  return junit_rows({c.first.run + " against " + c.second.run, c.first.recipe, ""}, c.rows, kWords);
}

}  // namespace reciperun
