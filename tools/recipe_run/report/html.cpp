// The report as one HTML file: tables, plots, pictures, deviations, sources.
#include <algorithm>
#include <tuple>

#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/report/chart.h"
#include "tools/recipe_run/report/pictures.h"
#include "tools/recipe_run/report/plots.h"
#include "tools/recipe_run/report/report.h"

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

std::string sources_of(const v1::Recipe& recipe) {
  std::string out;
  for (const v1::Source& source : recipe.source()) {
    out += "<li>" + html_escaped(source.title().empty() ? source.id() : source.title());
    if (!source.upstream().empty()) out += ", <code>" + html_escaped(source.upstream()) + "</code>";
    if (!source.revision().empty())
      out += " at <code>" + html_escaped(source.revision().substr(0, 12)) + "</code>";
    out += "</li>\n";
  }
  return out.empty() ? "" : "<h2>Sources</h2>\n<ul>\n" + out + "</ul>\n";
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
  out += html_tables(report.rows) + plots_of(report);
  out += pictures_section(report.pictures);
  const auto deviations = report.recipe.deviation();
  if (!deviations.empty()) out += "<h2>Known deviations from the source</h2>\n<ul>\n";
  for (const v1::Deviation& d : deviations) {
    out += "<li><code>" + html_escaped(d.path()) + "</code>: the source has " +
           html_escaped(d.source_has()) + "; here " + html_escaped(d.we_have()) +
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
