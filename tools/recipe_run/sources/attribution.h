// Whose number is it? The table, the row and the column of a cell say on which machine, on how many
// devices, at which batch size, in which precision and as which percentile it was measured, and
// over how many runs. The expectation that claims the cell, and its recipe, must say the same.
//
// What the check understands are the words of the copied tables:
//   columns "GPUs", "DGX System" ("48 x DGX A100"), "Batch size ...", "Accumulation steps ...",
//           "Precision", "Sequence length", "# of epochs", "SQuAD version"; "Throughput",
//           "Latency 90% (ms)", "Accuracy", "speedup", "Weak scaling" and so on; "mixed precision",
//           "FP32", "TF32/FP32" and "BS=104" in them
//   tables  "inference.dgx_a100.amp", "resnet50.fp32.b128", "accuracy.dgx1_32gpu"
//   text    "setup.TABLE": a sentence about all of a table; "note.TABLE.k": its footnote [k]
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "recipes/recipe.pb.h"
#include "tools/recipe_run/sources/table_file.h"

namespace reciperun {

// The row of a recipe; nullptr if it is not at hand. An empty recipe is the expectation's own.
using FindRow = std::function<const v1::Expect*(const std::string& recipe, const std::string& row)>;
// The file of a source by its id; nullptr if it holds no tables.
using FindSource = std::function<const SourceFile*(const std::string& source)>;

// Everything in which the expectation and its cells disagree, as sentences.
std::vector<std::string> attribution_problems(const v1::Recipe& recipe, const v1::Expect& expect,
                                              const FindSource& sources, const FindRow& rows);

}  // namespace reciperun
