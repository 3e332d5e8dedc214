// Which curves, dots and pictures a report shows.
#include "tools/recipe_run/report/plots.h"

#include <fmt/core.h>
#include <openssl/evp.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "tools/recipe_run/judge/published.h"
#include "tools/recipe_run/recipe/facts.h"
#include "tools/recipe_run/report/chart.h"
#include "tools/recipe_run/report/detections.h"
#include "tools/recipe_run/report/document.h"
#include "tools/recipe_run/stats/distributions.h"
#include "tools/recipe_run/stats/quantiles.h"
#include "tools/recipe_run/util/text.h"

namespace reciperun {
namespace {

constexpr size_t kCurvePoints = 120;
constexpr size_t kStyles = 6;

std::string series_style(size_t index) { return fmt::format("s{}", index % kStyles); }

// "top1 (%)".
std::string metric_label(const v1::Expect& expect) {
  return expect.metric() + (expect.unit() == "1" ? "" : " (" + expect.unit() + ")");
}

// Means of equal blocks of a curve, so that curves of equal length stay comparable point by point.
std::vector<CurvePoint> block_means(const std::vector<CurvePoint>& curve) {
  const size_t blocks = std::min(kCurvePoints, curve.size());
  std::vector<CurvePoint> out;
  for (size_t b = 0; b < blocks; ++b) {
    const size_t from = b * curve.size() / blocks;
    const size_t to = (b + 1) * curve.size() / blocks;
    CurvePoint mean;
    for (size_t i = from; i < to; ++i) mean = {mean.x + curve[i].x, mean.y + curve[i].y};
    const double n = static_cast<double>(to - from);
    out.push_back({mean.x / n, mean.y / n});
  }
  return out;
}

// Curves of trials over epochs, each with its trial's title.
struct Curves {
  std::vector<std::vector<CurvePoint>> points;
  std::vector<std::string> names;

  void add(std::vector<CurvePoint> curve, const std::string& name) {
    points.push_back(std::move(curve));
    names.push_back(name);
  }
  std::vector<double> ys() const {
    std::vector<double> out;
    for (const auto& curve : points) {
      for (const CurvePoint& p : curve) out.push_back(p.y);
    }
    return out;
  }
  Axis epochs() const {
    double end = 0;
    for (const auto& curve : points) {
      for (const CurvePoint& p : curve) end = std::max(end, p.x);
    }
    return {"epoch", 0, end > 0 ? end * 1.02 : 1, false};
  }
  void draw(Chart& chart) const {
    for (size_t i = 0; i < points.size(); ++i)
      chart.line(points[i], series_style(i)).legend(series_style(i), names[i]);
  }
};

// The row that holds the headline metric against a published value, or else without one; nullptr if
// there is none.
const v1::Expect* headline(const v1::Recipe& recipe) {
  if (recipe.evaluation().metric().empty()) return nullptr;
  const v1::Expect* found = nullptr;
  for (const v1::Expect& expect : recipe.expect()) {
    if (expect.metric() != recipe.evaluation().metric(0)) continue;
    if (found == nullptr || (!has_published_value(*found) && has_published_value(expect)))
      found = &expect;
  }
  return found;
}

// Training loss of every trial, smoothed, with the range over the trials as a band.
std::string loss_plot(const Measurements& measurements) {
  Curves curves;
  for (const Trial& trial : measurements.trials) {
    if (!trial.loss_curve.empty()) curves.add(block_means(trial.loss_curve), trial.title);
  }
  if (curves.points.empty()) return "";
  Chart chart("Training loss", curves.epochs(), axis_around("loss (nats)", curves.ys(), true));
  const auto& all = curves.points;
  const bool same_length =
      std::all_of(all.begin(), all.end(), [&](const auto& c) { return c.size() == all[0].size(); });
  if (same_length && all.size() > 1) {
    std::vector<CurvePoint> lower = all[0], upper = all[0];
    for (const auto& curve : all) {
      for (size_t i = 0; i < curve.size(); ++i) {
        lower[i].y = std::min(lower[i].y, curve[i].y);
        upper[i].y = std::max(upper[i].y, curve[i].y);
      }
    }
    chart.band(lower, upper, "soft").legend("area soft", "range over seeds");
  }
  curves.draw(chart);
  return chart.svg();
}

// Headline metric at each evaluation, with the published value.
std::string metric_plot(const Report& report) {
  const v1::Expect* expect = headline(report.recipe);
  if (expect == nullptr) return "";
  Curves curves;
  for (const Trial& trial : report.measurements.trials) {
    if (trial.metric_curve.size() < 2) continue;
    std::vector<CurvePoint> curve = trial.metric_curve;
    for (CurvePoint& p : curve) p.y *= unit_factor(expect->unit());
    curves.add(std::move(curve), trial.title);
  }
  if (curves.points.empty()) return "";
  std::vector<double> values = curves.ys();
  const std::optional<double> published = published_value(*expect);
  if (published) values.push_back(*published);
  Chart chart("Test " + expect->metric() + " while training", curves.epochs(),
              axis_around(metric_label(*expect), values));
  if (published) chart.horizontal_line(*published, "ref", "published " + published_text(*expect));
  curves.draw(chart);
  return chart.svg();
}

// One dot per trial against the published value and its margin, and their mean with its interval.
std::string trials_plot(const Report& report) {
  const v1::Expect* expect = headline(report.recipe);
  if (expect == nullptr) return "";
  const auto row = std::find_if(report.rows.begin(), report.rows.end(),
                                [&](const Row& r) { return r.id == expect->id(); });
  if (row == report.rows.end() || row->values.empty()) return "";
  const std::optional<double> published = published_value(*expect);
  const double margin = row->tolerance.margin;
  const Summary summary = summarise(row->values);
  std::vector<double> extent = row->values;
  if (published) extent.insert(extent.end(), {*published - margin, *published + margin});
  const auto [least, most] = std::minmax_element(extent.begin(), extent.end());
  extent.push_back(*most + 0.15 * (*most - *least));  // room for the number beside the last dot
  std::vector<std::string> names;
  const bool folds = trials_per_seed(report.recipe) > 1;
  for (const Trial& trial : report.measurements.trials) {
    if (trial.failure.empty() && !folds) names.push_back(trial.title);
  }
  // A value is the mean over the folds of a seed.
  while (folds && names.size() < row->values.size())
    names.push_back("mean of folds " + std::to_string(names.size() + 1));
  names.resize(row->values.size());
  names.push_back("mean");
  const std::string unit_word =
      folds || report.recipe.trials().unit().empty() ? "seed" : report.recipe.trials().unit();
  const double rows = static_cast<double>(names.size());
  Chart chart("Test " + expect->metric() + ", each " + unit_word +
                  (published ? " against the published value" : ""),
              axis_around(metric_label(*expect), extent), {"", -(rows - 0.5), 0.5, false});
  std::vector<std::string> row_names;
  for (const std::string& name : names) row_names.push_back(name.substr(0, name.find(" of ")));
  chart.row_names(row_names);
  if (published) {
    chart.vertical_band(*published - margin, *published + margin, "refband");
    chart.vertical_line(*published, "ref").legend("ref", "published " + published_text(*expect));
    chart.legend("area refband", "margin ±" + shortest(margin));
  }
  const int decimals = std::max(published_decimals(*expect), expect->unit() == "1" ? 4 : 2);
  for (size_t i = 0; i < row->values.size(); ++i) {
    chart.dot(row->values[i], -static_cast<double>(i), series_style(i),
              names[i] + ": " + fixed(row->values[i], decimals));
    chart.text(row->values[i], -static_cast<double>(i), fixed(row->values[i], decimals));
  }
  const double y = -(rows - 1);
  if (summary.n >= 2) {
    const double half = student_quantile(0.95, summary.n - 1) * summary.sd /
                        std::sqrt(static_cast<double>(summary.n));
    chart.segment({summary.mean - half, y}, {summary.mean + half, y}, "mean")
        .legend("mean", "mean with its 90 % interval");
  }
  chart.dot(summary.mean, y, "meandot", "mean: " + fixed(summary.mean, decimals));
  return chart.svg();
}

// Distribution of the step times of one bench configuration, one curve per repeat, with the
// estimators marked.
std::string latency_plot(const BenchResult& bench, const v1::Bench& definition) {
  std::vector<double> all;
  for (const BenchRepeat& repeat : bench.repeats) {
    for (const double s : repeat.step_seconds) all.push_back(1000 * s);
  }
  if (all.size() < 2) return "";
  std::sort(all.begin(), all.end());
  // The last half per cent would squeeze everything else; what lies beyond is said in words.
  const double cut = all[static_cast<size_t>(0.995 * static_cast<double>(all.size() - 1))];
  const double end = std::max(cut, all.front() * 1.02) * 1.03;
  const bool train = definition.mode() == v1::Bench::TRAIN;
  Chart chart(std::string(train ? "Training step time" : "Inference latency") + ", batch " +
                  std::to_string(bench.batch),
              {"milliseconds", all.front() * 0.98, end, false}, {"steps done (%)", 0, 100, false});
  for (const BenchRepeat& repeat : bench.repeats) {
    std::vector<double> ms;
    for (const double s : repeat.step_seconds) ms.push_back(1000 * s);
    std::sort(ms.begin(), ms.end());
    std::vector<CurvePoint> curve;
    const size_t stride = std::max<size_t>(1, ms.size() / 200);
    for (size_t i = 0; i < ms.size(); i += stride) {
      if (ms[i] <= end)
        curve.push_back({ms[i], 100 * static_cast<double>(i + 1) / static_cast<double>(ms.size())});
    }
    chart.line(curve, "thin");
  }
  chart.legend("thin", std::to_string(bench.repeats.size()) + " repeats");
  double mean = 0;
  for (const double x : all) mean += x / static_cast<double>(all.size());
  if (mean <= end)
    chart.vertical_line(mean, "s3").legend("s3", "mean " + significant(mean, 3) + " ms");
  static constexpr double kLevels[] = {0.5, 0.9, 0.99};
  for (size_t i = 0; i < 3; ++i) {
    const Quantile q{kLevels[i]};
    const double value = *estimate_quantile(all, q);
    chart.dot(value, 100 * kLevels[i], series_style(i),
              quantile_title(q) + " " + significant(value, 4) + " ms");
    chart.text(value, 100 * kLevels[i] - (i == 0 ? 0 : 4),
               quantile_title(q) + " " + significant(value, 3),
               value > 0.6 * end + 0.4 * all.front() ? "end" : "start");
  }
  if (bench.repeats.size() > 1)
    chart.legend("none",
                 "percentiles of all repeats together; the table has the median of repeats");
  if (all.back() > end) chart.legend("none", "slowest " + significant(all.back(), 3) + " ms");
  return chart.svg();
}

std::string base64(const std::string& bytes) {
  std::vector<unsigned char> out(4 * (bytes.size() / 3 + 1) + 1);
  const int length =
      EVP_EncodeBlock(out.data(), reinterpret_cast<const unsigned char*>(bytes.data()),
                      static_cast<int>(bytes.size()));
  return {out.begin(), out.begin() + length};
}

// What the pictures of an evaluation show.
struct Showing {
  const char* text;
  const char* one;    // of them, for those who cannot see it
  const char* style;  // its width
};
// Four images side by side: on a narrow screen they keep their size and scroll.
constexpr Showing kSegmented{
    "Held-out images after the last step, from left to right: image, label, prediction, errors "
    "(orange: black where the label is white, blue: white where it is black).",
    "image, label, prediction and errors", "width:100%;min-width:44rem"};
constexpr Showing kDetected{
    "The held-out images in which most objects were missed after the last step, the worst first. "
    "Coloured: boxes of probability 0.3 and more. White: objects, thick and named where no box of "
    "their category overlaps them by half.",
    "found and missed objects", "max-width:100%"};

std::string pictures_section(const std::vector<TrialPicture>& pictures, const Showing& showing) {
  if (pictures.empty()) return "";
  std::string out = fmt::format("<h2>Pictures</h2>\n<p class=\"dim\">{}</p>\n", showing.text);
  for (const TrialPicture& picture : pictures) {
    out += fmt::format(
        "<figure style=\"margin-bottom:.8rem\"><figcaption>{}: {}</figcaption><div "
        "style=\"overflow-x:auto\"><img alt=\"{} of {}\" style=\"{};height:auto\" "
        "src=\"data:image/png;base64,{}\"></div>",
        html_escaped(picture.trial), html_escaped(picture.name), showing.one,
        html_escaped(picture.name), showing.style, base64(picture.png));
    if (picture.others > 0)
      out += fmt::format("<small>{} more in <code>trials/{}/pictures</code></small>",
                         picture.others, html_escaped(picture.folder));
    out += "</figure>\n";
  }
  return out;
}

}  // namespace

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
  if (!out.empty()) out = "<h2>Plots</h2>\n<div class=\"plots\">\n" + out + "</div>\n";
  return out + detections_section(report.detections) +
         pictures_section(report.pictures, report.detections.empty() ? kSegmented : kDetected);
}

}  // namespace reciperun
