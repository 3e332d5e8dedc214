#include <vector>

#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/statistics/repeats.h"
#include "tools/recipe_run/verdict/wording.h"

namespace reciperun {

void correct_for_many_rows(std::span<Judgement* const> rows) {
  std::vector<Judgement*> candidates;
  std::vector<double> p;
  for (Judgement* row : rows) {
    const bool differs =
        row->verdict == Verdict::kDiffersWorse || row->verdict == Verdict::kDiffersBetter;
    if (!differs || !row->p) continue;
    candidates.push_back(row);
    p.push_back(*row->p);
  }
  const std::vector<double> adjusted = holm_adjusted(p);
  for (size_t i = 0; i < candidates.size(); ++i) {
    candidates[i]->inputs.emplace_back("holm_p", adjusted[i]);
    if (adjusted[i] <= kSignificant) continue;
    candidates[i]->verdict = Verdict::kInconclusive;
    candidates[i]->reason += "; not significant among " + std::to_string(candidates.size()) +
                             " such rows (Holm p " + fixed(adjusted[i], 3) + ")";
  }
}

}  // namespace reciperun
