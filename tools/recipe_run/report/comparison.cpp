// Judges the rows of two runs, says what differs between the runs, and makes a document of both.
#include "tools/recipe_run/report/comparison.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "tools/recipe_run/judge/published.h"
#include "tools/recipe_run/report/report.h"
#include "tools/recipe_run/util/error.h"
#include "tools/recipe_run/util/json.h"
#include "tools/recipe_run/util/text.h"

namespace reciperun {
namespace {

Side read_report(const json::Report& report) {
  require(!report.run().empty() && !report.exec_digest().empty(),
          "it names no run or no digest of what was executed");
  Side out;
  out.run.set_id(report.run());
  out.run.set_recipe(report.recipe());
  out.run.set_recipe_version(report.recipe_version());
  out.run.set_exec_digest(report.exec_digest());
  out.run.set_device(report.device());
  out.run.set_machine(report.machine());
  out.run.set_engine(report.engine());
  out.run.set_emulated_devices(report.emulated_devices());
  for (const json::Row& row : report.row()) out.rows.push_back(row_of_json(row));
  return out;
}

}  // namespace

Side side_of(const RunRecord& run) {
  return {run.info(), make_rows(run.recipe(), run.measurements()), run.recipe()};
}

Side side_of_report(const fs::path& file) {
  json::Report report;
  std::string problem = parse_json(read_file(file), report);
  try {
    if (problem.empty()) return read_report(report);
  } catch (const Error& error) {
    problem = error.what();
  }
  throw Error(Exit::kUsage, "'" + file.string() + "' is no report that can be compared: " + problem,
              "name a run's folder, or its report/report.json; 'recipe-run report RUN' writes that "
              "anew");
}

namespace {

Judgement compare_values(const Row& first, const Row& second) {
  Tolerance t = first.tolerance;
  t.level = 0.05;  // both runs are looked at once, here
  t.reference = "the first run's value";
  return first.statistic == Statistic::kRatio
             ? judge_speedup(1, second.values, first.values, t)
             : judge_runs(first.statistic, {summarise(first.values), first.values}, second.values,
                          t);
}

// Why rows cannot be compared: for all of them, and for timings only.
struct Obstacles {
  std::string recipe;
  std::string machine;
};

Judgement judge(const Row& first, const Row& second, const Obstacles& obstacles) {
  const bool timing = first.statistic == Statistic::kRatio;
  if (first.values.empty() || second.values.empty()) {
    const std::string where = first.values.empty() ? "first" : "second";
    return judged(Verdict::kNotRun, "not measured in the " + where + " run");
  }
  if (first.unit != second.unit || first.statistic != second.statistic)
    return judged(Verdict::kNotComparable, "the two rows are of different kinds");
  if (!obstacles.recipe.empty()) return judged(Verdict::kNotComparable, obstacles.recipe);
  if (timing && !obstacles.machine.empty())
    return judged(Verdict::kNotComparable, obstacles.machine);
  for (const auto& [row, name] : {std::pair(&first, "first"), std::pair(&second, "second")}) {
    if (!row->unfit.empty())
      return judged(Verdict::kInvalid, std::string(name) + " run: " + row->unfit);
  }
  return compare_values(first, second);
}

Row compared(const Row& first, const Row& second, const Obstacles& obstacles) {
  Row row = second;
  row.published = first.measured.empty() ? "—" : first.measured;
  row.published_n = first.measured_n;
  row.title = first.title;
  row.gate = first.gate;
  row.tolerance = first.tolerance;
  row.delta = row.interval = row.note = "";
  row.margin = margin_text(first.statistic, first.tolerance);
  row.judgement = judge(first, second, obstacles);
  add_difference(row);
  if (!first.values.empty() && first.values == second.values)
    row.note = "equal to the last digit in both runs";
  return row;
}

std::vector<Change> differences_of(const Side& first, const Side& second) {
  std::vector<Change> out;
  const record::Run &a = first.run, &b = second.run;
  const auto add = [&](const char* what, const std::string& one, const std::string& other) {
    if (one != other) out.push_back(change_of(what, one, other));
  };
  add("recipe", a.recipe(), b.recipe());
  add("emulated devices", fmt::format("{}", a.emulated_devices()),
      fmt::format("{}", b.emulated_devices()));
  if (a.exec_digest() != b.exec_digest() && first.recipe && second.recipe) {
    const std::vector<Change> fields = executed_differences(*first.recipe, *second.recipe);
    out.insert(out.end(), fields.begin(), fields.end());
  } else {
    add("executed digest", a.exec_digest().substr(0, 16), b.exec_digest().substr(0, 16));
  }
  add("device", a.device(), b.device());
  add("machine", a.machine().substr(0, 16), b.machine().substr(0, 16));
  add("engine", a.engine(), b.engine());
  return out;
}

Obstacles obstacles_of(const Comparison& c, const CompareOptions& options) {
  Obstacles out;
  if (options.despite_differences) return out;
  const record::Run &a = c.first.run, &b = c.second.run;
  if (a.exec_digest() != b.exec_digest() || a.emulated_devices() != b.emulated_devices())
    out.recipe = "the runs did not execute the same; --despite-differences judges all the same";
  if (a.machine() != b.machine() || a.device() != b.device())
    out.machine = "measured on different machines; --despite-differences judges all the same";
  return out;
}

const Row* find_row(const std::vector<Row>& rows, const std::string& id) {
  const auto it = std::find_if(rows.begin(), rows.end(), [&](const Row& r) { return r.id == id; });
  return it == rows.end() ? nullptr : &*it;
}

std::string summary_of(const Comparison& c) {
  std::map<Verdict, int> counts;
  for (const Row& row : c.rows) ++counts[row.judgement.verdict];
  std::vector<std::string> parts;
  for (const auto& [verdict, count] : counts)
    parts.push_back(fmt::format("{} × {}", count, verdict_word(verdict)));
  return parts.empty() ? "the recipes have no row in common" : join(parts, " · ");
}

json::Side json_side(const record::Run& run) {
  json::Side out;
  out.set_run(run.id());
  out.set_recipe(run.recipe());
  out.set_recipe_version(run.recipe_version());
  out.set_exec_digest(run.exec_digest());
  out.set_device(run.device());
  out.set_engine(run.engine());
  return out;
}

}  // namespace

Comparison compare_runs(Side first, Side second, const CompareOptions& options) {
  Comparison out;
  out.first = std::move(first);
  out.second = std::move(second);
  out.differences = differences_of(out.first, out.second);
  const Obstacles obstacles = obstacles_of(out, options);
  int unmeasured = 0;
  for (const Row& row : out.first.rows) {
    const Row* other = find_row(out.second.rows, row.id);
    if (other != nullptr && row.values.empty() && other->values.empty()) {
      ++unmeasured;
    } else if (other != nullptr) {
      out.rows.push_back(compared(row, *other, obstacles));
    } else {
      out.unmatched.push_back("'" + row.id + "' stands only in the first run's recipe");
    }
  }
  for (const Row& row : out.second.rows) {
    if (find_row(out.first.rows, row.id) == nullptr)
      out.unmatched.push_back("'" + row.id + "' stands only in the second run's recipe");
  }
  if (unmeasured > 0)
    out.unmatched.push_back(
        fmt::format("{} measured in neither run",
                    unmeasured == 1 ? "1 row was" : fmt::format("{} rows were", unmeasured)));
  std::vector<Judgement*> judgements;
  for (Row& row : out.rows) {
    row.gate = row.gate || options.all_rows;
    judgements.push_back(&row.judgement);
  }
  correct_for_many_rows(judgements);
  out.exit = exit_of_rows(out.rows, false);
  return out;
}

Document document_of(const Comparison& c) {
  Document out;
  const record::Run &a = c.first.run, &b = c.second.run;
  out.title = a.recipe() == b.recipe()
                  ? a.recipe() + ": two runs compared"
                  : fmt::format("Two runs compared: {}, {}", a.recipe(), b.recipe());
  for (const auto& [name, run] : {std::pair("first", &a), std::pair("second", &b)})
    out.about.push_back(fmt::format("{:<6}  {} · {} {} · {} · {}", name, run->id(), run->recipe(),
                                    run->recipe_version(), run->device(), run->engine()));
  if (c.differences.empty()) out.about.push_back("Same recipe, machine and engine.");
  out.summary = summary_of(c);
  Section differences{"these differ", {}};
  for (const Change& d : c.differences)
    differences.lines.push_back(
        fmt::format("{}: {} → {}", d.path(), or_unset(d.from()), or_unset(d.to())));
  out.before = {differences};
  out.rows = c.rows;
  out.words = {"first", "second"};
  out.after = {{"rows that are not compared", c.unmatched}};
  out.suite = fmt::format("{} against {}", a.id(), b.id());
  out.suite_class = a.recipe();
  return out;
}

std::string json_comparison(const Comparison& c) {
  json::Comparison out;
  out.set_schema(2);
  *out.mutable_first() = json_side(c.first.run);
  *out.mutable_second() = json_side(c.second.run);
  for (const Change& d : c.differences) {
    json::Difference& added = *out.add_difference();
    added.set_path(d.path());
    added.set_first(d.from());
    added.set_second(d.to());
  }
  out.set_exit(static_cast<int>(c.exit));
  out.set_summary(summary_of(c));
  for (const Row& row : c.rows) *out.add_row() = json_row(row);
  out.mutable_unmatched()->Add(c.unmatched.begin(), c.unmatched.end());
  return json_text(out);
}

}  // namespace reciperun
