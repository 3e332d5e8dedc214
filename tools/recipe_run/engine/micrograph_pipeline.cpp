#include "tools/recipe_run/engine/micrograph_pipeline.h"

#include <array>
#include <cstdlib>
#include <vector>

#include "tools/recipe_run/base/error.h"
#include "tools/recipe_run/base/json_writer.h"

namespace reciperun::engine {
namespace {

// One stage of a pipeline, for reading its arguments with messages that name it.
class StageReader {
 public:
  StageReader(const v1::DataRef& data, const v1::Stage& stage)
      : stage_(stage), where_("data '" + data.id() + "': pipeline step '" + stage.op() + "'") {}

  void require(bool ok, const std::string& what) const {
    if (!ok) throw Error(Exit::kUsage, where_ + " " + what);
  }
  std::string text(const std::string& name) const {
    const auto found = stage_.arg().find(name);
    require(found != stage_.arg().end(), "needs the argument '" + name + "'");
    return found->second;
  }
  // Numbers of "1.5" or "[1, 2]".
  std::vector<double> numbers(const std::string& name, size_t count) const {
    const std::string list = text(name);
    std::vector<double> out;
    const char* at = list.c_str();
    if (*at == '[') ++at;
    for (;;) {
      char* end = nullptr;
      out.push_back(std::strtod(at, &end));
      require(end != at, name + " '" + list + "' is not a number or list of numbers");
      at = end;
      while (*at == ' ' || *at == ',') ++at;
      if (*at == '\0' || *at == ']') break;
    }
    require(out.size() == count, name + " '" + list + "' needs " + std::to_string(count) +
                                     (count == 1 ? " number" : " numbers"));
    return out;
  }
  int64_t side(const std::string& name) const {
    const std::vector<double> sides = numbers(name, 2);
    require(sides[0] == sides[1], name + " must be square");
    return static_cast<int64_t>(sides[0]);
  }

 private:
  const v1::Stage& stage_;
  std::string where_;
};

// The engine's steps in its order; a flip is two of them.
constexpr std::array<const char*, 8> kOrder = {"scale",
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
    json.field("scale", reader.numbers("by", 1)[0]).field("offset", reader.numbers("offset", 1)[0]);
  } else if (step == "resize") {
    reader.require(reader.text("filter") == "bilinear_legacy", "knows the filter bilinear_legacy");
    json.field("size", reader.side("to"));
  } else if (step == "pad") {
    reader.require(reader.numbers("value", 1)[0] == 0, "pads with 0");
    json.field("padded", reader.side("to"));
  } else if (step == "random_flip horizontal") {
    json.field("flip_horizontal", 0.5);
  } else if (step == "random_flip vertical") {
    json.field("flip_vertical", 0.5);
  } else if (step == "random_crop_and_resize") {
    json.field("max_cut", reader.numbers("max_cut", 1)[0]);
  } else if (step == "random_brightness") {
    json.field("max_brightness", reader.numbers("max_delta", 1)[0]);
  } else {
    json.field("clip", reader.numbers("to", 2));
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
    size_t place = next;
    while (place < kOrder.size() && kOrder[place] != step) ++place;
    if (place == kOrder.size()) {
      std::string order;
      for (const char* known : kOrder) order += (order.empty() ? "" : ", ") + std::string(known);
      reader.require(false,
                     "is unknown for micrographs, or stands too late; the order is " + order);
    }
    write_step(json, reader, step);
    next = place + 1;
  }
  return json.end_object().text();
}

}  // namespace reciperun::engine
