#include "tools/recipe_run/report/side.h"

#include "tools/recipe_run/base/error.h"
#include "tools/recipe_run/base/json_reader.h"
#include "tools/recipe_run/report/json.h"

namespace reciperun {
namespace {

Side read_report(const json::Report& report) {
  if (report.run().empty() || report.exec_digest().empty())
    throw Error(Exit::kUsage, "it names no run or no digest of what was executed");
  Side out;
  out.run = report.run();
  out.recipe = report.recipe();
  out.recipe_version = report.recipe_version();
  out.exec_digest = report.exec_digest();
  out.device = report.device();
  out.machine = report.machine();
  out.engine = report.engine();
  out.emulated_devices = report.emulated_devices();
  for (const json::Row& row : report.row()) out.rows.push_back(row_of_json(row));
  return out;
}

}  // namespace

Side side_of(const RunRecord& run) {
  const record::Run& info = run.info();
  return {info.id(),
          info.recipe(),
          info.recipe_version(),
          info.exec_digest(),
          info.device(),
          info.machine(),
          info.engine(),
          info.emulated_devices(),
          run.recipe(),
          make_rows(run.recipe(), run.measurements())};
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

}  // namespace reciperun
