// Means, standard deviations and extremes of seeds, and single runs beside them.
#include <cmath>

#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/lint/lint.h"
#include "tools/recipe_run/statistics/distributions.h"
#include "tools/recipe_run/statistics/summary.h"

namespace reciperun::lint {
namespace {

// A row over seeds: printed as a list, or as mean and standard deviation in the mean's unit.
struct Seeds {
  const Printed* row;
  Summary summary;
};

std::vector<Seeds> rows_over_seeds(const Corpus& corpus) {
  std::vector<Seeds> rows;
  for (const Printed& number : corpus.numbers) {
    const v1::Expect& e = *number.expect;
    if (e.has_sample()) {
      const std::vector<double> values(e.sample().v().begin(), e.sample().v().end());
      rows.push_back({&number, summarise(values)});
    } else if (e.has_mean_std()) {
      const v1::MeanStd& m = e.mean_std();
      const double scale = m.std_scale() > 0 ? m.std_scale() : 1;
      rows.push_back({&number, {m.mean(), m.std() * scale, static_cast<int>(m.n()), 0}});
    }
  }
  return rows;
}

// --- a standard deviation and the range of the same runs ---

double extreme_of(const v1::Recipe& recipe, const std::string& row, v1::Extreme::Which which) {
  for (const v1::Expect& e : recipe.expect()) {
    if (e.extreme().of() == row && e.extreme().which() == which) return e.extreme().v();
  }
  return 0;
}

// n values of this range have a standard deviation inside these bounds.
Interval possible_sd(double range, int n) {
  return {range / std::sqrt(2.0 * (n - 1)), range / 2 * std::sqrt(n / (n - 1.0))};
}

void check_unit(const Corpus& corpus, Findings& out) {
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> hundredfold;
  for (const Printed& number : corpus.numbers) {
    if (!number.expect->has_mean_std()) continue;
    const v1::MeanStd& m = number.expect->mean_std();
    const double high = extreme_of(*number.recipe, number.expect->id(), v1::Extreme::MAX);
    const double low = extreme_of(*number.recipe, number.expect->id(), v1::Extreme::MIN);
    if (high <= low || m.n() < 2) continue;
    const Interval sd = possible_sd(high - low, static_cast<int>(m.n()));
    const auto inside = [&](double value) { return value >= sd.lower && value <= sd.upper; };
    if (inside(m.std())) continue;
    if (inside(100 * m.std())) {
      hundredfold[{number.file, number.table->name}].push_back(shortest(m.std()));
    } else {
      out.push_back({"unit", number.file, number.table->name, number.where(),
                     "a standard deviation of " + shortest(m.std()) +
                         " is impossible for runs between " + shortest(low) + " and " +
                         shortest(high)});
    }
  }
  for (const auto& [name, values] : hundredfold) {
    out.push_back({"unit", name.first, name.second, "standard deviations",
                   "fractions beside per cent: " + join(values, ", ") +
                       " fit minimum and maximum when multiplied by 100"});
  }
}

// --- printed mean and deviation of a printed list ---

// "" if `printed` is `exact` rounded to `step`, else what it is.
std::string print_problem(double exact, double printed, double step) {
  constexpr double kSlack = 1e-9;
  if (std::abs(exact - printed) <= step / 2 + kSlack) return "";
  return exact > printed && exact - printed < step ? "truncated" : "wrong";
}

double last_digit(double value) {
  double step = 1;
  while (step > 1e-6 && std::abs(value / step - std::round(value / step)) > 1e-6) step /= 10;
  return step;
}

void check_lists(const std::vector<Seeds>& rows, Findings& out) {
  for (const Seeds& seeds : rows) {
    const v1::Sample& sample = seeds.row->expect->sample();
    if (sample.v().empty()) continue;
    const std::string mean =
        print_problem(seeds.summary.mean, sample.printed_mean(), seeds.row->step);
    const std::string sd =
        print_problem(seeds.summary.sd, sample.printed_std(), last_digit(sample.printed_std()));
    std::vector<std::string> parts;
    if (!mean.empty())
      parts.push_back("mean " + fixed(seeds.summary.mean, 4) + " printed as " +
                      shortest(sample.printed_mean()) + " (" + mean + ")");
    if (!sd.empty())
      parts.push_back("standard deviation " + fixed(seeds.summary.sd, 4) + " printed as " +
                      shortest(sample.printed_std()) + " (" + sd + ")");
    if (parts.empty()) continue;
    out.push_back(
        {"sample", seeds.row->file, seeds.row->table->name, seeds.row->where(), join(parts, "; ")});
  }
}

// --- single runs beside seeds ---

bool same_training(const Printed& a, const Printed& b) {
  const auto first_lock = [](const v1::Recipe& r) {
    return r.data().empty() ? std::string() : r.data(0).lock();
  };
  return a.file == b.file && a.expect->metric() == b.expect->metric() &&
         a.expect->scope().epochs() == b.expect->scope().epochs() &&
         a.recipe->model().arch() == b.recipe->model().arch() &&
         a.recipe->model().pretrained() == b.recipe->model().pretrained() &&
         first_lock(*a.recipe) == first_lock(*b.recipe);
}

void check_spread(const Corpus& corpus, const std::vector<Seeds>& rows, Findings& out) {
  for (const Printed& number : corpus.numbers) {
    if (!number.expect->has_single() || !number.expect->bench().empty()) continue;
    for (const Seeds& seeds : rows) {
      const bool epochs_unknown = seeds.row->expect->has_sample();
      Printed comparable = *seeds.row;
      v1::Expect expect = *seeds.row->expect;
      if (epochs_unknown) *expect.mutable_scope() = number.expect->scope();
      comparable.expect = &expect;
      if (!same_training(number, comparable)) continue;
      const Summary& s = seeds.summary;
      const double half = student_quantile(0.975, s.n - 1) * s.sd * std::sqrt(1 + 1.0 / s.n);
      if (std::abs(number.value - s.mean) <= half + number.step / 2) continue;
      out.push_back({"spread", number.file, number.table->name,
                     number.where() + ": " + number.column() + ", " + number.expect->metric(),
                     number.expect->at().printed() + " is outside of what " + std::to_string(s.n) +
                         " seeds predict for one more run: " + fixed(s.mean - half, 2) + " to " +
                         fixed(s.mean + half, 2)});
      break;
    }
  }
}

// --- two means over seeds in one row ---

double welch_p(const Summary& a, const Summary& b) {
  const double va = a.sd * a.sd / a.n;
  const double vb = b.sd * b.sd / b.n;
  const double df = (va + vb) * (va + vb) / (va * va / (a.n - 1) + vb * vb / (b.n - 1));
  return student_two_sided_p((a.mean - b.mean) / std::sqrt(va + vb), df);
}

void check_difference(const std::vector<Seeds>& rows, Findings& out) {
  for (size_t i = 0; i < rows.size(); ++i) {
    for (size_t j = i + 1; j < rows.size(); ++j) {
      const Printed& a = *rows[i].row;
      const Printed& b = *rows[j].row;
      if (a.table != b.table || a.row != b.row || !a.expect->has_mean_std()) continue;
      const double p = welch_p(rows[i].summary, rows[j].summary);
      if (p > 0.05) continue;
      out.push_back({"difference", a.file, a.table->name, a.where(),
                     a.expect->at().printed() + " and " + b.expect->at().printed() +
                         ", presented as equal, differ with p " + fixed(p, 3)});
    }
  }
}

}  // namespace

void check_samples(const Corpus& corpus, Findings& out) {
  const std::vector<Seeds> rows = rows_over_seeds(corpus);
  check_unit(corpus, out);
  check_lists(rows, out);
  check_spread(corpus, rows, out);
  check_difference(rows, out);
}

}  // namespace reciperun::lint
