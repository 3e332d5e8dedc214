// Makes a report from a run's measurements, and a document from a report.
#include "tools/recipe_run/report/report.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "tools/recipe_run/record/seal.h"
#include "tools/recipe_run/report/document.h"
#include "tools/recipe_run/report/plots.h"
#include "tools/recipe_run/util/text.h"

namespace reciperun {
namespace {

// --- Evaluations by the parts of the data that the devices of a run would each have seen. ---

// One metric of one trial over its parts, in per cent.
struct ShardLine {
  std::string trial;   // "seed 1"
  std::string metric;  // "top1"
  double merged = 0;
  std::vector<double> parts;
  int64_t fewest = 0, most = 0;  // samples of a part
};

// Of the metrics that the recipe names and that are shares of the samples; none of trials that
// were evaluated in one part.
std::vector<ShardLine> shard_lines(const Report& report) {
  std::vector<ShardLine> lines;
  for (const Trial& trial : report.measurements.trials) {
    for (const std::string& metric : report.recipe.evaluation().metric()) {
      if (trial.shards.empty() || metric == "loss" || !trial.metrics.contains(metric)) continue;
      ShardLine line{trial.title, metric, 100 * trial.metrics.at(metric), {}};
      line.fewest = trial.shards[0].samples();
      for (const record::Shard& shard : trial.shards) {
        if (shard.metric().contains(metric)) line.parts.push_back(100 * shard.metric().at(metric));
        line.fewest = std::min(line.fewest, shard.samples());
        line.most = std::max(line.most, shard.samples());
      }
      if (line.parts.size() == trial.shards.size()) lines.push_back(std::move(line));
    }
  }
  return lines;
}

// "top1: 76.31 % merged; 8 parts of 6,250: 76.10 76.52 ...".
std::string shard_text(const ShardLine& line) {
  std::string samples = with_commas(line.fewest);
  if (line.most != line.fewest) samples += " to " + with_commas(line.most);
  std::string text = fmt::format("{}, {}: {} % merged; {} parts of {}:", line.trial, line.metric,
                                 fixed(line.merged, 2), line.parts.size(), samples);
  for (const double part : line.parts) text += " " + fixed(part, 2);
  return text;
}

// Each part's figure in a cell of its own; on narrow screens the cells flow.
std::string shard_table(const std::vector<ShardLine>& lines) {
  if (lines.empty()) return "";
  size_t parts = 0;
  for (const ShardLine& line : lines) parts = std::max(parts, line.parts.size());
  std::string out = fmt::format(
      "<h2>{}</h2>\n<div class=\"scroll\"><table><thead><tr><th>trial</th><th class=\"w\">metric, "
      "%</th><th>merged</th>",
      kShardsTitle);
  for (size_t k = 1; k <= parts; ++k) out += fmt::format("<th>part {}</th>", k);
  out += "</tr></thead><tbody>\n";
  for (const ShardLine& line : lines) {
    out += fmt::format(
        "<tr><td class=\"row\">{}</td><td class=\"w\">{}</td><td data-h=\"merged\">{}</td>",
        html_escaped(line.trial), html_escaped(line.metric), fixed(line.merged, 2));
    for (size_t k = 0; k < line.parts.size(); ++k)
      out += fmt::format("<td data-h=\"part {}\">{}</td>", k + 1, fixed(line.parts[k], 2));
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
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

// One line per value of the recipe that was changed for this run, other than the free ones.
std::vector<std::string> change_lines(const record::Run& run) {
  std::vector<std::string> lines;
  for (const record::Change& change : run.modification()) {
    if (!change.free()) lines.push_back(Change{change.path(), change.from(), change.to()}.text());
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
  std::vector<std::string> parts;
  for (const ShardLine& line : shard_lines(report)) parts.push_back(shard_text(line));
  out.after = {{kShardsTitle, parts, false},
               {"changed for this run", change_lines(run)},
               {"known deviations from the source", deviation_lines(report.recipe)}};
  return out;
}

}  // namespace

std::vector<TrialPicture> trial_pictures(const fs::path& folder, const std::vector<Trial>& trials) {
  std::vector<TrialPicture> out;
  for (const Trial& trial : trials) {
    std::vector<fs::path> files;
    std::error_code ignored;
    for (const auto& entry :
         fs::directory_iterator(folder / "trials" / trial.name / "pictures", ignored)) {
      if (entry.path().extension() == ".png") files.push_back(entry.path());
    }
    if (files.empty()) continue;
    const fs::path& first = *std::min_element(files.begin(), files.end());
    out.push_back(
        {trial.name, trial.title, first.filename().string(), read_file(first), files.size() - 1});
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
  out.pictures = trial_pictures(run.folder(), out.measurements.trials);
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

std::string console_report(const Report& report, int columns) {
  return console_text(document_of(report), columns);
}

std::string markdown_report(const Report& report) { return markdown_text(document_of(report)); }

std::string html_report(const Report& report) {
  Document document = document_of(report);
  document.figures = shard_table(shard_lines(report)) + plots_of(report);
  document.sources = sources_of(report);
  return html_text(document);
}

std::string junit_report(const Report& report) {
  return junit_text({report.run.id(), report.run.recipe(), report.run.created()}, report.rows);
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
  write_file_atomic(folder / "report.txt", console_report(report));
  write_file_atomic(folder / "report.md", markdown_report(report));
  write_file_atomic(folder / "report.json", json_report(report));
  write_file_atomic(folder / "report.html", html_report(report));
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
