// Puts a row together: what was measured, the gates before a rule, the rule, what is said beside
// it.
#include "tools/recipe_run/judge/rows.h"

#include <fmt/core.h>

#include <algorithm>

#include "tools/recipe_run/judge/row_kinds.h"
#include "tools/recipe_run/stats/repeats.h"
#include "tools/recipe_run/util/text.h"

namespace reciperun {
namespace {

// Twice the largest run-to-run variation that DLPerf's logs show.
constexpr double kTightMargin = 0.02;

// Why a timing cannot be judged although it was measured.
std::string unfit(const Measured& measured) {
  for (const BenchResult* bench : measured.benches) {
    if (worst(bench->noise) == NoiseLevel::kBlock) return "noise: " + noise_text(bench->noise);
  }
  return measured.unfit;
}

// A row is held against its published value only where both mean the same.
std::string incomparable(const RowContext& c, const Measured& measured) {
  if (!c.measurements.not_comparable.empty()) return c.measurements.not_comparable;
  if (!measured.incomparable.empty()) return measured.incomparable;
  return is_timing(c.expect) ? other_hardware(c.recipe, c.measurements.device) : "";
}

Judgement compare(const RowContext& c, const Measured& m) {
  if (m.projection)
    return judge_projection(*c.published, m.projection->value, m.projection->interval, c.tolerance);
  switch (kind_of(c.expect)) {
    case RowKind::kTrials:
      return judge_runs(statistic_of(c.expect), published_runs(c.recipe, c.expect), m.values,
                        c.tolerance);
    case RowKind::kRatio:
      return judge_speedup(*c.published, m.values, m.denominator, c.tolerance);
    case RowKind::kTime:
    case RowKind::kBench:
      break;
  }
  return judge_ratio(*c.published, m.values, c.tolerance);
}

// Every gate that a row passes before it is compared, in this order. Plans ask it too, about a run
// that is only imagined (rehearsal.h).
Judgement judge(const RowContext& c, const Row& row, const Measured& measured) {
  if (kind_of(c.expect) == RowKind::kTrials) {
    if (const auto diverged = judge_divergence(c)) return *diverged;
  }
  if (!measured.missing.empty())
    return judged(measured.attempted ? Verdict::kInvalid : Verdict::kNotRun, measured.missing);
  if (!c.published) return judged(Verdict::kNoPublishedValue, "measured only");
  if (const std::string why = incomparable(c, measured); !why.empty())
    return judged(Verdict::kNotComparable, why);
  if (!row.unfit.empty()) return judged(Verdict::kInvalid, row.unfit);
  return compare(c, measured);
}

void add_head(const RowContext& c, Row& row) {
  const v1::Expect& e = c.expect;
  row.id = e.id();
  row.title = e.title().empty() ? e.id() : e.title();
  row.unit = e.unit();
  row.gate = e.gate();
  row.group = group_of(c.recipe, e);
  row.statistic = statistic_of(e);
  row.tolerance = c.tolerance;
  row.tolerance.decimals = c.decimals();
  row.evidence = c.measurements.evidence;
  row.published = published_text(e);
  if (c.published) {
    row.margin = margin_text(row.statistic, c.tolerance);
    const int n = published_runs(c.recipe, e).runs.n;
    if (n > 0) row.published_n = std::to_string(n);
    if (n == 0 && !is_timing(e)) row.published_n = "?";
  }
  if (e.bench().empty()) return;
  if (e.scope().batch() > 0) row.title += fmt::format(", batch {}", e.scope().batch());
  if (e.scope().devices() > 1) row.title += ", " + device_count(e.scope().devices());
}

void add_measured(const Measured& measured, Row& row) {
  row.measured = measured.text;
  row.measured_n = measured.count;
  row.interval = measured.own_interval;
  row.note = measured.note;
  row.values = measured.values;
  if (!measured.denominator.empty())
    row.values = {ratio_interval(measured.values, measured.denominator).ratio};
  if (measured.projection) {
    row.evidence = Evidence::kProjected;
    row.values.clear();
  }
}

// A published cell that fails the lint is judged as printed, and as it should read.
void add_suspect(const RowContext& c, Row& row) {
  std::string text = "SUSPECT SOURCE: " + c.expect.suspect().why();
  const double v = c.expect.suspect().corrected();
  if (is_compared(row.judgement.verdict) && v != 0) {
    v1::Expect corrected = c.expect;
    corrected.clear_suspect();
    if (corrected.has_single()) corrected.mutable_single()->set_v(v);
    if (corrected.has_tail()) corrected.mutable_tail()->set_v(v);
    if (corrected.has_mean_std()) corrected.mutable_mean_std()->set_mean(v);
    if (corrected.has_ratio()) corrected.mutable_ratio()->set_v(v);
    const Row again = make_row(c.recipe, corrected, c.measurements);
    text += fmt::format("; against the corrected {}: {}", fixed(v, published_decimals(c.expect)),
                        verdict_word(again.judgement.verdict));
  }
  row.note = joined_notes(text, row.note);
}

// A result that the source prints twice, say alone and as the mean of a list of seeds, is one.
bool same_number(const v1::Recipe& recipe, const v1::Expect& a, const v1::Expect& b) {
  return has_published_value(a) && kind_of(a) == RowKind::kTrials && a.metric() == b.metric() &&
         kind_of(b) == RowKind::kTrials && a.unit() == b.unit() &&
         statistic_of(a) == Statistic::kMean && statistic_of(b) == Statistic::kMean &&
         devices_of(recipe, a) == devices_of(recipe, b) && published_value(a) == published_value(b);
}

// Of two such rows the one that is printed with its runs' spread counts, else the first.
void mark_repetitions(const v1::Recipe& recipe, std::vector<Row>& rows) {
  for (size_t i = 0; i < rows.size(); ++i) {
    const v1::Expect& later = recipe.expect(static_cast<int>(i));
    const bool spread = published_runs(recipe, later).has_spread();
    for (size_t k = 0; k < i; ++k) {
      if (!same_number(recipe, recipe.expect(static_cast<int>(k)), later)) continue;
      Row& repetition = rows[spread ? k : i];
      repetition.same_as = rows[spread ? i : k].id;
      repetition.note = joined_notes("the same published number as '" + repetition.same_as + "'",
                                     repetition.note);
      break;
    }
  }
}

}  // namespace

RowContext::RowContext(const v1::Recipe& r, const v1::Expect& e, const Measurements& m)
    : recipe(r),
      expect(e),
      measurements(m),
      published(published_value(e)),
      tolerance(tolerance_of(r, e)),
      factor(unit_factor(e.unit())) {
  if (!is_timing(e)) tolerance.level = m.level;
  const bool pinned = e.margin().absolute() > 0 || e.margin().relative() > 0;
  if (m.tight && kind_of(e) == RowKind::kBench && e.metric() == "throughput" && !pinned)
    tolerance.margin = kTightMargin;
}

int RowContext::decimals() const {
  const int least = expect.unit() == "1" ? 4 : published ? 2 : 3;
  return published ? std::max(published_decimals(expect), least) : least;
}

std::string joined_notes(const std::string& a, const std::string& b) {
  return a + (a.empty() || b.empty() ? "" : "; ") + b;
}

Measured measure(const RowContext& c) {
  if (is_timing(c.expect) && c.measurements.evidence == Evidence::kEmulated) {
    Measured out;
    out.missing = "timings say nothing where one device plays several";
    return out;
  }
  switch (kind_of(c.expect)) {
    case RowKind::kTrials:
      return measure_trials(c);
    case RowKind::kTime:
      return measure_time(c);
    case RowKind::kBench:
      return measure_bench(c);
    case RowKind::kRatio:
      break;
  }
  return measure_ratio(c);
}

void add_difference(Row& row) {
  const Judgement& j = row.judgement;
  const int d = row.tolerance.decimals;
  if (j.delta) {
    row.delta =
        j.interval_of_ratio ? signed_fixed(100 * *j.delta, 1) + " %" : signed_fixed(*j.delta, d);
  }
  if (!j.interval) return;
  const bool extreme =
      row.statistic == Statistic::kLargest || row.statistic == Statistic::kSmallest;
  const auto text = [&](double x) { return extreme ? fixed(x, d) : signed_fixed(x, d); };
  row.interval =
      j.interval_of_ratio
          ? fmt::format("{} … {} ×", fixed(j.interval->lower, 3), fixed(j.interval->upper, 3))
          : fmt::format("{} … {}", text(j.interval->lower), text(j.interval->upper));
}

Row make_row(const v1::Recipe& recipe, const v1::Expect& expect, const Measurements& measurements) {
  const RowContext c(recipe, expect, measurements);
  Row row;
  add_head(c, row);
  const Measured measured = measure(c);
  add_measured(measured, row);
  row.unfit = unfit(measured);
  row.judgement = judge(c, row, measured);
  if (is_compared(row.judgement.verdict)) add_difference(row);
  if (expect.has_suspect()) add_suspect(c, row);
  return row;
}

std::vector<Row> make_rows(const v1::Recipe& recipe, const Measurements& measurements) {
  std::vector<Row> rows;
  for (const v1::Expect& expect : recipe.expect())
    rows.push_back(make_row(recipe, expect, measurements));
  mark_repetitions(recipe, rows);
  std::vector<Judgement*> judgements;
  for (Row& row : rows) judgements.push_back(&row.judgement);
  correct_for_many_rows(judgements);
  return rows;
}

Exit exit_of_rows(const std::vector<Row>& rows, bool require) {
  Exit worst_exit = Exit::kOk;
  for (const Row& row : rows) {
    if (row.gate) worst_exit = more_urgent(worst_exit, exit_of(row.judgement.verdict, require));
  }
  return worst_exit;
}

}  // namespace reciperun
