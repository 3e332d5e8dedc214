// The report as JSON: with all inputs of every test, so that a third party can compute the verdicts
// again.
#include "tools/recipe_run/base/json_writer.h"
#include "tools/recipe_run/report/json_row.h"
#include "tools/recipe_run/report/report.h"

namespace reciperun {
namespace {

void write_trial(JsonWriter& json, const Trial& trial) {
  json.begin_object();
  json.field("name", trial.name).field("seed", trial.seed).field("failure", trial.failure);
  json.field("train_seconds", trial.train_seconds).field("segments", trial.segments);
  json.key("metrics").begin_object();
  for (const auto& [name, value] : trial.metrics) json.field(name, value);
  json.end_object().key("shards").begin_array();
  for (const TrialShard& shard : trial.shards) {
    json.begin_object().field("samples", shard.samples).key("metrics").begin_object();
    for (const auto& [name, value] : shard.metrics) json.field(name, value);
    json.end_object().end_object();
  }
  json.end_array().end_object();
}

void write_bench(JsonWriter& json, const BenchResult& bench) {
  json.begin_object();
  json.field("bench", bench.bench).field("devices", bench.devices).field("batch", bench.batch);
  json.field("failure", bench.failure);
  std::vector<double> rates, loading, computing;
  std::vector<size_t> steps;
  for (const BenchRepeat& repeat : bench.repeats) {
    rates.push_back(repeat.items_per_second);
    steps.push_back(repeat.step_seconds.size());
    if (repeat.load_rate > 0) loading.push_back(repeat.load_rate);
    if (repeat.compute_rate > 0) computing.push_back(repeat.compute_rate);
  }
  json.field("items_per_second", rates).field("steps", steps);
  json.field("load_items_per_second", loading).field("compute_items_per_second", computing);
  json.key("noise").begin_array();
  for (const NoiseCheck& check : bench.noise) {
    json.begin_object()
        .field("check", check.name)
        .field("value", check.value)
        .field("warn", check.warn);
    json.field("block", check.block).end_object();
  }
  json.end_array().end_object();
}

}  // namespace

std::string json_report(const Report& report) {
  JsonWriter json(1);
  json.begin_object()
      .field("schema", 1)
      .field("run", report.run.id())
      .field("recipe", report.run.recipe());
  json.field("recipe_version", report.run.recipe_version())
      .field("exec_digest", report.run.exec_digest());
  json.field("expect_digest", report.run.expect_digest()).field("device", report.run.device());
  json.field("engine", report.run.engine())
      .field("not_comparable", report.measurements.not_comparable);
  json.field("machine", report.run.machine())
      .field("emulated_devices", report.run.emulated_devices());
  json.field("exit", static_cast<int>(report.exit)).field("summary", summary_line(report));
  json.key("rows").begin_array();
  for (const Row& row : report.rows) write_row(json, row);
  json.end_array().key("trials").begin_array();
  for (const Trial& trial : report.measurements.trials) write_trial(json, trial);
  json.end_array().key("benches").begin_array();
  for (const BenchResult& bench : report.measurements.benches) write_bench(json, bench);
  json.end_array().field("deviations", deviation_lines(report.recipe)).end_object();
  return json.text() + "\n";
}

}  // namespace reciperun
