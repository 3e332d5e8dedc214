#include "tools/recipe_run/compare/side.h"

#include "tools/recipe_run/base/error.h"
#include "tools/recipe_run/base/json_reader.h"
#include "tools/recipe_run/report/json_row.h"

namespace reciperun {
namespace {

Side read_report(const google::protobuf::Struct& report) {
  Side out;
  out.run = text_member(report, "run");
  out.recipe = text_member(report, "recipe");
  out.recipe_version = text_member(report, "recipe_version");
  out.exec_digest = text_member(report, "exec_digest");
  out.device = text_member(report, "device");
  out.machine = text_member(report, "machine");
  out.engine = text_member(report, "engine");
  out.emulated_devices = static_cast<uint32_t>(number_member(report, "emulated_devices"));
  const auto rows = report.fields().find("rows");
  if (rows == report.fields().end()) throw Error(Exit::kUsage, "'rows' is missing");
  for (const auto& row : rows->second.list_value().values())
    out.rows.push_back(read_row(row.struct_value()));
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
  google::protobuf::Struct report;
  const std::string text = read_file(file);
  if (const std::string problem = parse_json(text, report); !problem.empty())
    throw Error(Exit::kUsage, "'" + file.string() + "' is not JSON: " + problem,
                "name a run's folder, or the report.json in its folder report/");
  try {
    return read_report(report);
  } catch (const Error& error) {
    throw Error(Exit::kUsage,
                "'" + file.string() + "' is no report that can be compared: " + error.what(),
                "'recipe-run report RUN' writes report/report.json anew");
  }
}

}  // namespace reciperun
