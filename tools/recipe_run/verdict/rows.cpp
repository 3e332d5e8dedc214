#include "tools/recipe_run/verdict/rows.h"

#include <algorithm>

#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/verdict/hardware.h"
#include "tools/recipe_run/verdict/row_kinds.h"

namespace reciperun {
namespace {

// Why a timing cannot be judged although it was measured.
std::string unfit(const RowContext& c, const Measured& measured) {
  for (const BenchResult* bench : measured.benches) {
    if (worst(bench->noise) == NoiseLevel::kBlock) return "noise: " + noise_text(bench->noise);
  }
  const auto& trials = c.measurements.trials;
  const bool resumed =
      std::any_of(trials.begin(), trials.end(), [](const Trial& t) { return t.segments > 1; });
  if (kind_of(c.expect) == RowKind::kTime && !measured.projection && resumed)
    return "resumed: the time spans an interruption";
  return "";
}

Measured measure(const RowContext& c, Row& row) {
  if (is_timing(c.expect) && c.measurements.evidence == Evidence::kEmulated) {
    Measured out;
    out.missing = "timings say nothing where one device plays several";
    return out;
  }
  switch (kind_of(c.expect)) {
    case RowKind::kTrials:
      return measure_trials(c, row);
    case RowKind::kTime:
      return measure_time(c, row);
    case RowKind::kBench:
      return measure_bench(c, row);
    case RowKind::kScaling:
      return measure_scaling(c, row);
  }
  return {};
}

Judgement compare(const RowContext& c, const Measured& measured) {
  switch (kind_of(c.expect)) {
    case RowKind::kTrials:
      return compare_trials(c, measured);
    case RowKind::kTime:
      return compare_time(c, measured);
    case RowKind::kBench:
      return compare_bench(c, measured);
    case RowKind::kScaling:
      return compare_scaling(c, measured);
  }
  return {};
}

Judgement judge(const RowContext& c, const Row& row, const Measured& measured) {
  if (kind_of(c.expect) == RowKind::kTrials) {
    if (const auto diverged = judge_divergence(c)) return *diverged;
  }
  if (!measured.missing.empty())
    return judged(measured.attempted ? Verdict::kInvalid : Verdict::kNotRun, measured.missing);
  if (!c.published.value) return judged(Verdict::kNoPublishedValue, "measured only");
  for (const std::string& why : {c.measurements.not_comparable, measured.incomparable}) {
    if (!why.empty()) return judged(Verdict::kNotComparable, why);
  }
  if (is_timing(c.expect)) {
    if (std::string why = other_hardware(c.recipe, c.measurements.device); !why.empty())
      return judged(Verdict::kNotComparable, why);
    if (!row.unfit.empty()) return judged(Verdict::kInvalid, row.unfit);
  }
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
  if (c.published.value) {
    row.margin = margin_text(row.statistic, c.tolerance);
    const int n = c.published.summary.n;
    if (n > 0 && !e.has_ratio()) row.published_n = std::to_string(n);
    if (n == 0 && !is_timing(e)) row.published_n = "?";
  }
  if (e.bench().empty()) return;
  if (e.scope().batch() > 0) row.title += ", batch " + std::to_string(e.scope().batch());
  if (e.scope().devices() > 1) row.title += ", " + std::to_string(e.scope().devices()) + " devices";
}

// The columns that come from the test.
void add_judgement(const RowContext& c, Row& row) {
  const Judgement& j = row.judgement;
  if (!c.published.value || row.measured.empty() || j.verdict == Verdict::kNotRun) return;
  const int d = c.decimals();
  if (j.delta) {
    row.delta =
        j.interval_of_ratio ? signed_fixed(100 * *j.delta, 1) + " %" : signed_fixed(*j.delta, d);
  }
  if (!j.interval) return;
  const Interval& i = *j.interval;
  if (j.interval_of_ratio) {
    row.interval = fixed(i.lower, 3) + " … " + fixed(i.upper, 3) + " ×";
  } else if (c.expect.has_extreme()) {
    row.interval = fixed(i.lower, d) + " … " + fixed(i.upper, d);
  } else {
    row.interval = signed_fixed(i.lower, d) + " … " + signed_fixed(i.upper, d);
  }
}

Row build_row(const RowContext& c);

// A published cell that fails the lint is judged as printed, and as it should read.
void add_suspect(const RowContext& c, Row& row) {
  std::string text = "SUSPECT SOURCE: " + c.expect.suspect().why();
  const bool judged = row.judgement.verdict <= Verdict::kInconclusive;
  const double v = c.expect.suspect().corrected();
  if (judged && v != 0) {
    v1::Expect corrected = c.expect;
    corrected.clear_suspect();
    if (corrected.has_single()) corrected.mutable_single()->set_v(v);
    if (corrected.has_tail()) corrected.mutable_tail()->set_v(v);
    if (corrected.has_mean_std()) corrected.mutable_mean_std()->set_mean(v);
    if (corrected.has_ratio()) corrected.mutable_ratio()->set_v(v);
    const Row again = build_row({c.recipe, corrected, c.measurements});
    text += "; against the corrected " + fixed(v, c.published.decimals) + ": " +
            verdict_word(again.judgement.verdict);
  }
  row.note = text + (row.note.empty() ? "" : "; " + row.note);
}

Row build_row(const RowContext& c) {
  Row row;
  add_head(c, row);
  const Measured measured = measure(c, row);
  if (is_timing(c.expect)) row.unfit = unfit(c, measured);
  row.judgement = judge(c, row, measured);
  add_judgement(c, row);
  if (c.expect.has_suspect()) add_suspect(c, row);
  return row;
}

}  // namespace

// Twice the largest run-to-run variation that DLPerf's logs show.
constexpr double kTightMargin = 0.02;

RowContext::RowContext(const v1::Recipe& r, const v1::Expect& e, const Measurements& m)
    : recipe(r),
      expect(e),
      measurements(m),
      published(published_side(e)),
      tolerance(tolerance_of(r, e, published)),
      factor(unit_factor(e.unit())) {
  tolerance.level = m.level;
  const bool given = e.margin().absolute() > 0 || e.margin().relative() > 0;
  if (m.tight && e.metric() == "throughput" && !e.has_ratio() && !given)
    tolerance.margin = kTightMargin;
}

int RowContext::decimals() const {
  const bool fraction = expect.unit() == "1";
  return published.value ? std::max(published.decimals, fraction ? 4 : 2) : fraction ? 4 : 3;
}

std::vector<Row> make_rows(const v1::Recipe& recipe, const Measurements& measurements) {
  std::vector<Row> rows;
  for (const v1::Expect& expect : recipe.expect())
    rows.push_back(build_row({recipe, expect, measurements}));
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
