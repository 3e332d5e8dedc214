// Reports as JSON (report.proto), written and read.
#pragma once

#include "tools/recipe_run/report/report.pb.h"
#include "tools/recipe_run/report/tables.h"

namespace reciperun {

json::Row json_row(const Row& row);

// The row of a report.json as far as another run's is held against it: names, values, statistic and
// tolerance. Fails (Exit::kUsage) if it lacks one of them.
Row row_of_json(const json::Row& row);

}  // namespace reciperun
