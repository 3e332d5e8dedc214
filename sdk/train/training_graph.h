// Builds the graphs of training and evaluation: the model's forward, its gradient, the updates.
#pragma once

#include <string>
#include <vector>

#include "sdk/graph/variable_table.h"
#include "sdk/nn/model.h"
#include "sdk/passes/pipeline.h"
#include "sdk/passes/precision.h"
#include "sdk/train/trainer_config.h"

namespace assay::train {

enum class GraphKind {
  kStep,           // forward, backward and update of one batch
  kBackwardFirst,  // forward and backward; gradients overwrite, which is cheaper than adding to
                   // zeros
  kBackwardNext,   // forward and backward; gradients add up
  kApply,          // update from the stored gradients
  kEval,           // evaluation
  kEvalEma,        // evaluation with the moving averages
};
// "step", "backward", "backward_next", "apply", "eval", "eval_ema"
std::string_view to_text(GraphKind kind);

// An output of the model's, with its weight, if it has one, as the output "<name>.weight".
struct ModelOutput {
  std::string name;
  nn::Reduction reduction = nn::Reduction::kLast;
  bool has_weight = false;
};

// The graph for a device (`target` below), and what the passes did to it.
struct BuiltGraph {
  Graph graph;
  std::vector<PassRecord> passes;
  std::vector<ModelOutput> outputs;  // of a forward
};

// Outputs: "loss" (mean) and the model's own where there is a forward; "grad_norm" and "skip" where
// there is an update. `kind` is one of training; `config` has its defaults (trainer_config.h). If
// `distributed`, an update is that of the gradients of all devices.
BuiltGraph build_training_graph(const nn::Model& model, VariableTable& variables,
                                const TrainerConfig& config, GraphKind kind,
                                const Target& target = {}, bool distributed = false);

// Outputs: those of the model in evaluation. With `use_ema` parameters, and statistics if they are
// averaged, are read from their moving averages.
BuiltGraph build_eval_graph(const nn::Model& model, VariableTable& variables,
                            const TrainerConfig& config, bool use_ema, const Target& target = {});

// The forward of a predictor with normalisation folded; outputs are those of kPredict.
BuiltGraph build_predict_graph(const nn::Model& model, VariableTable& variables,
                               Precision precision, int64_t batch,
                               std::span<const std::string> disabled_passes,
                               const Target& target = {});

}  // namespace assay::train
