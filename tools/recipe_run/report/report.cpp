#include "tools/recipe_run/report/report.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "tools/recipe_run/base/text.h"

namespace reciperun {

OtherRun other_run(const RunRecord& run) {
  return {run.info().id(), run.recipe(), run.measurements()};
}

Report make_report(const RunRecord& run, ReportOptions options) {
  Report out;
  out.recipe = run.recipe();
  out.run = run.info();
  out.measurements = run.measurements();
  out.measurements.tight = options.tight;
  out.measurements.others = std::move(options.with);
  out.rows = make_rows(out.recipe, out.measurements);
  out.exit = exit_of_rows(out.rows, options.require_all);
  out.pictures = trial_pictures(run.folder(), out.measurements.trials);
  return out;
}

namespace {

// The verdicts of the required rows; a number that the source prints twice is one result.
std::map<Verdict, int> required_verdicts(const std::vector<Row>& rows) {
  std::map<Verdict, int> counts;
  for (const Row& row : rows) {
    if (row.gate && row.same_as.empty()) ++counts[row.judgement.verdict];
  }
  return counts;
}

}  // namespace

std::string summary_line(const Report& report) {
  const auto& trials = report.measurements.trials;
  const auto good =
      std::count_if(trials.begin(), trials.end(), [](const Trial& t) { return t.failure.empty(); });
  std::string text = fmt::format("{} of {} trials finished", good, report.recipe.trials().count());
  const std::map<Verdict, int> counts = required_verdicts(report.rows);
  if (counts.empty()) return text;
  std::vector<std::string> words;
  for (const auto& [verdict, count] : counts)
    words.push_back(fmt::format("{} {}", count, verdict_word(verdict)));
  return fmt::format("{} · required rows: {}", text, join(words, ", "));
}

std::string smoke_line(const Report& report) {
  const auto& trials = report.measurements.trials;
  if (trials.empty()) {
    for (const BenchResult& bench : report.measurements.benches) {
      if (!bench.failure.empty()) return "It does not run: " + bench.failure;
    }
    return "It runs: every bench was measured for a few steps.";
  }
  const Trial& trial = trials.front();
  if (!trial.failure.empty()) return "It does not train: " + trial.failure;
  std::string text = fmt::format("It trains: {} steps", trial.loss_curve.size());
  if (!trial.loss_curve.empty())
    text += fmt::format(", loss {} to {}", fixed(trial.loss_curve.front().y, 3),
                        fixed(trial.loss_curve.back().y, 3));
  return text + (trial.metrics.empty() ? "." : ", and it was evaluated.");
}

std::vector<std::string> change_lines(const record::Run& run) {
  std::vector<std::string> lines;
  for (const record::Change& change : run.modification()) {
    if (!change.free()) lines.push_back(change_text(change));
  }
  return lines;
}

std::vector<std::string> deviation_lines(const v1::Recipe& recipe) {
  std::vector<std::string> lines;
  for (const v1::Deviation& d : recipe.deviation()) {
    lines.push_back(d.path() + ": in the source: " + d.source_has() + "; here: " + d.we_have() +
                    "; effect: " + d.effect());
  }
  return lines;
}

std::vector<record::Result> result_index(const Report& report) {
  std::vector<record::Result> out;
  for (const Row& row : report.rows) {
    record::Result result;
    result.set_row(row.id);
    result.set_verdict(verdict_word(row.judgement.verdict));
    out.push_back(result);
  }
  return out;
}

std::vector<ReportFile> report_files() {
  return {{"report.txt", [](const Report& report) { return console_report(report); }},
          {"report.md", markdown_report},
          {"report.json", json_report},
          {"report.html", html_report}};
}

fs::path write_reports(const RunRecord& run, const Report& report) {
  const fs::path folder = run.folder() / "report";
  for (const ReportFile& file : report_files())
    write_file_atomic(folder / file.name, file.render(report));
  return folder;
}

}  // namespace reciperun
