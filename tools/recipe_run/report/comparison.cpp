#include "tools/recipe_run/report/comparison.h"

#include <algorithm>

#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/judge/published.h"

namespace reciperun {
namespace {

Judgement compare_values(const Row& first, const Row& second) {
  Tolerance t = first.tolerance;
  t.level = 0.05;  // both runs are looked at once, here
  t.reference = "the first run's value";
  return first.statistic == Statistic::kRatio
             ? judge_speedup(1, second.values, first.values, t)
             : judge_runs(first.statistic, {summarise(first.values), first.values}, second.values,
                          t);
}

// Why rows cannot be compared: for all of them, and for timings only.
struct Obstacles {
  std::string recipe;
  std::string machine;
};

Judgement judge(const Row& first, const Row& second, const Obstacles& obstacles) {
  const bool timing = first.statistic == Statistic::kRatio;
  if (first.values.empty() || second.values.empty()) {
    const std::string where = first.values.empty() ? "first" : "second";
    return judged(Verdict::kNotRun, "not measured in the " + where + " run");
  }
  if (first.unit != second.unit || first.statistic != second.statistic)
    return judged(Verdict::kNotComparable, "the two rows are of different kinds");
  if (!obstacles.recipe.empty()) return judged(Verdict::kNotComparable, obstacles.recipe);
  if (timing && !obstacles.machine.empty())
    return judged(Verdict::kNotComparable, obstacles.machine);
  for (const auto& [row, name] : {std::pair(&first, "first"), std::pair(&second, "second")}) {
    if (!row->unfit.empty())
      return judged(Verdict::kInvalid, std::string(name) + " run: " + row->unfit);
  }
  return compare_values(first, second);
}

Row compared(const Row& first, const Row& second, const Obstacles& obstacles) {
  Row row = second;
  row.published = first.measured.empty() ? "—" : first.measured;
  row.published_n = first.measured_n;
  row.title = first.title;
  row.gate = first.gate;
  row.tolerance = first.tolerance;
  row.delta = row.interval = row.note = "";
  row.margin = margin_text(first.statistic, first.tolerance);
  row.judgement = judge(first, second, obstacles);
  add_difference(row);
  if (!first.values.empty() && first.values == second.values)
    row.note = "equal to the last digit in both runs";
  return row;
}

std::vector<FieldDifference> differences_of(const Side& first, const Side& second) {
  std::vector<FieldDifference> out;
  const auto add = [&](const char* what, const std::string& a, const std::string& b) {
    if (a != b) out.push_back({what, a, b});
  };
  add("recipe", first.recipe, second.recipe);
  add("emulated devices", std::to_string(first.emulated_devices),
      std::to_string(second.emulated_devices));
  if (first.exec_digest != second.exec_digest && first.resolved && second.resolved) {
    for (FieldDifference& field : executed_differences(*first.resolved, *second.resolved))
      out.push_back(std::move(field));
  } else {
    add("executed digest", first.exec_digest.substr(0, 16), second.exec_digest.substr(0, 16));
  }
  add("device", first.device, second.device);
  add("machine", first.machine.substr(0, 16), second.machine.substr(0, 16));
  add("engine", first.engine, second.engine);
  return out;
}

Obstacles obstacles_of(const Comparison& c, const CompareOptions& options) {
  Obstacles out;
  if (options.despite_differences) return out;
  if (c.first.exec_digest != c.second.exec_digest ||
      c.first.emulated_devices != c.second.emulated_devices)
    out.recipe = "the runs did not execute the same; --despite-differences judges all the same";
  if (c.first.machine != c.second.machine || c.first.device != c.second.device)
    out.machine = "measured on different machines; --despite-differences judges all the same";
  return out;
}

const Row* find_row(const std::vector<Row>& rows, const std::string& id) {
  const auto it = std::find_if(rows.begin(), rows.end(), [&](const Row& r) { return r.id == id; });
  return it == rows.end() ? nullptr : &*it;
}

}  // namespace

Comparison compare_runs(Side first, Side second, const CompareOptions& options) {
  Comparison out;
  out.first = std::move(first);
  out.second = std::move(second);
  out.differences = differences_of(out.first, out.second);
  const Obstacles obstacles = obstacles_of(out, options);
  int unmeasured = 0;
  for (const Row& row : out.first.rows) {
    const Row* other = find_row(out.second.rows, row.id);
    if (other != nullptr && row.values.empty() && other->values.empty()) {
      ++unmeasured;
    } else if (other != nullptr) {
      out.rows.push_back(compared(row, *other, obstacles));
    } else {
      out.unmatched.push_back("'" + row.id + "' stands only in the first run's recipe");
    }
  }
  for (const Row& row : out.second.rows) {
    if (find_row(out.first.rows, row.id) == nullptr)
      out.unmatched.push_back("'" + row.id + "' stands only in the second run's recipe");
  }
  if (unmeasured > 0)
    out.unmatched.push_back(std::to_string(unmeasured) +
                            (unmeasured == 1 ? " row was" : " rows were") +
                            " measured in neither run");
  std::vector<Judgement*> judgements;
  for (Row& row : out.rows) {
    row.gate = row.gate || options.all_rows;
    judgements.push_back(&row.judgement);
  }
  correct_for_many_rows(judgements);
  out.exit = exit_of_rows(out.rows, false);
  return out;
}

}  // namespace reciperun
