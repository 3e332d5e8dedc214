#include "tools/recipe_run/report/report.h"

#include <algorithm>
#include <map>

#include "tools/recipe_run/base/text.h"

namespace reciperun {

Report make_report(const RunRecord& run, bool require_all) {
  Report out;
  out.recipe = run.recipe();
  out.run = run.info();
  out.measurements = run.measurements();
  out.rows = make_rows(out.recipe, out.measurements);
  out.exit = exit_of_rows(out.rows, require_all);
  out.pictures = trial_pictures(run.folder());
  return out;
}

std::vector<RowGroup> grouped(const std::vector<Row>& rows) {
  std::vector<RowGroup> groups;
  for (const char* first : {"accuracy", "stability across seeds", "scaling", "time to train"}) {
    groups.push_back({first, {}});
  }
  for (const Row& row : rows) {
    const auto same = std::find_if(groups.begin(), groups.end(),
                                   [&](const RowGroup& g) { return g.title == row.group; });
    (same == groups.end() ? groups.emplace_back(RowGroup{row.group, {}}) : *same)
        .rows.push_back(&row);
  }
  std::erase_if(groups, [](const RowGroup& g) { return g.rows.empty(); });
  return groups;
}

std::vector<const Row*> pointers(const std::vector<Row>& rows) {
  std::vector<const Row*> out;
  for (const Row& row : rows) out.push_back(&row);
  return out;
}

std::vector<std::string> table_headings() {
  return {"row", "published", "n", "measured", "n", "unit", "Δ", "interval", "margin", "verdict"};
}

std::vector<std::string> table_cells(const Row& row) {
  return {row.title,       row.published,
          row.published_n, row.measured.empty() ? "—" : row.measured,
          row.measured_n,  row.unit == "1" ? "" : row.unit,
          row.delta,       row.interval,
          row.margin,      verdict_word(row.judgement.verdict)};
}

bool column_used(const std::vector<const Row*>& rows, size_t column) {
  return std::any_of(rows.begin(), rows.end(),
                     [&](const Row* row) { return !table_cells(*row)[column].empty(); });
}

std::string summary_line(const Report& report) {
  const auto& trials = report.measurements.trials;
  const auto good =
      std::count_if(trials.begin(), trials.end(), [](const Trial& t) { return t.failure.empty(); });
  std::string text = std::to_string(good) + " of " +
                     std::to_string(report.recipe.trials().count()) + " trials finished";
  std::map<Verdict, int> words;
  for (const Row& row : report.rows) {
    if (row.gate) ++words[row.judgement.verdict];
  }
  for (const auto& [verdict, count] : words) {
    text += " · " + (words.size() > 1 || count > 1 ? std::to_string(count) + " × " : "") +
            verdict_word(verdict);
  }
  return text;
}

std::vector<std::string> deviation_lines(const v1::Recipe& recipe) {
  std::vector<std::string> lines;
  for (const v1::Deviation& d : recipe.deviation()) {
    lines.push_back(d.path() + ": the source has " + d.source_has() + "; here " + d.we_have() +
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
  return {{"report.txt", console_report},
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
