#include "tools/recipe_run/verdict/rows.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/statistics/quantiles.h"
#include "tools/recipe_run/statistics/repeats.h"
#include "tools/recipe_run/verdict/published.h"
#include "tools/recipe_run/verdict/rules.h"

namespace reciperun {
namespace {

bool is_timing(const v1::Expect& expect) {
  return !expect.bench().empty() || expect.metric() == "time_to_train" || expect.has_ratio();
}

Tolerance tolerance_of(const v1::Expect& expect, int decimals) {
  Tolerance t;
  t.higher_is_better = expect.direction() == v1::Expect::HIGHER;
  t.lower_is_better = expect.direction() == v1::Expect::LOWER;
  t.one_sided = expect.margin().one_sided();
  t.decimals = decimals;
  const bool given = expect.margin().absolute() > 0 || expect.margin().relative() > 0;
  t.margin =
      given ? expect.margin().absolute() + expect.margin().relative() : default_margin(expect);
  if (!given && is_timing(expect)) t.one_sided = true;
  const Published published = published_side(expect);
  if (!is_timing(expect) && expect.margin().relative() > 0)
    t.margin = expect.margin().relative() * std::abs(published.value.value_or(0));
  return t;
}

std::string margin_text(const v1::Expect& expect, const Tolerance& t) {
  if (expect.has_extreme() || expect.has_spread()) return "";
  const std::string sign = !t.one_sided ? "±" : t.lower_is_better ? "+" : "\u2212";
  return is_timing(expect) ? sign + shortest(std::round(1000 * t.margin) / 10) + " %"
                           : sign + fixed(t.margin, std::max(t.decimals, 2));
}

// Values of one trial metric in the row's unit; failed trials and missing metrics are left out.
std::vector<double> trial_values(const Measurements& m, const std::string& metric, double factor) {
  std::vector<double> values;
  for (const Trial& trial : m.trials) {
    if (!trial.failure.empty()) continue;
    if (metric == "time_to_train") {
      values.push_back(trial.train_seconds * factor);
    } else if (const auto it = trial.metrics.find(metric); it != trial.metrics.end()) {
      values.push_back(it->second * factor);
    }
  }
  return values;
}

const BenchResult* find_bench(const v1::Expect& expect, const Measurements& m) {
  for (const BenchResult& b : m.benches) {
    const bool same_batch = expect.scope().batch() == 0 || expect.scope().batch() == b.batch;
    const bool same_devices =
        expect.scope().devices() == 0 || expect.scope().devices() == b.devices;
    if (b.bench == expect.bench() && same_batch && same_devices) return &b;
  }
  return nullptr;
}

const v1::Bench* bench_recipe(const v1::Recipe& recipe, const std::string& id) {
  for (const v1::Bench& b : recipe.bench()) {
    if (b.id() == id) return &b;
  }
  return nullptr;
}

double mean_seconds(const BenchRepeat& r) {
  return std::accumulate(r.step_seconds.begin(), r.step_seconds.end(), 0.0) /
         static_cast<double>(r.step_seconds.size());
}

v1::Quantile quantile_of(const v1::Expect& expect) {
  return expect.has_tail() ? expect.tail().q() : expect.quantile();
}

// One value per repeat in the row's unit; empty with `why` set if the samples do not carry the
// estimate.
std::vector<double> bench_values(const v1::Recipe& recipe, const v1::Expect& expect,
                                 const BenchResult& bench, double factor, std::string& why) {
  std::vector<double> values;
  const v1::Bench* definition = bench_recipe(recipe, bench.bench);
  const QuantileOptions options{
      definition == nullptr ? 0 : static_cast<int>(definition->drop_slowest()), 2};
  for (const BenchRepeat& repeat : bench.repeats) {
    if (expect.metric() == "throughput") {
      values.push_back(repeat.items_per_second * factor);
    } else if (repeat.step_seconds.empty()) {
      why = "no step times recorded";
    } else if (expect.metric() == "latency_mean") {
      values.push_back(mean_seconds(repeat) * factor);
    } else if (const auto q =
                   estimate_quantile(repeat.step_seconds, quantile_of(expect), options)) {
      const v1::Quantile quantile = quantile_of(expect);
      const auto n = static_cast<int>(repeat.step_seconds.size());
      const bool rank_based = quantile.def() != v1::Quantile::MEAN_OF_LOWEST &&
                              quantile.def() != v1::Quantile::MEAN_UPPER_CI;
      if (rank_based && n < minimum_samples(quantile.p())) {
        why = "n too small: " + std::to_string(n) + " steps, " +
              std::to_string(minimum_samples(quantile.p())) + " needed";
        return {};
      }
      values.push_back(*q * factor);
    } else {
      why = "n too small: " + std::to_string(repeat.step_seconds.size()) + " steps";
      return {};
    }
  }
  return values;
}

// Builds one row; holds what all its parts need.
class RowBuilder {
 public:
  RowBuilder(const v1::Recipe& recipe, const v1::Expect& expect, const Measurements& m)
      : recipe_(recipe),
        expect_(expect),
        m_(m),
        published_(published_side(expect)),
        tolerance_(tolerance_of(expect, published_.decimals)),
        factor_(unit_factor(expect.unit())) {}

  Row build() {
    row_.id = expect_.id();
    row_.title = expect_.title().empty() ? expect_.id() : expect_.title();
    row_.unit = expect_.unit();
    row_.gate = expect_.gate();
    row_.evidence = m_.evidence;
    row_.published = published_text(expect_);
    if (published_.value) row_.margin = margin_text(expect_, tolerance_);
    if (published_.value)
      row_.published_n = published_.summary.n > 0 ? std::to_string(published_.summary.n) : "?";
    if (expect_.has_ratio() ||
        (published_.value && is_timing(expect_) && published_.summary.n == 0))
      row_.published_n.clear();
    add_scope();
    row_.group = group();
    measure();
    judge();
    if (expect_.has_suspect()) add_suspect();
    return std::move(row_);
  }

 private:
  std::string group() const {
    if (expect_.metric() == "time_to_train") return "time to train";
    if (expect_.has_ratio()) return "scaling";
    if (expect_.bench().empty())
      return split_metric(expect_.metric()).statistic.empty() ? "accuracy"
                                                              : "stability across seeds";
    const v1::Bench* bench = bench_recipe(recipe_, expect_.bench());
    const bool train = bench != nullptr && bench->mode() == v1::Bench::TRAIN;
    if (expect_.metric() == "throughput")
      return train ? "training throughput" : "inference throughput";
    return "latency";
  }

  void add_scope() {
    if (expect_.bench().empty()) return;
    if (expect_.scope().batch() > 0)
      row_.title += ", batch " + std::to_string(expect_.scope().batch());
    if (expect_.scope().devices() > 1)
      row_.title += ", " + std::to_string(expect_.scope().devices()) + " devices";
  }

  void measure() {
    if (expect_.has_ratio()) {
      measure_ratio();
    } else if (expect_.bench().empty()) {
      measure_trials();
    } else {
      measure_bench();
    }
  }

  void measure_trials() {
    const MetricName name = split_metric(expect_.metric());
    row_.values = trial_values(m_, name.base, factor_);
    const auto failed = std::count_if(m_.trials.begin(), m_.trials.end(),
                                      [](const Trial& t) { return !t.failure.empty(); });
    if (failed > 0)
      row_.note =
          std::to_string(failed) + " of " + std::to_string(m_.trials.size()) + " trials failed";
    if (row_.values.empty()) {
      why_ = m_.trials.empty() ? "no trial finished" : "no trial measured '" + name.base + "'";
      return;
    }
    const Summary s = summarise(row_.values);
    row_.measured_n = std::to_string(s.n);
    const int digits = measured_decimals();
    if (name.statistic == "sd" || expect_.has_spread()) {
      row_.measured = s.n >= 2 ? fixed(s.sd, digits + 1) : "—";
      if (s.n < 2) why_ = "one trial has no spread";
    } else if (name.statistic == "min" || name.statistic == "max" || expect_.has_extreme()) {
      const bool max = name.statistic == "max" ||
                       (expect_.has_extreme() && expect_.extreme().which() == v1::Extreme::MAX);
      row_.measured = fixed(max ? *std::max_element(row_.values.begin(), row_.values.end())
                                : *std::min_element(row_.values.begin(), row_.values.end()),
                            digits);
    } else {
      row_.measured = expect_.metric() == "time_to_train" ? significant(median(row_.values), 3)
                                                          : fixed(s.mean, digits);
      if (s.n >= 2 && expect_.metric() != "time_to_train")
        row_.measured += " ± " + fixed(s.sd, digits);
    }
  }

  int measured_decimals() const {
    const bool fraction = expect_.unit() == "1";
    return published_.value ? std::max(published_.decimals, fraction ? 4 : 2) : fraction ? 4 : 3;
  }

  void measure_bench() {
    bench_ = find_bench(expect_, m_);
    if (bench_ == nullptr || (bench_->repeats.empty() && bench_->failure.empty())) {
      why_ = "bench '" + expect_.bench() + "' was not run";
      return;
    }
    if (!bench_->failure.empty()) {
      why_ = "bench failed: " + bench_->failure;
      return;
    }
    row_.values = bench_values(recipe_, expect_, *bench_, factor_, why_);
    if (row_.values.empty()) return;
    const MedianInterval median_of = median_interval(row_.values);
    row_.measured = significant(median_of.median);
    row_.measured_n = std::to_string(row_.values.size());
    if (row_.values.size() >= 2) {
      row_.interval =
          significant(median_of.interval.lower) + " … " + significant(median_of.interval.upper);
    }
    const std::string noise = noise_text(bench_->noise);
    // Said once per configuration, at its throughput; a noise that blocks is the reason of every
    // row's verdict.
    if (!noise.empty() && expect_.metric() == "throughput") row_.note = "noisy: " + noise;
    add_true_percentile();
  }

  // Beside a published estimator that is no percentile stands the true one.
  void add_true_percentile() {
    if (!expect_.has_tail() || expect_.tail().q().def() == v1::Quantile::NEAREST_RANK) return;
    std::vector<double> all;
    for (const BenchRepeat& r : bench_->repeats)
      all.insert(all.end(), r.step_seconds.begin(), r.step_seconds.end());
    v1::Quantile q = expect_.tail().q();
    const std::string estimator = quantile_title(q);
    q.set_def(v1::Quantile::NEAREST_RANK);
    const auto value = estimate_quantile(all, q);
    if (!value) return;
    row_.note +=
        (row_.note.empty() ? "" : "; ") + ("judged by " + estimator + "; true " +
                                           quantile_title(q) + " " + significant(*value * factor_));
    if (const auto interval = quantile_interval(all, q.p())) {
      row_.note += " (" + significant(interval->interval.lower * factor_) + " … " +
                   significant(interval->interval.upper * factor_) + ")";
    }
  }

  void measure_ratio() {
    const v1::Expect* num = find_expectation(recipe_, expect_.ratio().num());
    const v1::Expect* den = find_expectation(recipe_, expect_.ratio().den());
    const auto values = [&](const v1::Expect* e) {
      const BenchResult* b = e == nullptr ? nullptr : find_bench(*e, m_);
      return b == nullptr ? std::vector<double>{} : bench_values(recipe_, *e, *b, 1, why_);
    };
    numerator_ = values(num);
    denominator_ = values(den);
    if (numerator_.empty() || denominator_.empty()) {
      why_ = "needs both '" + expect_.ratio().num() + "' and '" + expect_.ratio().den() + "'";
      return;
    }
    const RatioInterval r = ratio_interval(numerator_, denominator_);
    row_.measured = fixed(r.ratio, std::max(2, published_.decimals));
    row_.measured_n = std::to_string(std::min(numerator_.size(), denominator_.size()));
    row_.values = {r.ratio};
  }

  void judge() {
    row_.judgement = judgement();
    const Judgement& j = row_.judgement;
    if (!published_.value || row_.measured.empty() || j.verdict == Verdict::kNotRun) return;
    if (j.delta) {
      row_.delta = j.interval_of_ratio ? signed_fixed(100 * *j.delta, 1) + " %"
                                       : signed_fixed(*j.delta, measured_decimals());
    }
    if (j.interval && !j.interval_of_ratio) {
      const int d = measured_decimals();
      row_.interval =
          signed_fixed(j.interval->lower, d) + " … " + signed_fixed(j.interval->upper, d);
      if (expect_.has_extreme())
        row_.interval = fixed(j.interval->lower, d) + " … " + fixed(j.interval->upper, d);
    } else if (j.interval) {
      row_.interval = fixed(j.interval->lower, 3) + " … " + fixed(j.interval->upper, 3) + " ×";
    }
  }

  static Judgement word(Verdict verdict, std::string reason) {
    Judgement out;
    out.verdict = verdict;
    out.reason = std::move(reason);
    return out;
  }

  // What trials that diverged owe to a row over trials: one of five or more may be left out of the
  // mean, more are a result of their own.
  std::optional<Judgement> unstable() const {
    constexpr size_t kEnoughToDropOne = 5;
    const bool over_trials = expect_.bench().empty() && !expect_.has_ratio();
    if (!over_trials || !published_.value || !m_.not_comparable.empty()) return std::nullopt;
    const auto failed = std::count_if(m_.trials.begin(), m_.trials.end(),
                                      [](const Trial& t) { return !t.failure.empty(); });
    const std::string count =
        std::to_string(failed) + " of " + std::to_string(m_.trials.size()) + " trials diverged";
    if (failed >= 2) return word(Verdict::kDiffersWorse, "unstable: " + count);
    if (failed == 1 && m_.trials.size() < kEnoughToDropOne)
      return word(Verdict::kInconclusive, count + ", too many to leave out; run more seeds");
    return std::nullopt;
  }

  Judgement judgement() const {
    if (const auto diverged = unstable()) return *diverged;
    if (row_.measured.empty() || row_.measured == "—") {
      const bool failed =
          bench_ != nullptr && (!bench_->failure.empty() || !bench_->repeats.empty());
      return word(failed ? Verdict::kInvalid : Verdict::kNotRun, why_);
    }
    if (!published_.value) return word(Verdict::kNoPublishedValue, "measured only");
    if (!m_.not_comparable.empty()) return word(Verdict::kNotComparable, m_.not_comparable);
    if (is_timing(expect_)) {
      if (std::string why = other_hardware(); !why.empty())
        return word(Verdict::kNotComparable, why);
      if (std::string why = unfit(); !why.empty()) return word(Verdict::kInvalid, why);
    }
    return compare();
  }

  std::string other_hardware() const {
    const v1::Platform& platform = recipe_.platform();
    if (platform.device().empty()) return "the source does not say what it ran on";
    if (m_.device == platform.device()) return "";
    for (const std::string& device : platform.same_class()) {
      if (m_.device.find(device) != std::string::npos) return "";
    }
    return m_.device + " is not " + platform.device();
  }

  // Why a timing cannot be judged although it was measured.
  std::string unfit() const {
    if (bench_ != nullptr && worst(bench_->noise) == NoiseLevel::kBlock)
      return "noise: " + noise_text(bench_->noise);
    const bool resumed = std::any_of(m_.trials.begin(), m_.trials.end(),
                                     [](const Trial& t) { return t.segments > 1; });
    if (expect_.metric() == "time_to_train" && resumed)
      return "resumed: the time spans an interruption";
    return "";
  }

  Judgement compare() const {
    if (expect_.has_ratio())
      return judge_speedup(*published_.value, numerator_, denominator_, tolerance_);
    if (is_timing(expect_)) return judge_ratio(*published_.value, row_.values, tolerance_);
    if (expect_.has_extreme()) {
      const Published lender = published_side(*find_expectation(recipe_, expect_.extreme().of()));
      return judge_extreme(lender.summary, row_.values,
                           expect_.extreme().which() == v1::Extreme::MAX, tolerance_);
    }
    const Summary ours = summarise(row_.values);
    if (expect_.has_spread()) return judge_spread(published_.summary, ours);
    if (published_.has_spread) {
      return ours.n >= 2 ? judge_means(published_.summary, ours, tolerance_)
                         : judge_single_run(published_.summary, ours.mean, tolerance_);
    }
    if (!expect_.spread_from().empty()) {
      Summary published = published_.summary;
      published.n = std::max(1, published.n);
      const Published lender = published_side(*find_expectation(recipe_, expect_.spread_from()));
      return judge_borrowed(published, lender.summary, ours, tolerance_);
    }
    if (published_.summary.n >= 2 && ours.n >= 2) {
      return judge_known_n(published_.summary, ours, tolerance_);
    }
    return judge_margin_only(*published_.value, ours, tolerance_);
  }

  void add_suspect() {
    std::string text = "SUSPECT SOURCE: " + expect_.suspect().why();
    const bool judged = row_.judgement.verdict <= Verdict::kInconclusive;
    if (judged && expect_.suspect().corrected() != 0 && !expect_.has_ratio()) {
      v1::Expect corrected = expect_;
      corrected.clear_suspect();
      const double v = expect_.suspect().corrected();
      if (corrected.has_single()) corrected.mutable_single()->set_v(v);
      if (corrected.has_tail()) corrected.mutable_tail()->set_v(v);
      if (corrected.has_mean_std()) corrected.mutable_mean_std()->set_mean(v);
      const Row again = RowBuilder(recipe_, corrected, m_).build();
      text += "; against the corrected " + fixed(v, published_.decimals) + ": " +
              verdict_word(again.judgement.verdict);
    }
    row_.note = text + (row_.note.empty() ? "" : "; " + row_.note);
  }

  const v1::Recipe& recipe_;
  const v1::Expect& expect_;
  const Measurements& m_;
  Published published_;
  Tolerance tolerance_;
  double factor_;
  Row row_;
  const BenchResult* bench_ = nullptr;
  std::vector<double> numerator_;
  std::vector<double> denominator_;
  std::string why_ = "not measured";
};

}  // namespace

double unit_factor(const std::string& unit) {
  static const std::vector<std::pair<std::string, double>> kFactors = {
      {"1", 1},          {"%", 100},   {"x", 1},     {"nats", 1},
      {"s", 1},          {"ms", 1000}, {"us", 1e6},  {"min", 1.0 / 60},
      {"h", 1.0 / 3600}, {"img/s", 1}, {"seq/s", 1}, {"items/s", 1}};
  for (const auto& [name, factor] : kFactors) {
    if (name == unit) return factor;
  }
  std::vector<std::string> names;
  for (const auto& entry : kFactors) names.push_back(entry.first);
  throw Error(Exit::kUsage, "unit '" + unit + "' is unknown", "one of: " + join(names, ", "));
}

MetricName split_metric(const std::string& metric) {
  const size_t colon = metric.find(':');
  return {metric.substr(0, colon), colon == std::string::npos ? "" : metric.substr(colon + 1)};
}

double default_margin(const v1::Expect& expect) {
  if (expect.has_ratio()) return 0.03;
  if (expect.metric() == "throughput") return 0.05;
  if (expect.metric() == "time_to_train") return 0.10;
  if (expect.metric() == "latency") return quantile_of(expect).p() >= 0.99 ? 0.15 : 0.10;
  if (!expect.bench().empty()) return 0.10;
  if (expect.unit() == "%") return 0.30;
  return expect.metric().find("loss") != std::string::npos ? 0.03
         : expect.metric() == "dice"                       ? 0.005
                                                           : 0.003;
}

std::vector<Row> make_rows(const v1::Recipe& recipe, const Measurements& measurements) {
  std::vector<Row> rows;
  for (const v1::Expect& expect : recipe.expect())
    rows.push_back(RowBuilder(recipe, expect, measurements).build());
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
