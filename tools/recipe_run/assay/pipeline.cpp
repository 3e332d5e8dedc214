// Reads the steps of a recipe's pipeline, checks their order, and writes the engine's keys for
// each.
#include "tools/recipe_run/assay/pipeline.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <span>
#include <vector>

#include "tools/recipe_run/assay/objects.h"
#include "tools/recipe_run/util/error.h"
#include "tools/recipe_run/util/json.h"
#include "tools/recipe_run/util/text.h"

namespace reciperun::engine {
namespace {

constexpr double kMostPixels = 65536;  // in one direction
constexpr double kMostBufferBatches = 1e6;

using Order = std::vector<std::string>;
// The engine applies the steps in this order, whatever the order of its configuration.
const Order kOrder = {"random_resized_crop", "resize_shorter",  "center_crop", "random_crop",
                      "random_flip",         "random_rotation", "scale",       "normalize",
                      "pad_channel",         "random_erasing"};
// A micrograph passes each step once, and a flip is a step for each axis.
const Order kMicrographOrder = {"scale",
                                "resize",
                                "pad",
                                "random_flip horizontal",
                                "random_flip vertical",
                                "random_crop_and_resize",
                                "random_brightness",
                                "clip"};

const Order kTextOrder = {"tokens"};
// Photographs with boxes are fit into their sample, with or without a random factor.
const Order kObjectOrder = {"normalize", "random_flip", "random_scale_crop", "resize_longer_pad"};

bool has_boxes(const v1::DataRef& data) { return prepared_as(data.lock()) == "objects"; }

const Order& order_of(const v1::DataRef& data) {
  if (has_boxes(data)) return kObjectOrder;
  if (is_text(data)) return kTextOrder;
  return prepared_as(data.lock()) == "micrographs" ? kMicrographOrder : kOrder;
}

bool has_stage(const v1::DataRef& data, const std::string& op) {
  return std::any_of(data.pipeline().begin(), data.pipeline().end(),
                     [&](const v1::Stage& stage) { return stage.op() == op; });
}

// The arguments of one step, read with messages that name data set, step and argument. All readings
// fail with Error kUsage: for an argument that is missing, and for one that is not what is asked
// for.
class StageReader {
 public:
  StageReader(const v1::DataRef& data, const v1::Stage& stage)
      : stage_(stage),
        where_(fmt::format("data '{}': pipeline step '{}'", data.id(), stage.op())) {}

  [[noreturn]] void refuse_step(const std::string& problem, const std::string& hint = {}) const {
    throw Error(Exit::kUsage, where_ + " " + problem, hint);
  }
  [[noreturn]] void refuse(const std::string& name, const std::string& problem,
                           const std::string& hint = {}) const {
    throw Error(Exit::kUsage, fmt::format("{}: {} '{}' {}", where_, name, text(name), problem),
                hint);
  }

  // As the engine's order names it: a flip is a step for each axis, horizontal unless said.
  std::string step() const {
    if (stage_.op() != "random_flip") return stage_.op();
    const std::string axis = stage_.arg().contains("axis") ? text("axis") : "horizontal";
    if (axis != "horizontal" && axis != "vertical")
      refuse("axis", "is not understood", "horizontal or vertical");
    return "random_flip " + axis;
  }

  const std::string& text(const std::string& name) const {
    const auto found = stage_.arg().find(name);
    if (found == stage_.arg().end()) refuse_step("needs the argument '" + name + "'");
    return found->second;
  }

  // "0.5" or "[0.5, 1, 2]"; finite.
  std::vector<double> numbers(const std::string& name) const {
    std::string list = text(name);
    if (list.size() >= 2 && list.front() == '[' && list.back() == ']')
      list = list.substr(1, list.size() - 2);
    std::vector<double> values;
    for (const char* at = list.c_str();; ++at) {
      char* end = nullptr;
      values.push_back(std::strtod(at, &end));
      const char* after = end;
      while (*after == ' ') ++after;
      if (end == at || (*after != ',' && *after != '\0') || !std::isfinite(values.back()))
        refuse(name, "is not a number or a list of numbers", "0.5 or [0.5, 1]");
      if (*after == '\0') return values;
      at = after;
    }
  }
  double number(const std::string& name) const {
    const std::vector<double> values = numbers(name);
    if (values.size() != 1) refuse(name, "is not a number");
    return values[0];
  }
  std::vector<double> pair(const std::string& name) const {
    std::vector<double> values = numbers(name);
    if (values.size() != 2) refuse(name, "is not a list of two numbers", "[0.08, 1]");
    return values;
  }
  bool has(const std::string& name) const { return stage_.arg().contains(name); }
  int64_t whole(const std::string& name) const {  // 0 to 65,536
    return pixels(name, number(name), 0);
  }
  bool flag(const std::string& name) const {
    const std::string& value = text(name);
    if (value != "true" && value != "false")
      refuse(name, "is neither true nor false", "true or false");
    return value == "true";
  }
  // Rows and columns: 1 to 65,536.
  std::vector<int64_t> extent(const std::string& name) const {
    const std::vector<double> to = pair(name);
    return {pixels(name, to[0], 1), pixels(name, to[1], 1)};
  }
  // The side of a square, given as height and width: 1 to 65,536.
  int64_t side(const std::string& name) const {
    const std::vector<double> to = pair(name);
    if (to[0] != to[1]) refuse(name, "is not square", "[224, 224]");
    return pixels(name, to[0], 1);
  }

 private:
  int64_t pixels(const std::string& name, double value, double least) const {
    if (value != std::floor(value) || value < least || value > kMostPixels)
      refuse(name, "is not a whole number");
    return static_cast<int64_t>(value);
  }

  const v1::Stage& stage_;
  std::string where_;
};

// The engine's keys for one step of either kind of pipeline. `step` stands in the kind's order.
void write_step(JsonObject& json, const StageReader& reader, const std::string& step) {
  if (step == "random_resized_crop") {
    const std::vector<double> area = reader.pair("area"), aspect = reader.pair("aspect");
    json.field("crop", "random").field("size", reader.side("to"));
    json.field("min_area", area[0]).field("max_area", area[1]);
    json.field("min_aspect", aspect[0]).field("max_aspect", aspect[1]);
  } else if (step == "resize_shorter") {
    json.field("resize_shorter", reader.whole("to"));
  } else if (step == "center_crop") {
    json.field("crop", "centre").field("size", reader.side("to"));
  } else if (step == "random_crop") {
    json.field("crop_padding", reader.whole("pad"));
  } else if (step == "random_flip horizontal") {
    json.field("flip_horizontal", 0.5);
  } else if (step == "random_flip vertical") {
    json.field("flip_vertical", 0.5);
  } else if (step == "random_rotation") {
    json.field("rotation_degrees", reader.number("degrees"));
  } else if (step == "normalize") {
    json.field("mean", reader.numbers("mean")).field("stddev", reader.numbers("std"));
  } else if (step == "pad_channel") {
    json.field("channels", reader.whole("to"));
  } else if (step == "random_erasing") {
    json.field("erasing_probability", reader.number("probability"));
  } else if (step == "scale") {
    json.field("scale", reader.number("by"));
  } else if (step == "resize") {
    if (reader.text("filter") != "bilinear_legacy")
      reader.refuse("filter", "is not offered by this engine", "bilinear_legacy");
    json.field("size", reader.side("to"));
  } else if (step == "pad") {
    if (reader.number("value") != 0) reader.refuse("value", "is not offered by this engine", "0");
    json.field("padded", reader.side("to"));
  } else if (step == "random_scale_crop") {
    json.field("size", reader.extent("to")).field("scale_jitter", reader.pair("scale"));
  } else if (step == "resize_longer_pad") {
    json.field("size", reader.extent("to"));
  } else if (step == "random_crop_and_resize") {
    json.field("max_cut", reader.number("max_cut"));
  } else if (step == "random_brightness") {
    json.field("max_brightness", reader.number("max_delta"));
  } else if (step == "tokens") {
    json.field("sequence_length", reader.whole("sequence_length"));
    for (const char* name : {"prediction_slots", "stride", "max_question"})
      if (reader.has(name)) json.field(name, reader.whole(name));
  } else {
    json.field("clip", reader.pair("to"));
  }
}

// A recipe that wants another order than the engine's would silently get other pixels: what a crop
// pads with depends on whether it comes before normalisation.
class OrderCheck {
 public:
  OrderCheck(const Order& order, bool once) : order_(order), once_(once) {}

  void next(const StageReader& reader, const std::string& step) {
    const auto known = std::find(order_.begin(), order_.end(), step);
    if (known == order_.end())
      reader.refuse_step("is not offered by this engine for such data", join(order_, ", "));
    const auto place = known - order_.begin();
    if (place < last_ || (once_ && place == last_))
      reader.refuse_step("cannot stand after " + order_[static_cast<size_t>(last_)],
                         "the order is " + join(order_, ", "));
    last_ = place;
  }

 private:
  const Order& order_;
  bool once_;
  std::ptrdiff_t last_ = -1;
};

// Without its first step if that is the order of a stream, which is the loader's.
v1::DataRef without_order(v1::DataRef data) {
  if (streamed(data)) data.mutable_pipeline()->DeleteSubrange(0, 1);
  return data;
}

// The engine has defaults that a recipe must not get unasked.
void require_steps(const v1::DataRef& data, bool micrographs) {
  if (is_text(data)) {
    require(has_stage(data, "tokens"),
            fmt::format("data.{}.pipeline does not say how long its sequences are", data.id()),
            "tokens {sequence_length}, and {prediction_slots} where the data have masked words");
    return;
  }
  if (has_boxes(data)) {
    require(has_stage(data, "random_scale_crop") != has_stage(data, "resize_longer_pad"),
            fmt::format("data.{}.pipeline must fit its images into a size in one step", data.id()),
            "resize_longer_pad {to}, or for training random_scale_crop {to, scale}");
    return;
  }
  if (!micrographs) {  // it resizes and crops in one step
    const bool resizes = has_stage(data, "resize_shorter");
    require(resizes == has_stage(data, "center_crop"),
            fmt::format("data '{}': {} needs {} beside it", data.id(),
                        resizes ? "resize_shorter" : "center_crop",
                        resizes ? "center_crop" : "resize_shorter"));
    return;
  }
  for (const char* step : {"scale", "resize", "pad"}) {
    require(has_stage(data, step),
            fmt::format("data.{}.pipeline has no step '{}', and nothing stands in for it",
                        data.id(), step),
            "micrographs need scale {by, offset}, resize {to, filter} and pad {to, value}");
  }
}

// Writes every step into one of the two, those that the trainer can do into `trainers`.
void write_steps(const v1::DataRef& data, JsonObject& loaders, JsonObject& trainers) {
  const bool micrographs = prepared_as(data.lock()) == "micrographs";
  const bool text = is_text(data);
  OrderCheck order(order_of(data), micrographs);
  for (const v1::Stage& stage : data.pipeline()) {
    const StageReader reader(data, stage);
    order.next(reader, micrographs ? reader.step() : stage.op());
    const std::string step = reader.step();
    const bool late = step == "scale" || step == "normalize" || step == "pad_channel";
    JsonObject& json = late ? trainers : loaders;
    if (step == "pad_channel" && &trainers != &loaders) {
      json.field("channels",
                 3);  // of the loader's bytes: the trainer adds the model's further ones
    } else {
      write_step(json, reader, step);
    }
    if (micrographs && step == "scale") json.field("offset", reader.number("offset"));
  }
  require_steps(data, micrographs);
  // Without a step that says otherwise, pixels are 0 to 255; the engine's own default is 0 to 1.
  if (!micrographs && !text && data.pipeline_size() > 0 && !has_stage(data, "scale"))
    trainers.field("scale", 1.0);
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

bool is_text(const v1::DataRef& data) {
  const std::string kind = prepared_as(data.lock());
  return kind == "masked_pairs" || kind == "sequences" || kind == "windows";
}

std::string transform_config(const v1::DataRef& whole, bool origin) {
  JsonObject json;
  write_steps(without_order(whole), json, json);
  if (origin) json.field("origin", true);
  return json.text();
}

std::vector<int64_t> image_size(const v1::DataRef& data) {
  for (const v1::Stage& stage : data.pipeline())
    if (has_boxes(data) && (stage.op() == "random_scale_crop" || stage.op() == "resize_longer_pad"))
      return StageReader(data, stage).extent("to");
  return {};
}

std::optional<RawPipeline> raw_pipeline(const v1::DataRef& whole) {
  const v1::DataRef data = without_order(whole);
  if (prepared_as(data.lock()) == "micrographs" || is_text(data) || has_boxes(data) ||
      has_stage(data, "random_rotation") || has_stage(data, "random_erasing"))
    return std::nullopt;
  JsonObject transform, images;
  write_steps(data, transform, images);
  transform.field("raw", true);
  return RawPipeline{transform.text(), images.text()};
}

TextShape text_shape(const v1::DataRef& whole) {
  const v1::DataRef data = without_order(whole);
  if (!is_text(data) || data.pipeline_size() == 0) return {};
  const StageReader reader(data, data.pipeline(0));
  return {reader.whole("sequence_length"),
          reader.has("prediction_slots") ? reader.whole("prediction_slots") : 0,
          reader.has("packed") && reader.flag("packed")};
}

}  // namespace reciperun::engine
