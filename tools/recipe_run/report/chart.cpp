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

struct Tick {
  double at;
  std::string text;
};

// `v` with the decimals that tell values in steps of `step` apart.
std::string tick_text(double v, double step) {
  if (v == 0) return "0";
  int decimals = std::max(0, static_cast<int>(-std::floor(std::log10(step) + 1e-9)));
  // A step of 0.25 needs two digits although its magnitude says one.
  const double shifted = step * std::pow(10, decimals);
  if (std::abs(shifted - std::round(shifted)) > 1e-6) ++decimals;
  return fixed(v, std::min(decimals, 7));
}

std::vector<Tick> linear_ticks(double low, double high) {
  const double raw = (high - low) / 5;
  const double magnitude = std::pow(10, std::floor(std::log10(raw)));
  double step = magnitude;
  for (const double s : {1.0, 2.0, 2.5, 5.0, 10.0}) {
    step = s * magnitude;
    if (step >= raw) break;
  }
  std::vector<Tick> ticks;
  for (double k = std::ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; ++k)
    ticks.push_back({k * step, tick_text(k * step, step)});
  return ticks;
}

std::vector<Tick> log_ticks(double low, double high) {
  std::vector<Tick> ticks;
  const bool sparse = std::log10(high / low) > 2.5;
  for (double decade = std::pow(10, std::floor(std::log10(low))); decade <= high; decade *= 10) {
    for (const double m : {1.0, 2.0, 5.0}) {
      const double v = m * decade;
      if ((m == 1 || !sparse) && v >= low * 0.999 && v <= high * 1.001)
        ticks.push_back({v, tick_text(v, v)});
    }
  }
  return ticks;
}

std::vector<Tick> ticks_of(const Axis& a) {
  return a.logarithmic ? log_ticks(a.low, a.high) : linear_ticks(a.low, a.high);
}

// Where a value lies on its axis, 0 to 1; what lies outside stays near the border.
double place_on(const Axis& a, double v) {
  const double t = a.logarithmic ? std::log(v / a.low) / std::log(a.high / a.low)
                                 : (v - a.low) / (a.high - a.low);
  return std::clamp(t, -0.05, 1.05);
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
  std::vector<double> usable;
  for (const double v : values) {
    if (std::isfinite(v) && (!logarithmic || v > 0)) usable.push_back(v);
  }
  if (usable.empty()) return {std::move(label), logarithmic ? 0.1 : 0, 1, logarithmic};
  const auto [low, high] = std::minmax_element(usable.begin(), usable.end());
  if (logarithmic) return {std::move(label), *low / 1.1, *high * 1.1, true};
  const double room = *high > *low ? 0.06 * (*high - *low) : std::max(0.05 * std::abs(*high), 1e-6);
  return {std::move(label), *low - room, *high + room, false};
}

Chart::Chart(std::string title, Axis x, Axis y)
    : title_(std::move(title)), x_(std::move(x)), y_(std::move(y)) {}

double Chart::px(double x) const { return kLeft + place_on(x_, x) * (kWidth - kLeft - kRight); }

double Chart::py(double y) const {
  return kHeight - kBottom - place_on(y_, y) * (kHeight - kBottom - kTop);
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

Chart& Chart::vertical_line(double x, const std::string& style) {
  body_ += tag_line(px(x), kTop, px(x), kHeight - kBottom, "line " + style);
  return *this;
}

Chart& Chart::horizontal_line(double y, const std::string& style, const std::string& label) {
  body_ += tag_line(kLeft, py(y), kWidth - kRight, py(y), "line " + style);
  body_ += tag_text(kWidth - kRight - 3, py(y) - 4, "end", label, "small");
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
  for (const Tick& tick : ticks_of(x_)) {
    out += tag_line(px(tick.at), kTop, px(tick.at), kHeight - kBottom, "grid");
    out += tag_text(px(tick.at), kHeight - kBottom + 16, "middle", tick.text);
  }
  const auto add_y = [&](double at, const std::string& text) {
    out += tag_text(kLeft - 6, py(at) + 4, "end", text);
  };
  for (size_t i = 0; i < names_.size(); ++i) add_y(-static_cast<double>(i), names_[i]);
  for (const Tick& tick : names_.empty() ? ticks_of(y_) : std::vector<Tick>()) {
    out += tag_line(kLeft, py(tick.at), kWidth - kRight, py(tick.at), "grid");
    add_y(tick.at, tick.text);
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
