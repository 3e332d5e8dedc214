// DLLogger's log: "DLLL " and one JSON object per line; times and steps as its backend writes them.
#include <cmath>
#include <ctime>
#include <map>

#include "tools/recipe_run/base/json_writer.h"
#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/export/export.h"
#include "tools/recipe_run/export/logged_events.h"
#include "tools/recipe_run/run_record/json_file.h"

namespace reciperun {
namespace {

std::string date_text(double milliseconds) {
  const auto seconds = static_cast<std::time_t>(milliseconds / 1e3);
  std::tm parts = {};
  gmtime_r(&seconds, &parts);
  char text[40];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
  return text;
}

class DlllLog {
 public:
  explicit DlllLog(double start_ms) : start_(start_ms) {}

  // `write` fills the object after "type".
  template <class Write>
  void line(double ms, const char* type, const Write& write) {
    JsonWriter json;
    json.begin_object().field("timestamp", shortest(ms / 1e3)).field("datetime", date_text(ms));
    json.field("elapsedtime", shortest((ms - start_) / 1e3)).field("type", type);
    write(json);
    json.end_object();
    text_ += "DLLL " + json.text() + "\n";
  }

  void metadata(double ms, const std::string& metric, const std::string& unit) {
    line(ms, "METADATA", [&](JsonWriter& json) {
      json.field("metric", metric).key("metadata").begin_object().field("unit", unit).end_object();
    });
  }

  const std::string& text() const { return text_; }

 private:
  double start_;
  std::string text_;
};

void write_parameters(DlllLog& log, double ms, const RunRecord& run, uint64_t seed) {
  log.line(ms, "LOG", [&](JsonWriter& json) {
    json.field("step", "PARAMETER").key("data").begin_object();
    json.field("recipe", run.info().recipe()).field("seed", seed);
    json.field("batch_size", run.recipe().training().batch_per_device());
    json.field("exec_digest", run.info().exec_digest()).end_object();
  });
}

// [epoch, step, evaluation] for an evaluation, [epoch, step] for a block of training steps.
void write_event(DlllLog& log, const LoggedEvent& logged) {
  const Event& event = logged.event;
  const bool evaluation = event.kind == "eval";
  std::vector<int64_t> step = {static_cast<int64_t>(std::floor(event.at.epoch)), event.at.step};
  if (evaluation) step.push_back(0);
  log.line(logged.milliseconds, "LOG", [&](JsonWriter& json) {
    json.field("step", step).key("data").begin_object();
    json.field((evaluation ? "val_" : "train_") + event.key, event.value).end_object();
  });
}

}  // namespace

std::string dlll_text(const RunRecord& run, const fs::path& folder) {
  record::TrialMetrics metrics;
  read_json(folder / "metrics.json", metrics);
  const std::vector<LoggedEvent> events = logged_events(folder / "events.jsonl");
  if (events.empty()) return "";
  DlllLog log(events.front().milliseconds);
  write_parameters(log, events.front().milliseconds, run, metrics.seed());
  std::map<std::string, std::string> units;
  for (const LoggedEvent& logged : events) {
    if (logged.event.kind == "eval") units["val_" + logged.event.key] = logged.event.unit;
    if (logged.event.kind == "step_block") units["train_" + logged.event.key] = logged.event.unit;
  }
  for (const auto& [metric, unit] : units) log.metadata(events.front().milliseconds, metric, unit);
  for (const LoggedEvent& logged : events) {
    if (logged.event.kind == "eval" || logged.event.kind == "step_block") write_event(log, logged);
  }
  const std::map<std::string, double> last(metrics.metric().begin(), metrics.metric().end());
  log.line(events.back().milliseconds, "LOG", [&](JsonWriter& json) {
    json.field("step", std::vector<int64_t>{}).key("data").begin_object();
    for (const auto& [name, value] : last) json.field(name, value);
    json.field("train_seconds", metrics.train_seconds()).end_object();
  });
  return log.text();
}

}  // namespace reciperun
