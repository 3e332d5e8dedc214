// The JSON of Google Benchmark's --benchmark_out, for its compare.py and for dashboards that read
// it.
#include <numeric>

#include "tools/recipe_run/base/json_writer.h"
#include "tools/recipe_run/export/export.h"

namespace reciperun {
namespace {

void write_repeat(JsonWriter& json, const BenchResult& bench, size_t family, size_t repeat) {
  const BenchRepeat& measured = bench.repeats[repeat];
  const std::string name = bench.bench + "/devices:" + std::to_string(bench.devices) +
                           "/batch:" + std::to_string(bench.batch);
  const size_t steps = measured.step_seconds.size();
  const double total =
      std::accumulate(measured.step_seconds.begin(), measured.step_seconds.end(), 0.0);
  const double milliseconds = steps == 0 ? 0 : 1e3 * total / static_cast<double>(steps);
  json.begin_object().field("name", name).field("family_index", family);
  json.field("per_family_instance_index", 0).field("run_name", name).field("run_type", "iteration");
  json.field("repetitions", bench.repeats.size()).field("repetition_index", repeat);
  json.field("threads", 1).field("iterations", steps).field("real_time", milliseconds);
  json.field("cpu_time", milliseconds).field("time_unit", "ms");
  json.field("items_per_second", measured.items_per_second).end_object();
}

}  // namespace

std::string benchmark_json(const Report& report) {
  JsonWriter json(1);
  json.begin_object().key("context").begin_object();
  json.field("date", report.run.created()).field("executable", "recipe-run");
  json.field("host_name", report.run.device()).field("caches", std::vector<double>{});
  json.field("recipe", report.run.recipe()).field("run", report.run.id());
  json.field("library_build_type", "release").field("engine", report.run.engine());
  json.field("cpu_time", "not measured, repeats real_time").end_object();
  json.key("benchmarks").begin_array();
  for (size_t b = 0; b < report.measurements.benches.size(); ++b) {
    const BenchResult& bench = report.measurements.benches[b];
    for (size_t r = 0; r < bench.repeats.size(); ++r) write_repeat(json, bench, b, r);
  }
  json.end_array().end_object();
  return json.text() + "\n";
}

}  // namespace reciperun
