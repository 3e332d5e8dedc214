// Throughput of inference over batch sizes: it grows, then levels off.
#include <algorithm>

#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/lint/lint.h"

namespace reciperun::lint {
namespace {

constexpr double kFall = 0.9;    // of the smaller batch's throughput: more than noise
constexpr double kStall = 1.2;   // gained by doubling the batch
constexpr double kResume = 1.5;  // gained by doubling it once more

std::map<uint32_t, double> inference_rates(const std::vector<const Printed*>& numbers) {
  std::map<uint32_t, double> rates;
  for (const Printed* number : numbers) {
    const v1::Expect& e = *number->expect;
    const bool infers = std::any_of(
        number->recipe->bench().begin(), number->recipe->bench().end(),
        [&](const v1::Bench& b) { return b.id() == e.bench() && b.mode() == v1::Bench::INFER; });
    if (infers && e.metric() == "throughput" && !e.has_ratio())
      rates[e.scope().batch()] = number->value;
  }
  return rates;
}

}  // namespace

void check_batches(const Corpus& corpus, Findings& out) {
  for (const auto& [name, numbers] : by_table(corpus)) {
    const std::map<uint32_t, double> rates = inference_rates(numbers);
    std::vector<std::string> odd;
    for (auto it = rates.begin(); it != rates.end() && std::next(it) != rates.end(); ++it) {
      const auto next = std::next(it);
      const auto after = std::next(next);
      const bool falls = next->second < kFall * it->second;
      const bool stalls = after != rates.end() && next->first == 2 * it->first &&
                          after->first == 2 * next->first && next->second < kStall * it->second &&
                          after->second > kResume * next->second;
      if (falls || stalls) odd.push_back(std::to_string(next->first));
    }
    if (odd.empty()) continue;
    out.push_back({"order", name.first, name.second, "batch " + join(odd, ", "),
                   "throughput falls or stands still here and grows again behind: not the speed of "
                   "the device"});
  }
}

}  // namespace reciperun::lint
