// Latency tables: do rate and latency fit together, and what are the columns called percentiles?
#include <algorithm>
#include <cmath>

#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/lint/lint.h"
#include "tools/recipe_run/statistics/distributions.h"

namespace reciperun::lint {
namespace {

// One row of a latency table; what it does not print is nullptr.
struct LatencyRow {
  const Printed* rate = nullptr;
  const Printed* mean = nullptr;
  std::map<int, const Printed*> percentile;  // by per cent

  double batch() const { return mean->expect->scope().batch(); }
  // Without a mean or a rate there is nothing to check.
  bool whole() const { return rate != nullptr && mean != nullptr; }
  bool has(std::initializer_list<int> percents) const {
    return std::all_of(percents.begin(), percents.end(),
                       [&](int p) { return percentile.count(p) == 1; });
  }
  double p(int percent) const { return percentile.at(percent)->value; }
};

struct LatencyTable {
  std::string file, name;
  std::vector<LatencyRow> rows;  // by batch

  void report(const char* check, const std::vector<uint32_t>& batches, const std::string& text,
              Findings& out) const {
    std::vector<std::string> names;
    names.reserve(batches.size());
    for (const uint32_t batch : batches) names.push_back(std::to_string(batch));
    out.push_back({check, file, name, "batch " + join(names, ", "), text});
  }
};

std::vector<LatencyTable> latency_tables(const Corpus& corpus) {
  std::vector<LatencyTable> tables;
  for (const auto& [name, numbers] : by_table(corpus)) {
    std::map<uint32_t, LatencyRow> rows;
    for (const Printed* number : numbers) {
      const v1::Expect& e = *number->expect;
      LatencyRow& row = rows[e.scope().batch()];
      if (e.has_ratio()) continue;
      if (e.metric() == "throughput") row.rate = number;
      if (e.metric() == "latency_mean") row.mean = number;
      if (e.has_tail())
        row.percentile[static_cast<int>(std::lround(100 * e.tail().q().p()))] = number;
    }
    LatencyTable table{name.first, name.second, {}};
    for (const auto& [batch, row] : rows) {
      if (row.whole()) table.rows.push_back(row);
    }
    if (!table.rows.empty()) tables.push_back(std::move(table));
  }
  return tables;
}

// The batches whose row satisfies `wrong`.
template <typename Predicate>
std::vector<uint32_t> batches_where(const LatencyTable& table, Predicate wrong) {
  std::vector<uint32_t> batches;
  for (const LatencyRow& row : table.rows) {
    if (wrong(row)) batches.push_back(row.mean->expect->scope().batch());
  }
  return batches;
}

// Rate times latency is the batch size, whatever is averaged how, if the steps are alike.
constexpr double kIdentityTolerance = 0.01;

bool breaks_identity(const LatencyRow& row) {
  const Interval rate = printed_interval(*row.rate);
  const Interval mean = printed_interval(*row.mean);
  const double low = rate.lower * mean.lower / 1000;
  const double high = rate.upper * mean.upper / 1000;
  return row.batch() < low * (1 - kIdentityTolerance) ||
         row.batch() > high * (1 + kIdentityTolerance);
}

struct OddStep {
  double steady = 0;  // milliseconds
  double odd = 0;
  double standard_error = 0;  // of the mean, from both
};

// The steady step, and one odd one among n, that give the printed mean of rates and mean latency:
// ((n-1) B/x + B/y)/n and ((n-1) x + y)/n, solved by bisection in x.
OddStep odd_step(const LatencyRow& row, double n) {
  const double latency = row.mean->value;
  double low = latency / 2;
  double high = latency;
  OddStep out;
  for (int i = 0; i < 100; ++i) {
    out.steady = (low + high) / 2;
    out.odd = n * latency - (n - 1) * out.steady;
    const double rate = ((n - 1) * row.batch() / out.steady + row.batch() / out.odd) / n * 1000;
    (rate > row.rate->value ? low : high) = out.steady;
  }
  const double deviation = (out.odd - out.steady) * std::sqrt(n - 1) / n;
  out.standard_error = deviation / std::sqrt(n);
  return out;
}

std::string identity_text(const LatencyTable& table) {
  const auto row = std::find_if(table.rows.begin(), table.rows.end(), breaks_identity);
  const double product = row->rate->value * row->mean->value / 1000;
  std::string text = "throughput times latency is " + significant(product) + " at batch " +
                     std::to_string(row->mean->expect->scope().batch());
  const bool has_tail = row->has({90, 99});
  const uint32_t n = has_tail ? row->percentile.at(99)->expect->tail().n() : 0;
  if (n == 0 || product < row->batch()) return text + ": they average over different steps";
  const OddStep step = odd_step(*row, n);
  return text + "; one odd step of " + significant(step.odd, 3) + " ms among " + std::to_string(n) +
         " explains both, with " + significant(step.steady) +
         " ms for the others and a standard error of " + significant(step.standard_error, 3) +
         " ms (the 99 % column says " +
         significant((row->p(99) - row->mean->value) / normal_quantile(0.995), 3) + ")";
}

// Whether the columns are mean + z s/sqrt(n): their distances from the mean are as 1.645 to 1.960
// to 2.576.
bool is_interval_of_mean(const LatencyRow& row) {
  const double z90 = normal_quantile(0.95);
  const double unit = (row.p(90) - row.mean->value) / z90;
  const double step = row.mean->step;
  const auto fits = [&](int percent) {
    const double z = normal_quantile(0.5 + percent / 200.0);
    return std::abs(row.p(percent) - row.mean->value - z * unit) <= step * (1 + z / z90);
  };
  return unit > 0 && fits(95) && fits(99);
}

void check_estimator(const LatencyTable& table, Findings& out) {
  const auto all = [&](auto predicate) {
    return std::all_of(table.rows.begin(), table.rows.end(), predicate);
  };
  if (!all([](const LatencyRow& row) { return row.has({90, 95, 99}); })) return;
  if (all(is_interval_of_mean)) {
    out.push_back({"estimator", table.file, table.name, "90 %, 95 %, 99 %",
                   "no percentiles: mean + (1.645, 1.960, 2.576) standard errors in every row"});
  } else if (all([](const LatencyRow& row) { return row.p(90) < row.mean->value; })) {
    out.push_back({"estimator", table.file, table.name, "90 %, 95 %, 99 %",
                   "no percentiles: 90 % is below the average in every row, so they are means of "
                   "the fastest"});
  }
}

// Two percentiles that are one number although the latencies scatter.
bool has_equal_percentiles(const LatencyRow& row) {
  if (!row.has({90, 95, 99})) return false;
  const bool equal = row.p(90) == row.p(95) || row.p(95) == row.p(99);
  return equal && row.p(99) - row.p(90) > 10 * row.percentile.at(99)->step;
}

bool is_out_of_order(const LatencyRow& row) {
  double last = 0;
  for (const auto& [percent, number] : row.percentile) {
    if (number->value < last) return true;
    last = number->value;
  }
  return false;
}

constexpr double kLongTail = 3;  // p99 over p50 of a machine that does little else

bool has_long_tail(const LatencyRow& row) {
  return row.has({50, 99}) && row.p(99) > kLongTail * row.p(50);
}

}  // namespace

void check_latencies(const Corpus& corpus, Findings& out) {
  for (const LatencyTable& table : latency_tables(corpus)) {
    if (const auto odd = batches_where(table, breaks_identity); !odd.empty())
      table.report("identity", odd, identity_text(table), out);
    check_estimator(table, out);
    if (const auto equal = batches_where(table, has_equal_percentiles); !equal.empty())
      table.report("equal", equal, "two percentiles are one number although latencies scatter",
                   out);
    if (const auto wrong = batches_where(table, is_out_of_order); !wrong.empty())
      table.report("equal", wrong, "a higher percentile is below a lower one", out);
    if (const auto noisy = batches_where(table, has_long_tail); !noisy.empty())
      table.report("tail", noisy, "99 % is more than three times the median: a noisy machine", out);
  }
}

}  // namespace reciperun::lint
