#include "tools/recipe_run/verify/run_check.h"

#include <google/protobuf/struct.pb.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "tools/recipe_run/base/error.h"
#include "tools/recipe_run/base/json_reader.h"
#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/recipe/canonical.h"
#include "tools/recipe_run/report/report.h"
#include "tools/recipe_run/run_record/event_log.h"
#include "tools/recipe_run/run_record/json_file.h"
#include "tools/recipe_run/run_record/seal.h"
#include "tools/recipe_run/run_record/step_log.h"

namespace reciperun {
namespace {

using google::protobuf::Struct;

// One evaluation of one metric: step, name, value as text, so that NaN compares too.
using Evaluated = std::tuple<int64_t, std::string, std::string>;

std::string number_text(double value) {
  return std::isfinite(value) ? shortest(value) : "not finite";
}

std::set<Evaluated> evaluations_of(const std::vector<std::string>& lines) {
  std::set<Evaluated> out;
  for (const std::string& line : lines) {
    Struct event;
    if (!parse_json(line, event).empty()) continue;
    const auto& fields = event.fields();
    if (fields.count("ev") == 0 || fields.at("ev").string_value() != "eval") continue;
    const auto& value = fields.at("val");
    const double step = fields.at("at").struct_value().fields().at("step").number_value();
    out.emplace(static_cast<int64_t>(step), fields.at("key").string_value(),
                value.has_number_value() ? number_text(value.number_value()) : "not finite");
  }
  return out;
}

class Checker {
 public:
  explicit Checker(const RunRecord& run) : run_(run) {}

  RunCheck all() {
    const RunState state = run_.is_running() ? RunState::kRunning : RunState::kClosed;
    out_.problems = seal_problems(run_.folder(), state);
    out_.files = static_cast<int>(covered_digests(run_.folder()).size());
    guarded([&] { check_recipe(); });
    for (const fs::path& folder : folders("trials", "metrics.json")) {
      guarded([&] { check_trial(folder); });
    }
    for (const fs::path& folder : folders("bench", "result.json")) {
      guarded([&] { check_bench(folder); });
    }
    guarded([&] { check_verdicts(); });
    return out_;
  }

 private:
  // A file too damaged to be read is one more problem.
  template <class Check>
  void guarded(const Check& check) {
    try {
      check();
    } catch (const Error& error) {
      out_.problems.push_back(error.what());
    }
  }

  std::string name(const fs::path& path) const {
    return path.lexically_relative(run_.folder()).generic_string();
  }
  void problem(const fs::path& file, const std::string& what) {
    out_.problems.push_back(name(file) + ": " + what);
  }

  // The folders below `part` that hold `result`, in order.
  std::vector<fs::path> folders(const char* part, const char* result) const {
    std::vector<fs::path> found;
    std::error_code error;
    for (const auto& entry : fs::recursive_directory_iterator(run_.folder() / part, error)) {
      if (entry.path().filename() == result) found.push_back(entry.path().parent_path());
    }
    std::sort(found.begin(), found.end());
    return found;
  }

  void check_recipe() {
    const fs::path file = run_.folder() / "recipe.resolved.json";
    if (read_file(file) != canonical_json(run_.recipe()) + "\n")
      problem(file, "is not the recipe of recipe.resolved.textproto");
  }

  void check_trial(const fs::path& folder) {
    const fs::path log = folder / "events.jsonl";
    const EventLogContent events = read_events(log);
    if (!events.problem.empty()) problem(log, events.problem);
    if (events.torn_tail) problem(log, "the last line is cut off");
    out_.event_lines += static_cast<int>(events.lines.size());
    const fs::path file = folder / "metrics.json";
    record::TrialMetrics metrics;
    read_json(file, metrics);
    const std::set<Evaluated> logged = evaluations_of(events.lines);
    for (const record::Eval& eval : metrics.eval()) {
      for (const auto& [metric, value] : eval.metric()) {
        ++out_.evaluations;
        if (logged.count({eval.step(), metric, number_text(value)}) > 0) continue;
        problem(file, metric + " " + shortest(value) + " of step " + std::to_string(eval.step()) +
                          " does not stand in the event log");
      }
      check_shards(file, eval);
    }
    check_selection(file, metrics);
  }

  // The parts of an evaluation make up the whole.
  void check_shards(const fs::path& file, const record::Eval& eval) {
    if (eval.shard().empty()) return;
    for (const auto& [name, merged] : eval.metric()) {
      double sum = 0, samples = 0;
      for (const record::Shard& shard : eval.shard()) {
        const auto part = shard.metric().find(name);
        if (part != shard.metric().end())
          sum += part->second * static_cast<double>(shard.samples());
        samples += static_cast<double>(shard.samples());
      }
      if (std::abs(sum / samples - merged) > 1e-9 * std::max(1.0, std::abs(merged)))
        problem(file, name + " of the parts at step " + std::to_string(eval.step()) +
                          " does not give the whole's " + shortest(merged));
    }
  }

  // Every reported metric is that of some evaluation, and "last" of the last.
  void check_selection(const fs::path& file, const record::TrialMetrics& metrics) {
    if (metrics.eval().empty()) return;
    const record::Eval& last = metrics.eval(metrics.eval_size() - 1);
    for (const auto& [name, value] : metrics.metric()) {
      const std::string base = name.substr(0, name.rfind('.'));
      const bool is_last = name == base + ".last";
      const bool known =
          std::any_of(metrics.eval().begin(), metrics.eval().end(), [&](const record::Eval& eval) {
            const auto found = eval.metric().find(is_last || name == base + ".best" ? base : name);
            return found != eval.metric().end() && (!is_last || &eval == &last) &&
                   number_text(found->second) == number_text(value);
          });
      if (!known) problem(file, name + " " + shortest(value) + " is of no evaluation");
    }
  }

  void check_bench(const fs::path& folder) {
    record::BenchRepeat repeat;
    read_json(folder / "result.json", repeat);
    const size_t steps = read_steps(folder / "steps.bin", 1).size();
    if (repeat.failure().empty() && steps != repeat.steps())
      problem(folder / "result.json", "says " + std::to_string(repeat.steps()) +
                                          " steps, steps.bin has " + std::to_string(steps));
  }

  void check_verdicts() {
    const Report report = make_report(run_);
    std::map<std::string, std::string> derived;
    for (const Row& row : report.rows) derived[row.id] = verdict_word(row.judgement.verdict);
    out_.rows = static_cast<int>(derived.size());
    for (const record::Result& result : run_.info().result()) {
      const auto found = derived.find(result.row());
      const std::string now = found == derived.end() ? "no such row" : found->second;
      if (now != result.verdict())
        problem(run_.folder() / "run.json", "row " + result.row() + " is recorded as " +
                                                result.verdict() + ", the measurements give " +
                                                now);
    }
    // Without an index the run was stopped: its report, if any, is of before.
    if (!run_.info().result().empty()) check_reports(report);
  }

  void check_reports(const Report& report) {
    const Report strict = make_report(run_, {.require_all = true});
    for (const ReportFile& file : report_files()) {
      const fs::path path = run_.folder() / "report" / file.name;
      std::error_code ignored;
      if (!fs::exists(path, ignored)) continue;
      ++out_.reports;
      const std::string text = read_file(path);
      const bool same = text == file.render(report) || text == file.render(strict);
      if (!same) problem(path, "is not what the measurements give; 'recipe-run report' writes it");
    }
  }

  const RunRecord& run_;
  RunCheck out_;
};

}  // namespace

RunCheck check_run(const RunRecord& run) { return Checker(run).all(); }

}  // namespace reciperun
