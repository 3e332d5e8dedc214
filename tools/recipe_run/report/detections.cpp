// Precision by recall as an SVG plot, categories as a table, for each trial.
#include "tools/recipe_run/report/detections.h"

#include <fmt/core.h>

#include <algorithm>

#include "tools/recipe_run/report/chart.h"
#include "tools/recipe_run/report/document.h"
#include "tools/recipe_run/util/text.h"

namespace reciperun {
namespace {

using record::DetectionScores;

constexpr const char* kColumns[] = {"AP", "AP50", "AP75", "AR100"};

// Of every other overlap: 0.5, 0.6, ... 0.9.
std::string precision_plot(const TrialDetections& trial) {
  Chart chart("Precision by recall, " + trial.trial, {"recall (%)", 0, 100, false},
              {"precision (%)", 0, 100, false});
  for (int i = 0; i < trial.scores.curve_size(); i += 2) {
    const DetectionScores::Curve& curve = trial.scores.curve(i);
    std::vector<CurvePoint> points;
    for (int k = 0; k < curve.precision_size(); ++k)
      points.push_back({100.0 * k / (curve.precision_size() - 1), 100 * curve.precision(k)});
    const std::string style = fmt::format("s{}", i / 2);
    chart.line(points, style).legend(style, "overlap " + fixed(curve.overlap(), 1));
  }
  return chart.svg();
}

// Categories with objects, the hardest first.
std::string category_table(const TrialDetections& trial) {
  std::vector<const DetectionScores::Category*> sorted;
  for (const DetectionScores::Category& category : trial.scores.category())
    if (category.metric().contains(kColumns[0])) sorted.push_back(&category);
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) {
    return a->metric().at(kColumns[0]) < b->metric().at(kColumns[0]);
  });
  std::string out = fmt::format(
      "<details><summary>{} categories of {}, the hardest first</summary>\n<div "
      "class=\"scroll\"><table><thead><tr><th>category</th><th>objects</th><th>detections</th>",
      sorted.size(), html_escaped(trial.trial));
  for (const char* column : kColumns) out += fmt::format("<th>{} (%)</th>", column);
  out += "</tr></thead><tbody>\n";
  for (const DetectionScores::Category* category : sorted) {
    out += fmt::format(
        "<tr><td class=\"row\">{}</td><td data-h=\"objects\">{}</td><td "
        "data-h=\"detections\">{}</td>",
        html_escaped(category->name()), category->objects(), category->detections());
    for (const char* column : kColumns)
      out += fmt::format("<td data-h=\"{}\">{}</td>", column,
                         fixed(100 * category->metric().at(column), 1));
    out += "</tr>\n";
  }
  return out + "</tbody></table></div></details>\n";
}

}  // namespace

std::string detections_section(const std::vector<TrialDetections>& trials) {
  std::string plots, tables;
  for (const TrialDetections& trial : trials) {
    plots += precision_plot(trial);
    tables += category_table(trial);
  }
  if (plots.empty()) return "";
  return "<h2>Detections</h2>\n<p class=\"dim\">Of the last evaluation, the mean over categories. "
         "A "
         "box finds an object that it overlaps by so much (intersection over union).</p>\n<div "
         "class=\"plots\">\n" +
         plots + "</div>\n" + tables;
}

}  // namespace reciperun
