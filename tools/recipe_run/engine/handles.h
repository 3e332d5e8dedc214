// The C ABI's handles and calls, which all tools share, under the engine folder's own names.
#pragma once

#include "tools/common/abi.h"
#include "tools/recipe_run/base/error.h"

namespace reciperun::engine {

using assay::tools::call;
using assay::tools::Context;
using assay::tools::Handle;
using assay::tools::Loader;
using assay::tools::Model;
using assay::tools::Predictor;
using assay::tools::Report;
using assay::tools::Slot;
using assay::tools::string;
using assay::tools::Tensor;
using assay::tools::text;
using assay::tools::Trainer;

// The JSON object of a report.
inline google::protobuf::Struct parse_report(const Report& report) {
  return assay::tools::parse(report);
}

}  // namespace reciperun::engine
