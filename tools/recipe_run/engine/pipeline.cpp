#include "tools/recipe_run/engine/pipeline.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tools/recipe_run/base/error.h"
#include "tools/recipe_run/base/json_writer.h"
#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/engine/micrograph_pipeline.h"

namespace reciperun::engine {
namespace {

// The engine applies the steps in this order, whatever the order of its configuration.
const std::vector<std::string> kOrder = {
    "random_resized_crop", "resize_shorter", "center_crop", "random_crop", "random_flip",
    "random_rotation",     "scale",          "normalize",   "pad_channel", "random_erasing"};

const std::string& argument(const v1::Stage& stage, const std::string& name) {
  const auto found = stage.arg().find(name);
  if (found == stage.arg().end()) {
    throw Error(Exit::kUsage,
                "pipeline step '" + stage.op() + "' needs the argument '" + name + "'");
  }
  return found->second;
}

[[noreturn]] void refuse(const v1::Stage& stage, const std::string& name,
                         const std::string& problem, const std::string& hint = {}) {
  throw Error(
      Exit::kUsage,
      "pipeline step '" + stage.op() + "': " + name + " '" + argument(stage, name) + "' " + problem,
      hint);
}

// "0.5" or "[0.5, 1, 2]".
std::vector<double> numbers(const v1::Stage& stage, const std::string& name) {
  std::string text = argument(stage, name);
  if (text.size() >= 2 && text.front() == '[' && text.back() == ']')
    text = text.substr(1, text.size() - 2);
  std::vector<double> values;
  for (const char* at = text.c_str();; ++at) {
    char* end = nullptr;
    values.push_back(std::strtod(at, &end));
    const char* after = end;
    while (*after == ' ') ++after;
    if (end == at || (*after != ',' && *after != '\0'))
      refuse(stage, name, "is not a number or a list of numbers", "0.5 or [0.5, 1]");
    if (*after == '\0') return values;
    at = after;
  }
}

double number(const v1::Stage& stage, const std::string& name) {
  const std::vector<double> values = numbers(stage, name);
  if (values.size() != 1) refuse(stage, name, "is not a number");
  return values[0];
}

std::vector<double> pair(const v1::Stage& stage, const std::string& name) {
  std::vector<double> values = numbers(stage, name);
  if (values.size() != 2) refuse(stage, name, "is not a list of two numbers", "[0.08, 1]");
  return values;
}

// Height and width, which the engine wants equal.
int64_t side(const v1::Stage& stage) {
  const std::vector<double> to = pair(stage, "to");
  if (to[0] != to[1]) refuse(stage, "to", "is not square", "[224, 224]");
  return std::llround(to[0]);
}

void write_random_resized_crop(JsonWriter& json, const v1::Stage& stage) {
  const std::vector<double> area = pair(stage, "area"), aspect = pair(stage, "aspect");
  json.field("crop", "random").field("size", side(stage));
  json.field("min_area", area[0]).field("max_area", area[1]);
  json.field("min_aspect", aspect[0]).field("max_aspect", aspect[1]);
}

void write_stage(JsonWriter& json, const v1::Stage& stage, const std::string& where) {
  const std::string& op = stage.op();
  if (op == "random_resized_crop") {
    write_random_resized_crop(json, stage);
  } else if (op == "resize_shorter") {
    json.field("resize_shorter", static_cast<int64_t>(std::llround(number(stage, "to"))));
  } else if (op == "center_crop") {
    json.field("crop", "centre").field("size", side(stage));
  } else if (op == "pad_channel") {
    json.field("channels", static_cast<int64_t>(std::llround(number(stage, "to"))));
  } else if (op == "scale") {
    json.field("scale", number(stage, "by"));
  } else if (op == "normalize") {
    json.field("mean", numbers(stage, "mean"));
    json.field("stddev", numbers(stage, "std"));
  } else if (op == "random_flip") {
    const auto axis = stage.arg().find("axis");
    const bool vertical = axis != stage.arg().end() && axis->second == "vertical";
    json.field(vertical ? "flip_vertical" : "flip_horizontal", 0.5);
  } else if (op == "random_crop") {
    json.field("crop_padding", static_cast<int64_t>(std::llround(number(stage, "pad"))));
  } else if (op == "random_rotation") {
    json.field("rotation_degrees", number(stage, "degrees"));
  } else if (op == "random_erasing") {
    json.field("erasing_probability", number(stage, "probability"));
  } else {
    throw Error(Exit::kUsage, where + ": pipeline step '" + op + "' is not offered by this engine",
                join(kOrder, ", "));
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

bool has_stage(const v1::DataRef& data, const std::string& op) {
  return std::any_of(data.pipeline().begin(), data.pipeline().end(),
                     [&](const v1::Stage& stage) { return stage.op() == op; });
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
  return number(data.pipeline(0), "buffer_batches");
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
  for (const v1::Stage& stage : data.pipeline())
    write_stage(json, stage, "data '" + data.id() + "'");
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
      write_stage(of_the_trainer(stage) ? images : transform, stage, "data '" + data.id() + "'");
    }
  }
  write_default_scale(images, data);
  transform.field("raw", true);
  return RawPipeline{transform.end_object().text(), images.end_object().text()};
}

}  // namespace reciperun::engine
