#include "tools/recipe_run/verdict/published.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tools/recipe_run/base/text.h"

namespace reciperun {
namespace {

int decimals_of(const v1::Expect& expect) {
  if (expect.decimals() > 0) return static_cast<int>(std::min(expect.decimals(), 9u));
  const std::string& printed = expect.at().printed();
  const size_t point = printed.find('.');
  if (printed.empty()) return 3;
  if (point == std::string::npos) return 0;
  const size_t end = printed.find_first_not_of("0123456789", point + 1);
  return static_cast<int>(std::min(end, printed.size()) - point - 1);
}

double scale_or_one(double scale) { return scale > 0 ? scale : 1; }

Summary mean_std_summary(const v1::MeanStd& published) {
  Summary out;
  out.mean = published.mean();
  out.n = static_cast<int>(published.n());
  out.sd = published.std() * scale_or_one(published.std_scale());
  if (published.kind() == v1::MeanStd::POPULATION && out.n >= 2)
    out.sd = sample_sd_from_population(out.sd, out.n);
  return out;
}

}  // namespace

const v1::Expect* find_expectation(const v1::Recipe& recipe, const std::string& id) {
  const auto it = std::find_if(recipe.expect().begin(), recipe.expect().end(),
                               [&](const v1::Expect& e) { return e.id() == id; });
  return it == recipe.expect().end() ? nullptr : &*it;
}

Published published_side(const v1::Expect& expect) {
  Published out;
  out.decimals = decimals_of(expect);
  const double step = std::pow(10.0, -out.decimals);
  switch (expect.value_case()) {
    case v1::Expect::kSingle:
      out.summary = {expect.single().v(), 0, static_cast<int>(expect.single().n()),
                     rounding_variance(step)};
      break;
    case v1::Expect::kMeanStd:
      out.summary = mean_std_summary(expect.mean_std());
      out.summary.rounding_variance = rounding_variance(step);
      break;
    case v1::Expect::kSample: {
      const std::vector<double> values(expect.sample().v().begin(), expect.sample().v().end());
      if (!values.empty())
        out.summary = summarise(values);  // the list itself: its mean is not rounded
      break;
    }
    case v1::Expect::kExtreme:
      out.summary = {expect.extreme().v(), 0, static_cast<int>(expect.extreme().n()), 0};
      break;
    case v1::Expect::kRatio:
      out.summary.mean = expect.ratio().v();
      break;
    case v1::Expect::kTail:
      out.summary = {expect.tail().v(), 0, static_cast<int>(expect.tail().n()), 0};
      break;
    case v1::Expect::kSpread: {
      const double scale = scale_or_one(expect.spread().scale());
      out.decimals = std::max(0, out.decimals - static_cast<int>(std::lround(std::log10(scale))));
      out.summary = {expect.spread().v() * scale, expect.spread().v() * scale,
                     static_cast<int>(expect.spread().n()), 0};
      break;
    }
    default:
      return out;
  }
  out.has_spread = out.summary.n >= 2 && out.summary.sd > 0 && !expect.has_spread();
  out.value = out.summary.mean;
  if (expect.has_lender()) {
    const v1::Lender& lender = expect.lender();
    out.lender = Summary{lender.mean(), lender.std() * scale_or_one(lender.std_scale()),
                         static_cast<int>(lender.n()), 0};
  }
  const bool rounds = expect.has_single() || expect.has_mean_std();
  if (rounds && expect.rounding() == v1::Expect::TRUNCATED)
    out.summary.mean = undo_truncation(out.summary.mean, step);
  return out;
}

std::string published_text(const v1::Expect& expect) {
  const Published published = published_side(expect);
  if (!published.value) return "—";
  std::string text = fixed(*published.value, published.decimals);
  if (published.has_spread) text += " ± " + fixed(published.summary.sd, published.decimals);
  return text;
}

}  // namespace reciperun
