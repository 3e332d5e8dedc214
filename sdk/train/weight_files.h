// Weights and statistics of a model by name: from safetensors and checkpoints, to safetensors.
#pragma once

#include <string>

#include "sdk/train/checkpoint/weights.h"
#include "sdk/train/model_instance.h"

namespace assay::train {

// Loads what the file holds for the model, as weights::import_weights does; a model without weights
// needs all of them. The whole file is read before anything is changed, which takes memory for one
// more copy of the weights: after an error the model is as it was. Moving averages that an earlier
// trainer left start again from these weights.
weights::LoadReport import_weights(ModelInstance& instance, const safetensors::Reader& file,
                                   const weights::ImportOptions& options);
weights::LoadReport import_weights(ModelInstance& instance,
                                   const checkpoint::CheckpointReader& file,
                                   const weights::ImportOptions& options);

void export_weights(const ModelInstance& instance, const std::string& path,
                    const weights::NameMap& map);

}  // namespace assay::train
