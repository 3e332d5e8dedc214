// A small chart as inline SVG. Colours come from the page's style sheet through classes, so that
// light and dark both work; what a colour says, a label or dash pattern says too.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tools/recipe_run/record/measurements.h"

namespace reciperun {

struct Axis {
  std::string label;
  double low = 0;
  double high = 1;
  bool logarithmic = false;
};

// An axis that contains all values with a little room. Nothing to show gives 0..1.
Axis axis_around(std::string label, std::span<const double> values, bool logarithmic = false);

class Chart {
 public:
  // `title` is spoken by screen readers and shown above the chart.
  Chart(std::string title, Axis x, Axis y);

  // `style` is a CSS class: s0 … s5 for series, ref for published values, mean, soft.
  Chart& line(std::span<const CurvePoint> points, const std::string& style);
  // Between two curves over the same x.
  Chart& band(std::span<const CurvePoint> lower, std::span<const CurvePoint> upper,
              const std::string& style);
  Chart& vertical_band(double from, double to, const std::string& style);
  Chart& vertical_line(double x, const std::string& style);
  Chart& horizontal_line(double y, const std::string& style, const std::string& label);
  Chart& dot(double x, double y, const std::string& style, const std::string& tooltip);
  Chart& segment(CurvePoint from, CurvePoint to, const std::string& style);
  // Text beside a point; `anchor` is start, middle or end.
  Chart& text(double x, double y, const std::string& words, const std::string& anchor = "start");
  // Names instead of numbers on the y axis, at y = 0, 1, 2, ... from the top.
  Chart& row_names(std::vector<std::string> names);
  // A line of the legend below the chart.
  Chart& legend(const std::string& style, const std::string& words);

  std::string svg() const;  // a whole <figure>

 private:
  double px(double x) const;
  double py(double y) const;
  std::string frame() const;

  std::string title_;
  Axis x_;
  Axis y_;
  std::vector<std::string> names_;
  std::string body_;
  std::vector<std::pair<std::string, std::string>> legend_;
};

}  // namespace reciperun
