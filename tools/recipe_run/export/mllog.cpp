// MLPerf Training's log: ":::MLLOG " and one JSON object per line. Keys and their order are those
// of mlcommons/logging; its checker accepts a log if the benchmark is one of MLPerf's.
#include <algorithm>
#include <cmath>

#include "tools/recipe_run/base/json_writer.h"
#include "tools/recipe_run/export/export.h"
#include "tools/recipe_run/export/logged_events.h"
#include "tools/recipe_run/run_record/json_file.h"

namespace reciperun {
namespace {

// MLPerf's name of the benchmark; the recipe's id where MLPerf has none.
std::string benchmark_name(const v1::Recipe& recipe) {
  const std::string& arch = recipe.model().arch();
  if (arch.rfind("resnet50", 0) == 0) return "resnet";
  if (arch.rfind("bert", 0) == 0) return "bert";
  return recipe.id();
}

uint64_t samples_of(const v1::Recipe& recipe, std::initializer_list<const char*> roles) {
  for (const char* role : roles) {
    for (const v1::DataRef& data : recipe.data()) {
      if (data.role() == role) return data.expect_samples();
    }
  }
  return 0;
}

uint32_t global_batch(const v1::Recipe& recipe) {
  const v1::Topology& topology = recipe.topology();
  return recipe.training().batch_per_device() * std::max(1u, recipe.training().accumulate()) *
         std::max(1u, topology.nodes()) * std::max(1u, topology.devices_per_node());
}

class MlLog {
 public:
  template <class T>
  void point(double ms, const char* key, const T& value) {
    line(ms, "POINT_IN_TIME", key, [&](JsonWriter& json) { json.value(value); }, {}, {});
  }
  // `place` adds to the metadata.
  using Place = std::vector<std::pair<std::string, double>>;
  void start(double ms, const char* key, const Place& place = {}) {
    line(ms, "INTERVAL_START", key, [](JsonWriter& json) { json.null(); }, place, {});
  }
  void stop(double ms, const char* key, const Place& place = {}, const std::string& status = "") {
    line(
        ms, "INTERVAL_END", key, [](JsonWriter& json) { json.null(); }, place, status);
  }
  void accuracy(double ms, double value, const Place& place) {
    line(ms, "POINT_IN_TIME", "eval_accuracy", [&](JsonWriter& json) { json.value(value); }, place,
         {});
  }
  const std::string& text() const { return text_; }

 private:
  template <class WriteValue>
  void line(double ms, const char* type, const char* key, const WriteValue& write_value,
            const Place& place, const std::string& status) {
    JsonWriter json;
    json.begin_object().field("namespace", "").field("time_ms", std::llround(ms));
    json.field("event_type", type).field("key", key).key("value");
    write_value(json);
    json.key("metadata").begin_object().field("file", "events.jsonl").field("lineno", ++line_);
    for (const auto& [name, value] : place) json.field(name, value);
    if (!status.empty()) json.field("status", status);
    json.end_object().end_object();
    text_ += ":::MLLOG " + json.text() + "\n";
  }

  std::string text_;
  int line_ = 0;
};

void write_header(MlLog& log, double ms, const RunRecord& run, uint64_t seed) {
  const v1::Recipe& recipe = run.recipe();
  log.point(ms, "submission_benchmark", benchmark_name(recipe));
  log.point(ms, "submission_org", "not submitted");
  log.point(ms, "submission_division", "open");
  log.point(ms, "submission_status", "research");
  log.point(ms, "submission_platform", run.info().device());
  log.point(ms, "cache_clear", false);
  log.point(ms, "seed", seed);
  log.point(ms, "global_batch_size", global_batch(recipe));
  log.point(ms, "train_samples", samples_of(recipe, {"train"}));
  log.point(ms, "eval_samples", samples_of(recipe, {"eval", "test", "validation"}));
  log.point(ms, "opt_name", recipe.training().optimizer().name());
  log.point(ms, "opt_base_learning_rate", recipe.training().optimizer().lr());
}

}  // namespace

std::string mllog_text(const RunRecord& run, const fs::path& folder) {
  record::TrialMetrics metrics;
  read_json(folder / "metrics.json", metrics);
  const std::vector<LoggedEvent> events = logged_events(folder / "events.jsonl");
  MlLog log;
  if (events.empty()) return "";
  const double started = events.front().milliseconds;
  const double loading = started - 1e3 * events.front().since_process;
  log.start(loading, "init_start");
  write_header(log, loading, run, metrics.seed());
  log.stop(started, "init_stop");
  log.start(started, "run_start");
  const auto& names = run.recipe().evaluation().metric();
  const std::string headline = names.empty() ? "" : names[0];
  double begun = started;
  double first = 0;
  for (const LoggedEvent& logged : events) {
    const Event& event = logged.event;
    if (event.kind != "eval" || event.key != headline) continue;
    const double ms = logged.milliseconds;
    log.start(begun, "block_start",
              {{"first_epoch_num", first}, {"epoch_count", event.at.epoch - first}});
    log.stop(ms, "block_stop", {{"first_epoch_num", first}});
    log.start(ms, "eval_start", {{"epoch_num", event.at.epoch}});
    log.accuracy(ms, event.value, {{"epoch_num", event.at.epoch}});
    log.stop(ms, "eval_stop", {{"epoch_num", event.at.epoch}});
    begun = ms;
    first = event.at.epoch;
  }
  log.stop(events.back().milliseconds, "run_stop", {},
           metrics.failure().empty() ? "success" : "aborted");
  return log.text();
}

}  // namespace reciperun
