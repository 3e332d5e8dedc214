// The report as one HTML file: tables, plots, pictures, deviations, sources.
#include <algorithm>
#include <tuple>

#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/report/chart.h"
#include "tools/recipe_run/report/pictures.h"
#include "tools/recipe_run/report/plots.h"
#include "tools/recipe_run/report/report.h"
#include "tools/recipe_run/report/shards.h"

namespace reciperun {
namespace {

std::string plots_of(const Report& report) {
  std::string out = trials_plot(report) + loss_plot(report.measurements) + metric_plot(report);
  std::vector<BenchResult> benches = report.measurements.benches;
  std::stable_sort(benches.begin(), benches.end(), [](const auto& a, const auto& b) {
    return std::tie(a.devices, a.batch) < std::tie(b.devices, b.batch);
  });
  for (const v1::Bench& definition : report.recipe.bench()) {
    for (const BenchResult& bench : benches) {
      if (definition.id() == bench.bench) out += latency_plot(bench, definition);
    }
  }
  return out.empty() ? "" : "<h2>Plots</h2>\n<div class=\"plots\">\n" + out + "</div>\n";
}

// Each part's figure in a cell of its own; on narrow screens the cells flow.
std::string shards_of(const Report& report) {
  const std::vector<ShardLine> lines = shard_lines(report.recipe, report.measurements.trials);
  if (lines.empty()) return "";
  size_t parts = 0;
  for (const ShardLine& line : lines) parts = std::max(parts, line.parts.size());
  std::string out = std::string("<h2>") + kShardsTitle +
                    "</h2>\n<div class=\"scroll\"><table><thead><tr><th>trial</th><th "
                    "class=\"w\">metric, %</th><th>merged</th>";
  for (size_t k = 1; k <= parts; ++k) out += "<th>part " + std::to_string(k) + "</th>";
  out += "</tr></thead><tbody>\n";
  for (const ShardLine& line : lines) {
    out += "<tr><td class=\"row\">" + html_escaped(line.trial) + "</td><td class=\"w\">" +
           html_escaped(line.metric) + "</td><td data-h=\"merged\">" + fixed(line.merged, 2) +
           "</td>";
    for (size_t k = 0; k < line.parts.size(); ++k)
      out +=
          "<td data-h=\"part " + std::to_string(k + 1) + "\">" + fixed(line.parts[k], 2) + "</td>";
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

// "GPUs 8, Batch size / GPU 1".
std::string row_of_table(const v1::Locator& at) {
  std::vector<std::string> cells;
  for (const v1::Cell& cell : at.where()) cells.push_back(cell.column() + " " + cell.equals());
  return join(cells, ", ");
}

// The cell of every published number, folded away.
std::string cells_of(const v1::Recipe& recipe) {
  std::string rows;
  for (const v1::Expect& expect : recipe.expect()) {
    if (!expect.has_at()) continue;
    const v1::Locator& at = expect.at();
    rows += "<tr><td class=\"row\">" + html_escaped(expect.id()) +
            "</td><td class=\"w\" data-h=\"printed\">" + html_escaped(at.printed()) +
            "</td><td class=\"w\" data-h=\"table\">" +
            html_escaped(at.source() + ": " + at.table()) + "</td><td class=\"w\" data-h=\"row\">" +
            html_escaped(row_of_table(at)) + "</td><td class=\"w\" data-h=\"column\">" +
            html_escaped(at.column()) + "</td></tr>\n";
  }
  if (rows.empty()) return "";
  return "<details><summary>The cell of each published number</summary>\n<div "
         "class=\"scroll\"><table><thead><tr><th>row</th><th class=\"w\">printed</th><th "
         "class=\"w\">table</th><th class=\"w\">its row</th><th class=\"w\">its "
         "column</th></tr></thead><tbody>\n" +
         rows + "</tbody></table></div></details>\n";
}

std::string sources_of(const v1::Recipe& recipe) {
  std::string out;
  for (const v1::Source& source : recipe.source()) {
    out += "<li>" + html_escaped(source.title().empty() ? source.id() : source.title());
    if (!source.upstream().empty()) out += ", <code>" + html_escaped(source.upstream()) + "</code>";
    if (!source.revision().empty())
      out += " at <code>" + html_escaped(source.revision().substr(0, 12)) + "</code>";
    out += "</li>\n";
  }
  return out.empty() ? "" : "<h2>Sources</h2>\n<ul>\n" + out + "</ul>\n" + cells_of(recipe);
}

}  // namespace

std::string html_report(const Report& report) {
  const std::string title =
      report.recipe.title().empty() ? report.recipe.id() : report.recipe.title();
  std::string out;
  out += "<p class=\"dim\">recipe <code>" + html_escaped(report.run.recipe()) + "</code> " +
         html_escaped(report.run.recipe_version()) + " · run <code>" +
         html_escaped(report.run.id()) + "</code></p>\n";
  out += "<p class=\"dim\">" + html_escaped(report.run.device()) + " · " +
         html_escaped(report.run.engine()) + "</p>\n";
  out += "<p class=\"summary\">" + html_escaped(summary_line(report)) + "</p>\n";
  out += html_tables(report.rows) + shards_of(report) + plots_of(report);
  out += pictures_section(report.pictures);
  const std::vector<std::string> changes = change_lines(report.run);
  if (!changes.empty()) out += "<h2>Changed for this run</h2>\n<ul>\n";
  for (const std::string& change : changes)
    out += "<li><code>" + html_escaped(change) + "</code></li>\n";
  if (!changes.empty()) out += "</ul>\n";
  const auto deviations = report.recipe.deviation();
  if (!deviations.empty()) out += "<h2>Known deviations from the source</h2>\n<ul>\n";
  for (const v1::Deviation& d : deviations) {
    out += "<li><code>" + html_escaped(d.path()) +
           "</code>: in the source: " + html_escaped(d.source_has()) +
           "; here: " + html_escaped(d.we_have()) +
           ". <span class=\"dim\">Effect: " + html_escaped(d.effect()) + "</span></li>\n";
  }
  if (!deviations.empty()) out += "</ul>\n";
  out += sources_of(report.recipe) + verdict_legend();
  out += "<p class=\"dim\">executed <code>" + report.run.exec_digest().substr(0, 16) +
         "</code> · expected <code>" + report.run.expect_digest().substr(0, 16) +
         "</code> · every number of the tests stands in report.json</p>\n";
  return html_page(title, out);
}

}  // namespace reciperun
