// One side of a comparison: a run, or the report.json of a run that lies elsewhere.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/recipe_run/judge/rows.h"
#include "tools/recipe_run/run_record/record.h"

namespace reciperun {

struct Side {
  std::string run;  // id
  std::string recipe;
  std::string recipe_version;
  std::string exec_digest;
  std::string device;
  std::string machine;  // digest of what makes timings comparable
  std::string engine;
  uint32_t emulated_devices = 0;
  std::optional<v1::Recipe> resolved;  // absent for a report, which names it by digest only
  std::vector<Row> rows;
};

Side side_of(const RunRecord& run);

// Error kUsage, naming the file, for one that is no report.json of a version that can be compared.
Side side_of_report(const fs::path& file);

}  // namespace reciperun
