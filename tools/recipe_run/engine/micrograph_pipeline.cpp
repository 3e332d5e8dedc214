#include "tools/recipe_run/engine/micrograph_pipeline.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "tools/recipe_run/base/error.h"
#include "tools/recipe_run/base/json_writer.h"
#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/engine/stage_reader.h"

namespace reciperun::engine {
namespace {

// The engine's steps in its order; a flip is two of them.
constexpr std::array<std::string_view, 8> kOrder = {"scale",
                                                    "resize",
                                                    "pad",
                                                    "random_flip horizontal",
                                                    "random_flip vertical",
                                                    "random_crop_and_resize",
                                                    "random_brightness",
                                                    "clip"};

std::string step_of(const StageReader& reader, const v1::Stage& stage) {
  return stage.op() == "random_flip" ? stage.op() + " " + reader.text("axis") : stage.op();
}

void write_step(JsonWriter& json, const StageReader& reader, const std::string& step) {
  if (step == "scale") {
    json.field("scale", reader.number("by")).field("offset", reader.number("offset"));
  } else if (step == "resize") {
    if (reader.text("filter") != "bilinear_legacy")
      reader.refuse("filter", "is not offered by this engine", "bilinear_legacy");
    json.field("size", reader.side("to"));
  } else if (step == "pad") {
    if (reader.number("value") != 0) reader.refuse("value", "is not offered by this engine", "0");
    json.field("padded", reader.side("to"));
  } else if (step == "random_flip horizontal") {
    json.field("flip_horizontal", 0.5);
  } else if (step == "random_flip vertical") {
    json.field("flip_vertical", 0.5);
  } else if (step == "random_crop_and_resize") {
    json.field("max_cut", reader.number("max_cut"));
  } else if (step == "random_brightness") {
    json.field("max_brightness", reader.number("max_delta"));
  } else {
    json.field("clip", reader.pair("to"));
  }
}

// The first place in kOrder from `next` on with this step.
size_t place_of(const StageReader& reader, const std::string& step, size_t next) {
  const auto* found = std::find(kOrder.begin() + next, kOrder.end(), step);
  if (found == kOrder.end()) {
    const std::vector<std::string> order(kOrder.begin(), kOrder.end());
    reader.refuse_step("is unknown for micrographs, or stands too late",
                       "the order is " + join(order, ", "));
  }
  return static_cast<size_t>(found - kOrder.begin());
}

// The engine has defaults for these, which a recipe must not get unasked.
void require_steps(const v1::DataRef& data) {
  for (const char* step : {"scale", "resize", "pad"}) {
    if (has_stage(data, step)) continue;
    throw Error(
        Exit::kUsage,
        "data." + data.id() + ".pipeline has no step '" + step + "', and nothing stands in for it",
        "micrographs need scale {by, offset}, resize {to, filter} and pad {to, value}");
  }
}

}  // namespace

bool has_micrograph_pipeline(const v1::DataRef& data) { return data.lock() == "isbi2012_em"; }

std::string micrograph_transform(const v1::DataRef& data) {
  JsonWriter json;
  json.begin_object();
  size_t next = 0;
  for (const v1::Stage& stage : data.pipeline()) {
    const StageReader reader(data, stage);
    const std::string step = step_of(reader, stage);
    next = place_of(reader, step, next) + 1;
    write_step(json, reader, step);
  }
  require_steps(data);
  return json.end_object().text();
}

}  // namespace reciperun::engine
