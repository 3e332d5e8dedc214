#include "tools/recipe_run/judge/verdict.h"

namespace reciperun {

std::string verdict_word(Verdict verdict) {
  switch (verdict) {
    case Verdict::kReproduced:
      return "REPRODUCED";
    case Verdict::kWithinTolerance:
      return "WITHIN TOLERANCE";
    case Verdict::kConsistent:
      return "CONSISTENT";
    case Verdict::kDiffersWorse:
      return "DIFFERS (worse)";
    case Verdict::kDiffersBetter:
      return "DIFFERS (better)";
    case Verdict::kInconclusive:
      return "INCONCLUSIVE";
    case Verdict::kNotComparable:
      return "NOT COMPARABLE";
    case Verdict::kNotRun:
      return "NOT RUN";
    case Verdict::kInvalid:
      return "INVALID";
    case Verdict::kNoPublishedValue:
      return "NO PUBLISHED VALUE";
  }
  return "?";
}

Judgement judged(Verdict verdict, std::string reason) {
  Judgement out;
  out.verdict = verdict;
  out.reason = std::move(reason);
  return out;
}

bool is_compared(Verdict verdict) { return verdict <= Verdict::kInconclusive; }

Exit exit_of(Verdict verdict, bool require) {
  switch (verdict) {
    case Verdict::kDiffersWorse:
      return Exit::kDiffers;
    case Verdict::kInconclusive:
    case Verdict::kInvalid:
      return Exit::kUndecided;
    case Verdict::kNotComparable:
    case Verdict::kNotRun:
      return require ? Exit::kNotRun : Exit::kOk;
    default:
      return Exit::kOk;
  }
}

}  // namespace reciperun
