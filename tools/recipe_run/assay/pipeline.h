// A recipe's pipeline, the steps from record to sample, as the engine's transform.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "recipes/recipe.pb.h"

namespace reciperun::engine {

// The JSON text of the transform. Error kUsage for a step this engine does not offer, for one whose
// arguments make no sense, and for an order that the engine would not keep. Which steps there are
// depends on the data: the engine's list of data sets says how each one's records are prepared.
// With `origin`, which photographs with boxes have, samples say what they show.
std::string transform_config(const v1::DataRef& data, bool origin = false);

// The pipeline in two parts: the loader's, which gives bytes, and the "raw_images" of the trainer,
// which makes numbers of them on its device.
struct RawPipeline {
  std::string transform, raw_images;  // JSON texts
};
// None for pipelines that cannot be parted so.
std::optional<RawPipeline> raw_pipeline(const v1::DataRef& data);

// Of photographs with boxes: rows and columns of a sample. Empty of other data.
std::vector<int64_t> image_size(const v1::DataRef& data);

// Whether the records are text as ids.
bool is_text(const v1::DataRef& data);
// Of data of text: pieces of a sequence, and masked ones. 0 where there are none.
struct TextShape {
  int64_t length = 0, slots = 0;
  bool packed = false;  // padding is not computed in training
};
TextShape text_shape(const v1::DataRef& data);

// Whether the pipeline begins with shuffle_stream {buffer_batches}: records repeat forever, dealt
// out to the devices and shuffled through a buffer of so many batches, instead of in epochs.
bool streamed(const v1::DataRef& data);
double stream_buffer_batches(const v1::DataRef& data);

}  // namespace reciperun::engine
