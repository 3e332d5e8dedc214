// Rows that are ratios of two throughputs: weak scaling, the speed-up of a precision. Each term may
// come from a run of another recipe.
#include <algorithm>

#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/statistics/repeats.h"
#include "tools/recipe_run/verdict/row_kinds.h"

namespace reciperun {
namespace {

// The run that a term was measured in.
struct TermRun {
  const v1::Recipe* recipe = nullptr;
  const Measurements* measurements = nullptr;
  std::string name;  // "" = the run of the row
};

// `recipe`: "" for the row's own. Without a run of it, `out.missing` says so.
TermRun run_of(const RowContext& c, const std::string& recipe, Measured& out) {
  if (recipe.empty() || recipe == c.recipe.id()) return {&c.recipe, &c.measurements, ""};
  for (const OtherRun& other : c.measurements.others) {
    if (other.recipe.id() == recipe) return {&other.recipe, &other.measurements, other.run};
  }
  out.missing = "needs a run of '" + recipe + "' too; 'recipe-run report RUN --with " +
                "THAT_RUN' puts them together";
  return {};
}

void require_comparable(const RowContext& c, const TermRun& term, Measured& out) {
  if (term.measurements == &c.measurements) return;
  if (!term.measurements->not_comparable.empty())
    out.incomparable = "run " + term.name + ": " + term.measurements->not_comparable;
  if (term.measurements->machine != c.measurements.machine ||
      term.measurements->device != c.measurements.device)
    out.incomparable = "run " + term.name + " is of another machine: " + term.measurements->device;
}

// The repeats of row `id` in the term's run; empty if it was not measured.
std::vector<double> repeats_of(const TermRun& term, const std::string& id, Measured& out) {
  const v1::Expect* row = find_expectation(*term.recipe, id);
  const BenchResult* bench = row == nullptr ? nullptr : result_of(*row, *term.measurements);
  if (bench == nullptr) return {};
  out.benches.push_back(bench);
  return bench_values(*term.recipe, *row, *bench, 1, out.missing);
}

}  // namespace

Measured measure_scaling(const RowContext& c, Row& row) {
  Measured out;
  const v1::Ratio& ratio = c.expect.ratio();
  const TermRun num = run_of(c, ratio.num_recipe(), out);
  const TermRun den = run_of(c, ratio.den_recipe(), out);
  if (!out.missing.empty()) return out;
  out.values = repeats_of(num, ratio.num(), out);
  out.denominator = repeats_of(den, ratio.den(), out);
  if (out.values.empty() || out.denominator.empty()) {
    out.missing = "needs both '" + ratio.num() + "' and '" + ratio.den() + "'";
    return out;
  }
  for (const TermRun* term : {&num, &den}) require_comparable(c, *term, out);
  const RatioInterval r = ratio_interval(out.values, out.denominator);
  row.measured = fixed(r.ratio, std::max(2, c.published.decimals));
  row.measured_n = std::to_string(std::min(out.values.size(), out.denominator.size()));
  row.values = {r.ratio};
  for (const TermRun* term : {&num, &den}) {
    if (!term->name.empty()) row.note = "with run " + term->name;
  }
  return out;
}

Judgement compare_scaling(const RowContext& c, const Measured& m) {
  return judge_speedup(*c.published.value, m.values, m.denominator, c.tolerance);
}

}  // namespace reciperun
