// Rows as test cases in JUnit's XML: of one run's report, and of two runs compared.
#pragma once

#include <string>
#include <vector>

#include "tools/recipe_run/report/report.h"
#include "tools/recipe_run/report/tables.h"

namespace reciperun {

struct JunitSuite {
  std::string name;
  std::string class_name;
  std::string created;  // UTC; "" = unknown
};

// Only gate rows can fail or err, so that the file says what the exit code says: DIFFERS (worse) is
// a failure; INCONCLUSIVE and INVALID are errors. All other rows without agreement are skipped,
// with the reason.
std::string junit_rows(const JunitSuite& suite, const std::vector<Row>& rows,
                       const TableWords& words = {});
std::string junit_xml(const Report& report);

}  // namespace reciperun
