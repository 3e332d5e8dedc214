// Speed-ups and scalings recomputed from the numbers they are quotients of.
#include <algorithm>
#include <cmath>
#include <optional>

#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/lint/lint.h"

namespace reciperun::lint {
namespace {

struct Quotient {
  const Printed* ratio;
  const Printed* num;
  const Printed* den;

  double exact() const { return num->value / den->value; }
  Interval possible() const {
    const Interval n = printed_interval(*num);
    const Interval d = printed_interval(*den);
    return {n.lower / d.upper, n.upper / d.lower};
  }
  bool fits() const {
    const Interval p = printed_interval(*ratio);
    return possible().lower <= p.upper && p.lower <= possible().upper;
  }
  // What `term`, one of num and den, would have to be.
  Interval implied(const Printed* term) const {
    const Interval r = rounded_interval(*ratio);
    return term == num ? Interval{r.lower * den->value, r.upper * den->value}
                       : Interval{num->value / r.upper, num->value / r.lower};
  }
};

// Those whose terms are published too.
std::vector<Quotient> quotients(const Corpus& corpus) {
  std::vector<Quotient> out;
  for (const Printed& number : corpus.numbers) {
    if (!number.expect->has_ratio()) continue;
    const v1::Ratio& r = number.expect->ratio();
    const std::string& own = number.recipe->id();
    const Printed* num = corpus.find(r.num_recipe().empty() ? own : r.num_recipe(), r.num());
    const Printed* den = corpus.find(r.den_recipe().empty() ? own : r.den_recipe(), r.den());
    if (num != nullptr && den != nullptr) out.push_back({&number, num, den});
  }
  return out;
}

// The middle of an interval with no more digits than its width gives.
double sensible(const Interval& interval) {
  const double step = std::pow(10.0, std::ceil(std::log10((interval.upper - interval.lower) / 4)));
  return std::round((interval.lower + interval.upper) / 2 / step) * step;
}

// The value of `term` on which two or more misfits agree.
std::optional<double> agreed(const std::vector<Quotient>& misfits, const Printed* term) {
  std::optional<Interval> common;
  int count = 0;
  for (const Quotient& q : misfits) {
    if (q.num != term && q.den != term) continue;
    const Interval implied = q.implied(term);
    common = common ? Interval{std::max(common->lower, implied.lower),
                               std::min(common->upper, implied.upper)}
                    : implied;
    ++count;
  }
  if (count < 2 || common->lower >= common->upper) return std::nullopt;
  return sensible(*common);
}

std::string printed(const Printed& number) { return number.expect->at().printed(); }

// Reports the term on which misfits agree and removes them.
void report_term(const Printed* term, double value, std::vector<Quotient>& misfits, Findings& out) {
  std::vector<std::string> reasons;
  std::erase_if(misfits, [&](const Quotient& q) {
    if (q.num != term && q.den != term) return false;
    reasons.push_back("'" + q.ratio->column() + "' " + printed(*q.ratio));
    return true;
  });
  out.push_back({"ratio", term->file, term->table->name, term->where() + ": " + term->column(),
                 printed(*term) + " does not fit " + join(reasons, " and ") +
                     ", which both imply " + shortest(value)});
}

int printed_decimals(const Printed& number) {
  return static_cast<int>(std::lround(-std::log10(number.step)));
}

// -1: only truncation explains the print, +1: only rounding, 0: both or neither do.
int rounding_evidence(const Quotient& q) {
  const double steps = q.exact() / q.ratio->step;
  const double printed_steps = std::round(q.ratio->value / q.ratio->step);
  constexpr double kSlack = 1e-6;  // of binary fractions
  const bool rounded = std::abs(steps - printed_steps) <= 0.5 + kSlack;
  const bool truncated = std::floor(steps + kSlack) == printed_steps;
  return truncated == rounded ? 0 : rounded ? 1 : -1;
}

std::ptrdiff_t count_evidence(const std::vector<Quotient>& all, int evidence) {
  return std::count_if(all.begin(), all.end(),
                       [&](const Quotient& q) { return rounding_evidence(q) == evidence; });
}

}  // namespace

void check_ratios(const Corpus& corpus, Findings& out) {
  std::vector<Quotient> misfits = quotients(corpus);
  std::erase_if(misfits, [](const Quotient& q) { return q.fits(); });
  for (bool found = true; found;) {
    found = false;
    for (const Quotient& q : misfits) {
      for (const Printed* term : {q.num, q.den}) {
        const auto value = agreed(misfits, term);
        if (!value) continue;
        report_term(term, *value, misfits, out);
        found = true;
        break;
      }
      if (found) break;  // misfits has changed
    }
  }
  for (const Quotient& q : misfits) {
    out.push_back({"ratio", q.ratio->file, q.ratio->table->name,
                   q.ratio->where() + ": " + q.ratio->column(),
                   printed(*q.ratio) + ", but " + printed(*q.num) + " / " + printed(*q.den) +
                       " is " + fixed(q.exact(), printed_decimals(*q.ratio))});
  }
}

void check_rounding(const Corpus& corpus, Findings& out) {
  std::map<std::pair<std::string, std::string>, std::vector<Quotient>> tables;
  for (const Quotient& q : quotients(corpus)) {
    if (q.fits()) tables[{q.ratio->file, q.ratio->table->name}].push_back(q);
  }
  for (const auto& [name, all] : tables) {
    const auto truncated = count_evidence(all, -1);
    if (truncated == 0 || count_evidence(all, 1) > 0) continue;
    out.push_back({"rounding", name.first, name.second, "ratios",
                   "truncated, not rounded: " + std::to_string(truncated) + " of " +
                       std::to_string(all.size()) + " can tell, all of them say so"});
  }
}

}  // namespace reciperun::lint
