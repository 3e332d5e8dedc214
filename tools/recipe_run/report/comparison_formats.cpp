// A comparison in every format.
#include <map>

#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/report/chart.h"
#include "tools/recipe_run/report/comparison.h"
#include "tools/recipe_run/report/json.h"
#include "tools/recipe_run/report/junit.h"
#include "tools/recipe_run/report/tables.h"
#include "tools/recipe_run/run_record/json_file.h"

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

json::Side json_side(const Side& side) {
  json::Side out;
  out.set_run(side.run);
  out.set_recipe(side.recipe);
  out.set_recipe_version(side.recipe_version);
  out.set_exec_digest(side.exec_digest);
  out.set_device(side.device);
  out.set_engine(side.engine);
  return out;
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
  json::Comparison out;
  out.set_schema(2);
  *out.mutable_first() = json_side(c.first);
  *out.mutable_second() = json_side(c.second);
  for (const FieldDifference& d : c.differences) {
    json::Difference& added = *out.add_difference();
    added.set_path(d.path);
    added.set_first(d.first);
    added.set_second(d.second);
  }
  out.set_exit(static_cast<int>(c.exit));
  out.set_summary(summary_of(c));
  for (const Row& row : c.rows) *out.add_row() = json_row(row);
  out.mutable_unmatched()->Add(c.unmatched.begin(), c.unmatched.end());
  return json_text(out);
}

std::string junit_comparison(const Comparison& c) {
  return junit_rows({c.first.run + " against " + c.second.run, c.first.recipe, ""}, c.rows, kWords);
}

}  // namespace reciperun
