// Makes a report from a run's measurements, and a document from a report.
#include "tools/recipe_run/report/report.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "tools/recipe_run/record/seal.h"
#include "tools/recipe_run/report/plots.h"
#include "tools/recipe_run/util/json.h"
#include "tools/recipe_run/util/text.h"

namespace reciperun {
namespace {

// One line for each trial that was evaluated in the parts that the devices of a run would each have
// seen, and each metric that is a share of the samples: "seed 1, top1: 76.31 % merged; 8 parts of
// 6,250: 76.10 76.52 ...".
std::vector<std::string> shard_lines(const Report& report) {
  std::vector<std::string> lines;
  for (const Trial& trial : report.measurements.trials) {
    if (trial.shards.empty()) continue;
    const auto [fewest, most] =
        std::minmax_element(trial.shards.begin(), trial.shards.end(),
                            [](const auto& a, const auto& b) { return a.samples() < b.samples(); });
    std::string samples = with_commas(fewest->samples());
    if (most->samples() != fewest->samples()) samples += " to " + with_commas(most->samples());
    for (const std::string& metric : report.recipe.evaluation().metric()) {
      const bool everywhere =
          std::all_of(trial.shards.begin(), trial.shards.end(),
                      [&](const auto& shard) { return shard.metric().contains(metric); });
      if (metric == "loss" || !everywhere || !trial.metrics.contains(metric)) continue;
      std::string parts;
      for (const record::Shard& shard : trial.shards)
        parts += " " + fixed(100 * shard.metric().at(metric), 2);
      lines.push_back(fmt::format("{}, {}: {} % merged; {} parts of {}:{}", trial.title, metric,
                                  fixed(100 * trial.metrics.at(metric), 2), trial.shards.size(),
                                  samples, parts));
    }
  }
  return lines;
}

// "seed 1: 8 ranks summed 102.1 MB an update in 35.2 ms, 81 % of it beside the backward pass".
std::vector<std::string> communication_lines(const Report& report) {
  std::vector<std::string> lines;
  for (const Trial& trial : report.measurements.trials) {
    if (!trial.communication || trial.communication->updates() == 0) continue;
    const record::Communication& all = *trial.communication;
    const auto updates = static_cast<double>(all.updates());
    std::string line = fmt::format("{}: {} ranks summed {} MB an update", trial.title, all.ranks(),
                                   significant(all.bytes() / updates * 1e-6));
    if (all.seconds() > 0)
      line += fmt::format(" in {} ms, {} % of it beside the backward pass",
                          significant(all.seconds() / updates * 1e3),
                          fixed(100 * (1 - all.waited() / all.seconds()), 0));
    lines.push_back(line);
  }
  return lines;
}

// --- What the report was held against. ---

// The cell of every published number, folded away.
std::string cells_of(const v1::Recipe& recipe) {
  std::string rows;
  for (const v1::Expect& expect : recipe.expect()) {
    if (!expect.has_at()) continue;
    const v1::Locator& at = expect.at();
    std::vector<std::string> selectors;  // "GPUs 8, Batch size / GPU 1"
    for (const v1::Cell& cell : at.where())
      selectors.push_back(cell.column() + " " + cell.equals());
    rows += fmt::format("<tr><td class=\"row\">{}</td>", html_escaped(expect.id()));
    for (const auto& [heading, text] :
         {std::pair("printed", at.printed()), std::pair("table", at.source() + ": " + at.table()),
          std::pair("row", join(selectors, ", ")), std::pair("column", at.column())})
      rows += fmt::format("<td class=\"w\" data-h=\"{}\">{}</td>", heading, html_escaped(text));
    rows += "</tr>\n";
  }
  if (rows.empty()) return "";
  return "<details><summary>The cell of each published number</summary>\n<div "
         "class=\"scroll\"><table><thead><tr><th>row</th><th class=\"w\">printed</th><th "
         "class=\"w\">table</th><th class=\"w\">its row</th><th class=\"w\">its "
         "column</th></tr></thead><tbody>\n" +
         rows + "</tbody></table></div></details>\n";
}

std::string sources_of(const Report& report) {
  std::string out;
  for (const v1::Source& source : report.recipe.source()) {
    out += "<li>" + html_escaped(source.title().empty() ? source.id() : source.title());
    if (!source.upstream().empty())
      out += fmt::format(", <code>{}</code>", html_escaped(source.upstream()));
    if (!source.revision().empty())
      out += fmt::format(" at <code>{}</code>", html_escaped(source.revision().substr(0, 12)));
    out += "</li>\n";
  }
  if (!out.empty()) out = "<h2>Sources</h2>\n<ul>\n" + out + "</ul>\n" + cells_of(report.recipe);
  return out + fmt::format(
                   "<p class=\"dim\">executed <code>{}</code> · expected <code>{}</code> · "
                   "every number of the tests stands in report.json</p>\n",
                   report.run.exec_digest().substr(0, 16),
                   report.run.expect_digest().substr(0, 16));
}

}  // namespace

std::vector<TrialPicture> trial_pictures(const fs::path& folder, const std::vector<Trial>& trials,
                                         size_t most) {
  std::vector<TrialPicture> out;
  for (const Trial& trial : trials) {
    std::vector<fs::path> files;
    std::error_code ignored;
    for (const auto& entry :
         fs::directory_iterator(folder / "trials" / trial.name / "pictures", ignored)) {
      if (entry.path().extension() == ".png") files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    const size_t shown = std::min(most, files.size());
    for (size_t i = 0; i < shown; ++i)
      out.push_back({trial.name, trial.title, files[i].filename().string(), read_file(files[i]),
                     i + 1 == shown ? files.size() - shown : 0});
  }
  return out;
}

std::vector<TrialDetections> trial_detections(const fs::path& folder,
                                              const std::vector<Trial>& trials) {
  std::vector<TrialDetections> out;
  for (const Trial& trial : trials) {
    const fs::path file = folder / "trials" / trial.name / "detection_scores.json";
    if (!is_there(file)) continue;
    TrialDetections& found = out.emplace_back(TrialDetections{trial.title, {}});
    read_json(file, found.scores);
  }
  return out;
}

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
  out.detections = trial_detections(run.folder(), out.measurements.trials);
  out.pictures =
      trial_pictures(run.folder(), out.measurements.trials, out.detections.empty() ? 1 : 4);
  return out;
}

std::string summary_line(const Report& report) {
  const auto& trials = report.measurements.trials;
  const auto good =
      std::count_if(trials.begin(), trials.end(), [](const Trial& t) { return t.failure.empty(); });
  std::string text = fmt::format("{} of {} trials finished", good, report.recipe.trials().count());
  std::map<Verdict, int> counts;
  for (const Row& row : report.rows) {  // a number that the source prints twice is one result
    if (row.gate && row.same_as.empty()) ++counts[row.judgement.verdict];
  }
  std::vector<std::string> words;
  for (const auto& [verdict, count] : counts)
    words.push_back(fmt::format("{} {}", count, verdict_word(verdict)));
  return words.empty() ? text : fmt::format("{} · required rows: {}", text, join(words, ", "));
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

std::vector<std::string> deviation_lines(const v1::Recipe& recipe) {
  std::vector<std::string> lines;
  for (const v1::Deviation& d : recipe.deviation()) {
    lines.push_back(fmt::format("{}: in the source: {}; here: {}; effect: {}", d.path(),
                                d.source_has(), d.we_have(), d.effect()));
  }
  return lines;
}

Document document_of(const Report& report) {
  const record::Run& run = report.run;
  Document out;
  out.title = report.recipe.title().empty() ? report.recipe.id() : report.recipe.title();
  out.about = {fmt::format("{} {} · run {}", run.recipe(), run.recipe_version(), run.id()),
               run.device() + " · " + run.engine()};
  out.summary = summary_line(report);
  out.rows = report.rows;
  out.after = {{"evaluation by part, as the devices share the data", shard_lines(report)},
               {"between the devices", communication_lines(report)},
               {"changed for this run", change_texts(run.modification())},
               {"known deviations from the source", deviation_lines(report.recipe)}};
  out.figures = plots_of(report);
  out.sources = sources_of(report);
  out.suite = run.id();
  out.suite_class = run.recipe();
  out.created = run.created();
  return out;
}

std::vector<record::Result> result_index(const Report& report) {
  std::vector<record::Result> out;
  for (const Row& row : report.rows) {
    record::Result& result = out.emplace_back();
    result.set_row(row.id);
    result.set_verdict(verdict_word(row.judgement.verdict));
  }
  return out;
}

fs::path write_reports(const RunRecord& run, const Report& report) {
  const fs::path folder = run.folder() / "report";
  const Document document = document_of(report);
  write_file_atomic(folder / "report.txt", console_text(document));
  write_file_atomic(folder / "report.md", markdown_text(document));
  write_file_atomic(folder / "report.json", json_report(report));
  write_file_atomic(folder / "report.html", html_text(document));
  return folder;
}

RunCheck check_run(const RunRecord& run) {
  RunCheck out;
  out.problems =
      seal_problems(run.folder(), run.is_running() ? RunState::kRunning : RunState::kClosed);
  out.files = static_cast<int>(covered_digests(run.folder()).size());
  try {
    std::map<std::string, std::string> derived;
    for (const Row& row : make_report(run).rows)
      derived[row.id] = verdict_word(row.judgement.verdict);
    out.rows = static_cast<int>(derived.size());
    for (const record::Result& recorded : run.info().result()) {
      const auto found = derived.find(recorded.row());
      const std::string now = found == derived.end() ? "no such row" : found->second;
      if (now != recorded.verdict())
        out.problems.push_back(
            fmt::format("run.json: row {} is recorded as {}, the measurements give {}",
                        recorded.row(), recorded.verdict(), now));
    }
  } catch (const Error& error) {  // a file too damaged to be read is one more problem
    out.problems.emplace_back(error.what());
  }
  return out;
}

}  // namespace reciperun
