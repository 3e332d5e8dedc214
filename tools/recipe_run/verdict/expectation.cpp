#include "tools/recipe_run/verdict/expectation.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "tools/recipe_run/base/text.h"

namespace reciperun {

RowKind kind_of(const v1::Expect& expect) {
  if (expect.has_ratio()) return RowKind::kScaling;
  if (!expect.bench().empty()) return RowKind::kBench;
  return expect.metric() == "time_to_train" ? RowKind::kTime : RowKind::kTrials;
}

bool is_timing(const v1::Expect& expect) { return kind_of(expect) != RowKind::kTrials; }

double unit_factor(const std::string& unit) {
  static const std::vector<std::pair<std::string, double>> kFactors = {
      {"1", 1},          {"%", 100},   {"x", 1},     {"nats", 1},
      {"s", 1},          {"ms", 1000}, {"us", 1e6},  {"min", 1.0 / 60},
      {"h", 1.0 / 3600}, {"img/s", 1}, {"seq/s", 1}, {"items/s", 1}};
  for (const auto& [name, factor] : kFactors) {
    if (name == unit) return factor;
  }
  std::vector<std::string> names;
  for (const auto& entry : kFactors) names.push_back(entry.first);
  throw Error(Exit::kUsage, "unit '" + unit + "' is unknown", "one of: " + join(names, ", "));
}

MetricName split_metric(const std::string& metric) {
  const size_t colon = metric.find(':');
  return {metric.substr(0, colon), colon == std::string::npos ? "" : metric.substr(colon + 1)};
}

const v1::Bench* find_bench(const v1::Recipe& recipe, const std::string& id) {
  const auto it = std::find_if(recipe.bench().begin(), recipe.bench().end(),
                               [&](const v1::Bench& b) { return b.id() == id; });
  return it == recipe.bench().end() ? nullptr : &*it;
}

v1::Quantile quantile_of(const v1::Expect& expect) {
  return expect.has_tail() ? expect.tail().q() : expect.quantile();
}

uint32_t devices_of(const v1::Recipe& recipe, const v1::Expect& expect) {
  if (expect.scope().devices() > 0) return expect.scope().devices();
  if (kind_of(expect) == RowKind::kBench) return 1;
  const v1::Topology& topology = recipe.topology();
  return std::max(1u, topology.nodes()) * std::max(1u, topology.devices_per_node());
}

double default_margin(const v1::Recipe& recipe, const v1::Expect& expect) {
  if (expect.has_ratio()) return recipe.topology().nodes() > 1 ? 0.05 : 0.03;
  if (expect.metric() == "throughput") return 0.05;
  if (expect.metric() == "time_to_train") return 0.10;
  if (expect.metric() == "latency") return quantile_of(expect).p() >= 0.99 ? 0.15 : 0.10;
  if (!expect.bench().empty()) return 0.10;
  if (expect.unit() == "%") return 0.30;
  return expect.metric().find("loss") != std::string::npos ? 0.03
         : expect.metric() == "dice"                       ? 0.005
                                                           : 0.003;
}

Tolerance tolerance_of(const v1::Recipe& recipe, const v1::Expect& expect,
                       const Published& published) {
  Tolerance t;
  t.higher_is_better = expect.direction() == v1::Expect::HIGHER;
  t.lower_is_better = expect.direction() == v1::Expect::LOWER;
  t.one_sided = expect.margin().one_sided();
  t.decimals = published.decimals;
  const bool given = expect.margin().absolute() > 0 || expect.margin().relative() > 0;
  t.margin = given ? expect.margin().absolute() + expect.margin().relative()
                   : default_margin(recipe, expect);
  if (!given && is_timing(expect)) t.one_sided = true;
  if (!is_timing(expect) && expect.margin().relative() > 0)
    t.margin = expect.margin().relative() * std::abs(published.value.value_or(0));
  return t;
}

std::string margin_text(Statistic statistic, const Tolerance& t) {
  if (statistic != Statistic::kMean && statistic != Statistic::kRatio) return "";
  const std::string sign = !t.one_sided ? "±" : t.lower_is_better ? "+" : "\u2212";
  return statistic == Statistic::kRatio ? sign + shortest(std::round(1000 * t.margin) / 10) + " %"
                                        : sign + fixed(t.margin, std::max(t.decimals, 2));
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
    case RowKind::kScaling:
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
