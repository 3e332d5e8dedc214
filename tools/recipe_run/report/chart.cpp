// Axes, ticks and marks as SVG elements.
#include "tools/recipe_run/report/chart.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "tools/recipe_run/report/document.h"
#include "tools/recipe_run/util/text.h"

namespace reciperun {
namespace {

// Drawing units: small enough that text stays readable on a phone, where the chart shrinks to about
// 350 pixels.
constexpr double kWidth = 480;
constexpr double kHeight = 270;
constexpr double kLeft = 58;
constexpr double kRight = 14;
constexpr double kTop = 12;
constexpr double kBottom = 42;

std::vector<double> linear_ticks(double low, double high) {
  const double raw = (high - low) / 5;
  const double magnitude = std::pow(10, std::floor(std::log10(raw)));
  const double steps[] = {1, 2, 2.5, 5, 10};
  double step = magnitude;
  for (double s : steps) {
    step = s * magnitude;
    if (step >= raw) break;
  }
  std::vector<double> ticks;
  for (double k = std::ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; ++k)
    ticks.push_back(k * step);
  return ticks;
}

std::vector<double> log_ticks(double low, double high) {
  std::vector<double> ticks;
  const bool sparse = std::log10(high / low) > 2.5;
  for (double decade = std::pow(10, std::floor(std::log10(low))); decade <= high; decade *= 10) {
    for (const double m : {1.0, 2.0, 5.0}) {
      if (sparse && m != 1) continue;
      if (m * decade >= low * 0.999 && m * decade <= high * 1.001) ticks.push_back(m * decade);
    }
  }
  return ticks;
}

std::string tick_text(double v, double step) {
  if (v == 0) return "0";
  const double smallest = step > 0 ? step : std::abs(v);
  int decimals = std::max(0, static_cast<int>(-std::floor(std::log10(smallest) + 1e-9)));
  // A step of 0.25 needs two digits although its magnitude says one.
  if (std::abs(smallest * std::pow(10, decimals) - std::round(smallest * std::pow(10, decimals))) >
      1e-6)
    ++decimals;
  return fixed(v, std::min(decimals, 7));
}

std::string tag_text(double x, double y, const std::string& anchor, const std::string& words,
                     const std::string& style = "") {
  return fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="{}"{}>{}</text>)", x, y, anchor,
                     style.empty() ? "" : " class=\"" + style + "\"", html_escaped(words));
}

std::string tag_line(double x1, double y1, double x2, double y2, const std::string& style) {
  return fmt::format(R"(<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" class="{}"/>)", x1,
                     y1, x2, y2, style);
}

}  // namespace

Axis axis_around(std::string label, std::span<const double> values, bool logarithmic) {
  Axis axis{std::move(label), 0, 1, logarithmic};
  std::vector<double> usable;
  for (const double v : values) {
    if (std::isfinite(v) && (!logarithmic || v > 0)) usable.push_back(v);
  }
  if (usable.empty()) {
    if (logarithmic) axis.low = 0.1;
    return axis;
  }
  const auto [low, high] = std::minmax_element(usable.begin(), usable.end());
  if (logarithmic) {
    axis.low = *low / 1.1;
    axis.high = *high * 1.1;
    return axis;
  }
  const double room = *high > *low ? 0.06 * (*high - *low) : std::max(0.05 * std::abs(*high), 1e-6);
  axis.low = *low - room;
  axis.high = *high + room;
  return axis;
}

Chart::Chart(std::string title, Axis x, Axis y)
    : title_(std::move(title)), x_(std::move(x)), y_(std::move(y)) {}

double Chart::px(double x) const {
  const double t = x_.logarithmic ? std::log(x / x_.low) / std::log(x_.high / x_.low)
                                  : (x - x_.low) / (x_.high - x_.low);
  return kLeft + std::clamp(t, -0.05, 1.05) * (kWidth - kLeft - kRight);
}

double Chart::py(double y) const {
  const double t = y_.logarithmic ? std::log(y / y_.low) / std::log(y_.high / y_.low)
                                  : (y - y_.low) / (y_.high - y_.low);
  return kHeight - kBottom - std::clamp(t, -0.05, 1.05) * (kHeight - kBottom - kTop);
}

Chart& Chart::line(std::span<const CurvePoint> points, const std::string& style) {
  std::string path;
  for (const CurvePoint& p : points) {
    if (!std::isfinite(p.y) || (y_.logarithmic && p.y <= 0)) continue;
    path += fmt::format("{}{:.1f},{:.1f}", path.empty() ? "" : " ", px(p.x), py(p.y));
  }
  body_ += fmt::format(R"(<polyline points="{}" class="line {}"/>)", path, style);
  return *this;
}

Chart& Chart::band(std::span<const CurvePoint> lower, std::span<const CurvePoint> upper,
                   const std::string& style) {
  std::string path;
  const auto add = [&](const CurvePoint& p) {
    path += fmt::format("{:.1f},{:.1f} ", px(p.x), py(p.y));
  };
  std::for_each(upper.begin(), upper.end(), add);
  std::for_each(lower.rbegin(), lower.rend(), add);
  body_ += fmt::format(R"(<polygon points="{}" class="area {}"/>)", path, style);
  return *this;
}

Chart& Chart::vertical_band(double from, double to, const std::string& style) {
  const double left = std::clamp(px(from), kLeft, kWidth - kRight);
  const double right = std::clamp(px(to), kLeft, kWidth - kRight);
  body_ +=
      fmt::format(R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" class="area {}"/>)",
                  left, kTop, right - left, kHeight - kBottom - kTop, style);
  return *this;
}

Chart& Chart::vertical_line(double x, const std::string& style, const std::string& label) {
  body_ += tag_line(px(x), kTop, px(x), kHeight - kBottom, "line " + style);
  if (!label.empty()) body_ += tag_text(px(x), kTop - 2, "middle", label, "small");
  return *this;
}

Chart& Chart::horizontal_line(double y, const std::string& style, const std::string& label) {
  body_ += tag_line(kLeft, py(y), kWidth - kRight, py(y), "line " + style);
  if (!label.empty()) body_ += tag_text(kWidth - kRight - 3, py(y) - 4, "end", label, "small");
  return *this;
}

Chart& Chart::dot(double x, double y, const std::string& style, const std::string& tooltip) {
  body_ += fmt::format(
      R"(<circle cx="{:.1f}" cy="{:.1f}" r="4.5" class="dot {}"><title>{}</title></circle>)", px(x),
      py(y), style, html_escaped(tooltip));
  return *this;
}

Chart& Chart::segment(CurvePoint from, CurvePoint to, const std::string& style) {
  body_ += tag_line(px(from.x), py(from.y), px(to.x), py(to.y), "line " + style);
  return *this;
}

Chart& Chart::text(double x, double y, const std::string& words, const std::string& anchor) {
  const double gap = anchor == "start" ? 8 : anchor == "end" ? -8 : 0;
  body_ += tag_text(px(x) + gap, py(y) + 4, anchor, words, "small");
  return *this;
}

Chart& Chart::row_names(std::vector<std::string> names) {
  names_ = std::move(names);
  return *this;
}

Chart& Chart::legend(const std::string& style, const std::string& words) {
  legend_.emplace_back(style, words);
  return *this;
}

std::string Chart::frame() const {
  std::string out;
  const auto ticks_of = [](const Axis& a) {
    return a.logarithmic ? log_ticks(a.low, a.high) : linear_ticks(a.low, a.high);
  };
  const std::vector<double> xs = ticks_of(x_);
  const double x_step = !x_.logarithmic && xs.size() > 1 ? xs[1] - xs[0] : 0;
  for (const double x : xs) {
    out += tag_line(px(x), kTop, px(x), kHeight - kBottom, "grid");
    out += tag_text(px(x), kHeight - kBottom + 16, "middle", tick_text(x, x_step));
  }
  const std::vector<double> ys = names_.empty() ? ticks_of(y_) : std::vector<double>{};
  const double y_step = !y_.logarithmic && ys.size() > 1 ? ys[1] - ys[0] : 0;
  for (const double y : ys) {
    out += tag_line(kLeft, py(y), kWidth - kRight, py(y), "grid");
    out += tag_text(kLeft - 6, py(y) + 4, "end", tick_text(y, y_step));
  }
  for (size_t i = 0; i < names_.size(); ++i) {
    out += tag_text(kLeft - 6, py(-static_cast<double>(i)) + 4, "end", names_[i]);
  }
  out += tag_line(kLeft, kHeight - kBottom, kWidth - kRight, kHeight - kBottom, "axis");
  out += tag_text((kLeft + kWidth - kRight) / 2, kHeight - 8, "middle", x_.label, "label");
  if (!y_.label.empty()) {
    out += fmt::format(
        "<text transform=\"translate(12,{:.1f}) rotate(-90)\" text-anchor=\"middle\" "
        "class=\"label\">{}</text>",
        (kTop + kHeight - kBottom) / 2, html_escaped(y_.label));
  }
  return out;
}

std::string Chart::svg() const {
  const std::string title = html_escaped(title_);
  std::string legend;
  for (const auto& [style, words] : legend_) {
    const std::string key =
        style.starts_with("area")
            ? fmt::format(R"(<rect x="0" y="1" width="28" height="10" class="{}"/>)", style)
            : fmt::format(R"(<line x1="0" y1="6" x2="28" y2="6" class="line {}"/>)", style);
    legend += fmt::format(
        R"(<span><svg viewBox="0 0 28 12" class="key" aria-hidden="true">{}</svg> {}</span> )", key,
        html_escaped(words));
  }
  if (!legend.empty()) legend = "<p class=\"legend\">" + legend + "</p>";
  return fmt::format(
      "<figure><figcaption>{0}</figcaption><svg viewBox=\"0 0 {1} {2}\" role=\"img\" "
      "aria-label=\"{0}\">{3}{4}</svg>{5}</figure>\n",
      title, kWidth, kHeight, frame(), body_, legend);
}

}  // namespace reciperun
