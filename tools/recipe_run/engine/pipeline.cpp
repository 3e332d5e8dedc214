#include "tools/recipe_run/engine/pipeline.h"

#include <algorithm>
#include <vector>

#include "tools/recipe_run/base/error.h"
#include "tools/recipe_run/base/json_writer.h"
#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/engine/micrograph_pipeline.h"
#include "tools/recipe_run/engine/stage_reader.h"

namespace reciperun::engine {
namespace {

// The engine applies the steps in this order, whatever the order of its configuration.
const std::vector<std::string> kOrder = {
    "random_resized_crop", "resize_shorter", "center_crop", "random_crop", "random_flip",
    "random_rotation",     "scale",          "normalize",   "pad_channel", "random_erasing"};

constexpr double kMostBufferBatches = 1e6;

void write_random_resized_crop(JsonWriter& json, const StageReader& reader) {
  const std::vector<double> area = reader.pair("area"), aspect = reader.pair("aspect");
  json.field("crop", "random").field("size", reader.side("to"));
  json.field("min_area", area[0]).field("max_area", area[1]);
  json.field("min_aspect", aspect[0]).field("max_aspect", aspect[1]);
}

void write_stage(JsonWriter& json, const v1::DataRef& data, const v1::Stage& stage) {
  const std::string& op = stage.op();
  const StageReader reader(data, stage);
  if (op == "random_resized_crop") {
    write_random_resized_crop(json, reader);
  } else if (op == "resize_shorter") {
    json.field("resize_shorter", reader.whole("to"));
  } else if (op == "center_crop") {
    json.field("crop", "centre").field("size", reader.side("to"));
  } else if (op == "pad_channel") {
    json.field("channels", reader.whole("to"));
  } else if (op == "scale") {
    json.field("scale", reader.number("by"));
  } else if (op == "normalize") {
    json.field("mean", reader.numbers("mean"));
    json.field("stddev", reader.numbers("std"));
  } else if (op == "random_flip") {
    const std::string axis = stage.arg().contains("axis") ? reader.text("axis") : "horizontal";
    if (axis != "horizontal" && axis != "vertical")
      reader.refuse("axis", "is not understood", "horizontal or vertical");
    json.field("flip_" + axis, 0.5);
  } else if (op == "random_crop") {
    json.field("crop_padding", reader.whole("pad"));
  } else if (op == "random_rotation") {
    json.field("rotation_degrees", reader.number("degrees"));
  } else if (op == "random_erasing") {
    json.field("erasing_probability", reader.number("probability"));
  } else {
    reader.refuse_step("is not offered by this engine", join(kOrder, ", "));
  }
}

// A recipe that wants another order would silently get other pixels: what a crop pads with depends
// on whether it comes before normalisation.
void require_engine_order(const v1::DataRef& data) {
  const auto rank = [](const v1::Stage& stage) {
    return std::find(kOrder.begin(), kOrder.end(), stage.op());
  };
  for (int i = 1; i < data.pipeline_size(); ++i) {
    const v1::Stage& before = data.pipeline(i - 1);
    const v1::Stage& stage = data.pipeline(i);
    if (rank(stage) < rank(before)) {
      throw Error(Exit::kUsage,
                  "data '" + data.id() + "': " + stage.op() + " cannot stand after " + before.op(),
                  "the engine's order is " + join(kOrder, ", "));
    }
  }
}

// The engine resizes and crops in one step, and has a default for each that a recipe must not get
// unasked.
void require_both_or_neither(const v1::DataRef& data, const std::string& a, const std::string& b) {
  if (has_stage(data, a) == has_stage(data, b)) return;
  throw Error(Exit::kUsage, "data '" + data.id() + "': " + (has_stage(data, a) ? a : b) +
                                " needs " + (has_stage(data, a) ? b : a) + " beside it");
}

}  // namespace

bool streamed(const v1::DataRef& data) {
  return data.pipeline_size() > 0 && data.pipeline(0).op() == "shuffle_stream";
}

double stream_buffer_batches(const v1::DataRef& data) {
  const StageReader reader(data, data.pipeline(0));
  const double batches = reader.number("buffer_batches");
  if (batches <= 0 || batches > kMostBufferBatches)
    reader.refuse("buffer_batches", "is not above 0 and at most 1,000,000");
  return batches;
}

namespace {

// Without its first step if that is the order of a stream, which is the loader's.
v1::DataRef without_order(v1::DataRef data) {
  if (streamed(data)) data.mutable_pipeline()->DeleteSubrange(0, 1);
  return data;
}

// Without a step that says otherwise, pixels are 0 to 255; the engine's own default is 0 to 1.
void write_default_scale(JsonWriter& json, const v1::DataRef& data) {
  if (data.pipeline_size() > 0 && !has_stage(data, "scale")) json.field("scale", 1.0);
}

bool of_the_trainer(const v1::Stage& stage) {
  return stage.op() == "scale" || stage.op() == "normalize" || stage.op() == "pad_channel";
}

}  // namespace

std::string transform_config(const v1::DataRef& whole) {
  const v1::DataRef data = without_order(whole);
  if (has_micrograph_pipeline(data)) return micrograph_transform(data);
  require_engine_order(data);
  require_both_or_neither(data, "resize_shorter", "center_crop");
  JsonWriter json;
  json.begin_object();
  for (const v1::Stage& stage : data.pipeline()) write_stage(json, data, stage);
  write_default_scale(json, data);
  return json.end_object().text();
}

std::optional<RawPipeline> raw_pipeline(const v1::DataRef& whole) {
  const v1::DataRef data = without_order(whole);
  if (has_micrograph_pipeline(data) || has_stage(data, "random_rotation") ||
      has_stage(data, "random_erasing"))
    return std::nullopt;
  transform_config(whole);  // what is wrong with it is said of the whole
  JsonWriter transform, images;
  transform.begin_object();
  images.begin_object();
  for (const v1::Stage& stage : data.pipeline()) {
    if (stage.op() == "pad_channel") {
      images.field("channels", int64_t{3});
    } else {
      write_stage(of_the_trainer(stage) ? images : transform, data, stage);
    }
  }
  write_default_scale(images, data);
  transform.field("raw", true);
  return RawPipeline{transform.end_object().text(), images.end_object().text()};
}

}  // namespace reciperun::engine
