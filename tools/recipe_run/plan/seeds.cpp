#include "tools/recipe_run/plan/seeds.h"

#include <algorithm>
#include <optional>

#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/statistics/power.h"
#include "tools/recipe_run/statistics/quantiles.h"
#include "tools/recipe_run/verdict/expectation.h"

namespace reciperun {
namespace {

std::string runs(int n) {
  return n == 0 ? std::string("no number of runs")
                : std::to_string(n) + (n == 1 ? " run" : " runs");
}

// The published mean's runs with the spread that stands for them.
std::optional<Summary> spread_of(const v1::Recipe& recipe, const v1::Expect& e,
                                 const Published& published) {
  if (published.has_spread) return published.summary;
  if (published.lender) return published.lender;
  const v1::Expect* lender =
      e.spread_from().empty() ? nullptr : find_expectation(recipe, e.spread_from());
  if (lender == nullptr) return std::nullopt;
  const Published other = published_side(*lender);
  return other.has_spread ? std::optional(other.summary) : std::nullopt;
}

}  // namespace

std::string seeds_text(const v1::Recipe& recipe, const v1::Expect& e, uint32_t count) {
  const Published published = published_side(e);
  const bool has_own_interval = e.has_extreme() || e.has_spread();
  if (kind_of(e) != RowKind::kTrials || !published.value || has_own_interval) return "";
  const double margin = tolerance_of(recipe, e, published).margin;
  const std::optional<Summary> spread = spread_of(recipe, e, published);
  if (!spread || spread->n < 2 || !(spread->sd > 0)) {
    return published.summary.n >= 2
               ? "no published spread: our own over at least 2 trials stands for it"
               : "no published spread: judged by the margin ±" + shortest(margin) +
                     " alone, at best WITHIN TOLERANCE";
  }
  const int own = std::max(1, static_cast<int>(count));
  Summary careful = *spread;
  careful.sd *= sd_upper_factor(careful.n);
  return runs(runs_for_90_percent(*spread, margin)) + " for 90 % power against a drop of " +
         shortest(margin) + " (" + runs(runs_for_90_percent(careful, margin)) +
         " if the published spread is underestimated); with " + std::to_string(own) + ": power " +
         fixed(power(*spread, own, margin), 2) + ", REPRODUCED with probability " +
         (own < 2 ? "0" : fixed(equivalence_power(*spread, own, margin), 2)) +
         " if nothing is wrong";
}

std::string samples_text(const v1::Recipe& recipe, const v1::Expect& e) {
  const v1::Bench* bench = find_bench(recipe, e.bench());
  if (bench == nullptr || kind_of(e) != RowKind::kBench || e.metric() != "latency") return "";
  const v1::Quantile q = quantile_of(e);
  const bool is_mean =
      q.def() == v1::Quantile::MEAN_OF_LOWEST || q.def() == v1::Quantile::MEAN_UPPER_CI;
  const int needed = minimum_samples(q.p());
  if (is_mean || static_cast<int>(bench->measure_steps()) >= needed) return "";
  return quantile_title(q) + " needs " + std::to_string(needed) + " steps, the bench has " +
         std::to_string(bench->measure_steps());
}

}  // namespace reciperun
