// Reports as JSON (report.proto), written and read.
#include "tools/recipe_run/util/json.h"
#include "tools/recipe_run/report/report.h"
#include "tools/recipe_run/util/error.h"

namespace reciperun {
namespace {

constexpr uint32_t kReportSchema = 2;

json::Trial json_trial(const Trial& trial) {
  json::Trial out;
  out.set_name(trial.name);
  out.set_seed(trial.seed);
  out.set_failure(trial.failure);
  out.set_train_seconds(trial.train_seconds);
  out.set_segments(static_cast<uint32_t>(trial.segments));
  out.mutable_metric()->insert(trial.metrics.begin(), trial.metrics.end());
  out.mutable_shard()->Add(trial.shards.begin(), trial.shards.end());
  if (trial.communication) *out.mutable_communication() = *trial.communication;
  return out;
}

json::Bench json_bench(const BenchResult& bench) {
  json::Bench out;
  out.set_bench(bench.bench);
  out.set_devices(bench.devices);
  out.set_batch(bench.batch);
  out.set_failure(bench.failure);
  for (const BenchRepeat& repeat : bench.repeats) {
    out.add_items_per_second(repeat.items_per_second);
    out.add_steps(static_cast<uint32_t>(repeat.step_seconds.size()));
    if (repeat.load_rate > 0) out.add_load_items_per_second(repeat.load_rate);
    if (repeat.compute_rate > 0) out.add_compute_items_per_second(repeat.compute_rate);
  }
  for (const NoiseCheck& check : bench.noise) {
    json::NoiseCheck& added = *out.add_noise();
    added.set_check(check.name);
    added.set_value(check.value);
    added.set_warn(check.warn);
    added.set_block(check.block);
  }
  return out;
}

// Numbered as Statistic, behind UNSET.
json::Tolerance::Statistic json_statistic(Statistic statistic) {
  return static_cast<json::Tolerance::Statistic>(static_cast<int>(statistic) + 1);
}
static_assert(static_cast<int>(Statistic::kMean) + 1 == json::Tolerance::MEAN &&
              static_cast<int>(Statistic::kSpread) + 1 == json::Tolerance::SPREAD &&
              static_cast<int>(Statistic::kLargest) + 1 == json::Tolerance::LARGEST &&
              static_cast<int>(Statistic::kSmallest) + 1 == json::Tolerance::SMALLEST &&
              static_cast<int>(Statistic::kRatio) + 1 == json::Tolerance::RATIO);

}  // namespace

json::Row json_row(const Row& row) {
  json::Row out;
  out.set_id(row.id);
  out.set_group(row.group);
  out.set_title(row.title);
  out.set_unit(row.unit);
  out.set_published(row.published);
  out.set_published_n(row.published_n);
  out.set_measured(row.measured);
  out.set_measured_n(row.measured_n);
  out.mutable_value()->Add(row.values.begin(), row.values.end());
  out.set_verdict(verdict_word(row.judgement.verdict));
  out.set_reason(row.judgement.reason);
  out.set_evidence(evidence_word(row.evidence));
  out.set_gate(row.gate);
  out.set_note(row.note);
  out.set_margin(row.margin);
  out.set_unfit(row.unfit);
  json::Tolerance& tolerance = *out.mutable_tolerance();
  tolerance.set_statistic(json_statistic(row.statistic));
  tolerance.set_margin(row.tolerance.margin);
  tolerance.set_higher_is_better(row.tolerance.higher_is_better);
  tolerance.set_lower_is_better(row.tolerance.lower_is_better);
  tolerance.set_one_sided(row.tolerance.one_sided);
  tolerance.set_decimals(row.tolerance.decimals);
  if (row.judgement.interval) {
    json::Interval& interval = *out.mutable_interval();
    interval.set_lower(row.judgement.interval->lower);
    interval.set_upper(row.judgement.interval->upper);
    interval.set_of(row.judgement.interval_of_ratio ? "ratio" : "difference");
  }
  for (const auto& [name, value] : row.judgement.inputs) (*out.mutable_test())[name] = value;
  return out;
}

Row row_of_json(const json::Row& json) {
  require(!json.id().empty() && json.tolerance().statistic() != json::Tolerance::UNSET,
          "a row without its id or its statistic");
  Row row;
  row.id = json.id();
  row.group = json.group();
  row.title = json.title();
  row.unit = json.unit();
  row.measured = json.measured();
  row.measured_n = json.measured_n();
  row.unfit = json.unfit();
  row.gate = json.gate();
  row.values.assign(json.value().begin(), json.value().end());
  const json::Tolerance& tolerance = json.tolerance();
  row.statistic = static_cast<Statistic>(tolerance.statistic() - 1);
  row.tolerance.margin = tolerance.margin();
  row.tolerance.higher_is_better = tolerance.higher_is_better();
  row.tolerance.lower_is_better = tolerance.lower_is_better();
  row.tolerance.one_sided = tolerance.one_sided();
  row.tolerance.decimals = tolerance.decimals();
  return row;
}

std::string json_report(const Report& report) {
  json::Report out;
  out.set_schema(kReportSchema);
  out.set_run(report.run.id());
  out.set_recipe(report.run.recipe());
  out.set_recipe_version(report.run.recipe_version());
  out.set_exec_digest(report.run.exec_digest());
  out.set_expect_digest(report.run.expect_digest());
  out.set_device(report.run.device());
  out.set_engine(report.run.engine());
  out.set_machine(report.run.machine());
  out.set_emulated_devices(report.run.emulated_devices());
  out.set_not_comparable(report.measurements.not_comparable);
  out.set_exit(static_cast<int>(report.exit));
  out.set_summary(summary_line(report));
  for (const Row& row : report.rows) *out.add_row() = json_row(row);
  for (const Trial& trial : report.measurements.trials) *out.add_trial() = json_trial(trial);
  for (const BenchResult& bench : report.measurements.benches) *out.add_bench() = json_bench(bench);
  for (const std::string& line : deviation_lines(report.recipe)) out.add_deviation(line);
  return json_text(out);
}

}  // namespace reciperun
