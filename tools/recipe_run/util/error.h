// The error and the exit codes that all tools share, under recipe-run's own names.
#pragma once

#include "tools/common/error.h"

namespace reciperun {

using assay::tools::Error;
using assay::tools::Exit;
using assay::tools::Failed;
using assay::tools::more_urgent;
using assay::tools::TooLarge;

// Raises an Error of kUsage unless `ok`.
inline void require(bool ok, const std::string& message, const std::string& hint = {}) {
  if (!ok) throw Error(Exit::kUsage, message, hint);
}

}  // namespace reciperun
