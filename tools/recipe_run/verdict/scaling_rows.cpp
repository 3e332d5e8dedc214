// Rows that are ratios of two throughputs: weak scaling, the speed-up of a precision.
#include <algorithm>

#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/statistics/repeats.h"
#include "tools/recipe_run/verdict/row_kinds.h"

namespace reciperun {

Measured measure_scaling(const RowContext& c, Row& row) {
  Measured out;
  const v1::Ratio& ratio = c.expect.ratio();
  for (const std::string& other : {ratio.num_recipe(), ratio.den_recipe()}) {
    if (other.empty()) continue;
    out.missing = "needs a run of '" + other + "' too";
    return out;
  }
  const auto values = [&](const std::string& id) {
    const v1::Expect* e = find_expectation(c.recipe, id);
    const BenchResult* b = e == nullptr ? nullptr : result_of(*e, c.measurements);
    return b == nullptr ? std::vector<double>{} : bench_values(c.recipe, *e, *b, 1, out.missing);
  };
  out.values = values(ratio.num());
  out.denominator = values(ratio.den());
  if (out.values.empty() || out.denominator.empty()) {
    out.missing = "needs both '" + ratio.num() + "' and '" + ratio.den() + "'";
    return out;
  }
  const RatioInterval r = ratio_interval(out.values, out.denominator);
  row.measured = fixed(r.ratio, std::max(2, c.published.decimals));
  row.measured_n = std::to_string(std::min(out.values.size(), out.denominator.size()));
  row.values = {r.ratio};
  return out;
}

Judgement compare_scaling(const RowContext& c, const Measured& m) {
  return judge_speedup(*c.published.value, m.values, m.denominator, c.tolerance);
}

}  // namespace reciperun
