// Reads the published side of a row out of its expectation, with the defaults of margins.
#include "tools/recipe_run/judge/published.h"

#include <algorithm>
#include <cmath>

#include "tools/recipe_run/recipe/facts.h"
#include "tools/recipe_run/util/text.h"

namespace reciperun {
namespace {

double scale_or_one(double scale) { return scale > 0 ? scale : 1; }

// The decimals as they stand in the source.
int printed_decimals(const v1::Expect& expect) {
  if (expect.decimals() > 0) return static_cast<int>(std::min(expect.decimals(), 9u));
  const std::string& printed = expect.at().printed();
  const size_t point = printed.find('.');
  if (printed.empty()) return 3;
  if (point == std::string::npos) return 0;
  const size_t end = printed.find_first_not_of("0123456789", point + 1);
  return static_cast<int>(std::min(end, printed.size()) - point - 1);
}

Summary mean_std_summary(const v1::MeanStd& published) {
  Summary out;
  out.mean = published.mean();
  out.n = static_cast<int>(published.n());
  out.sd = published.std() * scale_or_one(published.std_scale());
  if (published.kind() == v1::MeanStd::POPULATION && out.n >= 2)
    out.sd = sample_sd_from_population(out.sd, out.n);
  return out;
}

// Mean, spread and number of the runs behind the printed number, as far as the source tells.
Summary summary_of(const v1::Expect& e) {
  switch (e.value_case()) {
    case v1::Expect::kSingle:
      return {e.single().v(), 0, static_cast<int>(e.single().n()), 0};
    case v1::Expect::kMeanStd:
      return mean_std_summary(e.mean_std());
    case v1::Expect::kSample:
      return summarise(std::vector<double>(e.sample().v().begin(), e.sample().v().end()));
    case v1::Expect::kExtreme:
      return {e.extreme().v(), 0, static_cast<int>(e.extreme().n()), 0};
    case v1::Expect::kRatio:
      return {e.ratio().v(), 0, 0, 0};
    case v1::Expect::kTail:
      return {e.tail().v(), 0, static_cast<int>(e.tail().n()), 0};
    case v1::Expect::kSpread: {
      const double sd = e.spread().v() * scale_or_one(e.spread().scale());
      return {sd, sd, static_cast<int>(e.spread().n()), 0};
    }
    default:
      return {};
  }
}

// Where the row's spread is looked for if it prints none: a row of this recipe or another's.
std::optional<Summary> lent_spread(const v1::Recipe& recipe, const v1::Expect& e) {
  if (e.has_lender()) {
    return Summary{e.lender().mean(), e.lender().std() * scale_or_one(e.lender().std_scale()),
                   static_cast<int>(e.lender().n()), 0};
  }
  const std::string& id = e.has_extreme() ? e.extreme().of() : e.spread_from();
  const v1::Expect* row = id.empty() ? nullptr : find_expectation(recipe, id);
  if (row == nullptr) return std::nullopt;
  const Summary own = summary_of(*row);
  return own.sd > 0 || !row->has_lender() ? own : lent_spread(recipe, *row);
}

double default_margin(const v1::Recipe& recipe, const v1::Expect& expect) {
  if (expect.has_ratio()) return recipe.topology().nodes() > 1 ? 0.05 : 0.03;
  if (expect.metric() == "throughput") return 0.05;
  if (expect.metric() == "time_to_train") return 0.10;
  if (expect.metric() == "latency") return quantile_of(expect).p >= 0.99 ? 0.15 : 0.10;
  if (!expect.bench().empty()) return 0.10;
  if (expect.unit() == "%") return 0.30;
  return expect.metric().find("loss") != std::string::npos ? 0.03
         : expect.metric() == "dice"                       ? 0.005
                                                           : 0.003;
}

// The pinned margin turned into what the rule takes; 0 if none is pinned.
double pinned_margin(const v1::Expect& expect) {
  const v1::Margin& margin = expect.margin();
  const double value = std::abs(published_value(expect).value_or(0));
  if (!is_timing(expect)) return margin.absolute() + margin.relative() * value;
  return margin.relative() + (value > 0 ? margin.absolute() / value : 0);
}

}  // namespace

int published_decimals(const v1::Expect& expect) {
  const int printed = printed_decimals(expect);
  if (!expect.has_spread()) return printed;
  const double scale = scale_or_one(expect.spread().scale());
  return std::max(0, printed - static_cast<int>(std::lround(std::log10(scale))));
}

std::optional<double> published_value(const v1::Expect& expect) {
  if (!has_published_value(expect)) return std::nullopt;
  const double mean = summary_of(expect).mean;
  const bool rounds = expect.has_single() || expect.has_mean_std();
  return rounds && expect.rounding() == v1::Expect::TRUNCATED
             ? undo_truncation(mean, std::pow(10.0, -printed_decimals(expect)))
             : mean;
}

Published published_runs(const v1::Recipe& recipe, const v1::Expect& expect) {
  Published out;
  out.runs = summary_of(expect);
  out.runs.mean = published_value(expect).value_or(0);
  // The mean of a printed list is computed here and not rounded.
  if (expect.has_single() || expect.has_mean_std())
    out.runs.rounding_variance = rounding_variance(std::pow(10.0, -printed_decimals(expect)));
  if (const auto folds = static_cast<int>(trials_per_seed(recipe)); folds > 1 && out.runs.n > 0)
    out.runs.n = std::max(1, out.runs.n / folds);
  out.list.assign(expect.sample().v().begin(), expect.sample().v().end());
  out.lender = lent_spread(recipe, expect);
  out.lender_recipe = expect.lender().recipe();
  return out;
}

std::string published_text(const v1::Expect& expect) {
  const auto value = published_value(expect);
  if (!value) return "—";
  const Summary runs = summary_of(expect);
  const int decimals = published_decimals(expect);
  std::string text = fixed(*value, decimals);
  if (runs.n >= 2 && runs.sd > 0 && !expect.has_spread()) text += " ± " + fixed(runs.sd, decimals);
  return text;
}

Tolerance tolerance_of(const v1::Recipe& recipe, const v1::Expect& expect) {
  Tolerance t;
  t.higher_is_better = expect.direction() == v1::Expect::HIGHER;
  t.lower_is_better = expect.direction() == v1::Expect::LOWER;
  t.decimals = published_decimals(expect);
  t.margin = pinned_margin(expect);
  t.one_sided = expect.margin().one_sided();
  if (t.margin > 0) return t;
  t.margin = default_margin(recipe, expect);
  t.one_sided = t.one_sided || is_timing(expect);
  return t;
}

std::string margin_text(Statistic statistic, const Tolerance& t) {
  if (statistic != Statistic::kMean && statistic != Statistic::kRatio) return "";
  const std::string sign = !t.one_sided ? "±" : t.lower_is_better ? "+" : "\u2212";
  if (statistic == Statistic::kRatio)
    return sign + shortest(std::round(1000 * t.margin) / 10) + " %";
  const int decimals = std::max(t.decimals, 2);
  const double unit = std::pow(10.0, decimals);
  const bool fits = std::abs(std::round(t.margin * unit) / unit - t.margin) < 1e-9;
  return sign + (fits ? fixed(t.margin, decimals) : shortest(t.margin));
}

Statistic statistic_of(const v1::Expect& e) {
  if (is_timing(e)) return Statistic::kRatio;
  const std::string name = split_metric(e.metric()).statistic;
  if (e.has_spread() || name == "sd") return Statistic::kSpread;
  if (name == "max" || (e.has_extreme() && e.extreme().which() == v1::Extreme::MAX))
    return Statistic::kLargest;
  return name == "min" || e.has_extreme() ? Statistic::kSmallest : Statistic::kMean;
}

std::string group_of(const v1::Recipe& recipe, const v1::Expect& expect) {
  switch (kind_of(expect)) {
    case RowKind::kTime:
      return "time to train";
    case RowKind::kRatio:
      return "scaling";
    case RowKind::kTrials:
      return split_metric(expect.metric()).statistic.empty() ? "accuracy"
                                                             : "stability across seeds";
    case RowKind::kBench:
      break;
  }
  if (expect.metric() != "throughput") return "latency";
  const v1::Bench* bench = find_bench(recipe, expect.bench());
  const bool train = bench != nullptr && bench->mode() == v1::Bench::TRAIN;
  return train ? "training throughput" : "inference throughput";
}

}  // namespace reciperun
