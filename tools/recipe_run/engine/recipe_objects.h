// Models and loaders as a recipe describes them, through the C interface.
#pragma once

#include <google/protobuf/struct.pb.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tools/recipe_run/base/file.h"
#include "tools/recipe_run/engine/configuration.h"
#include "tools/recipe_run/engine/folds.h"
#include "tools/recipe_run/engine/handles.h"

namespace reciperun::engine {

inline constexpr size_t kBatchTensors = 2;  // image and label
inline constexpr size_t kRawTensors = 3;    // bytes, label and placement

Model new_model(const assay_context* context, const v1::Recipe& recipe);
google::protobuf::Struct model_report(const assay_model* model);

// The trained variables; those beside a running mean belong to a normalisation.
std::vector<Variable> variables_of(const google::protobuf::Struct& report);

// Reports print 64-bit integers as text.
int64_t integer(const google::protobuf::Value& value);

fs::path folder_of(const v1::Recipe& recipe, const v1::DataRef& data);

Loader new_loader(const assay_context* context, const v1::Recipe& recipe, const v1::DataRef& data,
                  const LoaderConfig& config);
int64_t loader_samples(const assay_loader* loader);

// Fails if a split of the recipe is not there or does not hold as many samples as the recipe
// expects, and for a pipeline that this engine does not offer.
void check_data(const v1::Recipe& recipe);

// The records of a trial's fold; none, which means all, without folds. Fails if the split does not
// hold as many samples as the recipe expects.
Share share_of(const v1::Recipe& recipe, const v1::DataRef& data, uint64_t fold);

// Where batches of training come from: a GPU takes images as bytes, where the pipeline allows it,
// and makes numbers of them itself.
struct Feeding {
  size_t tensors = kBatchTensors;  // of a batch
  std::string transform;           // "": the recipe's whole pipeline
  std::string raw_images;
};
Feeding feeding_for(const v1::DataRef& data, bool on_gpu);
Loader new_training_loader(const assay_context* context, const v1::Recipe& recipe,
                           const Feeding& feeding, LoaderConfig config);

}  // namespace reciperun::engine
