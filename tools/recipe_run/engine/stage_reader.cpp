#include "tools/recipe_run/engine/stage_reader.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "tools/recipe_run/base/error.h"

namespace reciperun::engine {

constexpr double kMostPixels = 65536;  // in one direction

bool has_stage(const v1::DataRef& data, const std::string& op) {
  return std::any_of(data.pipeline().begin(), data.pipeline().end(),
                     [&](const v1::Stage& stage) { return stage.op() == op; });
}

StageReader::StageReader(const v1::DataRef& data, const v1::Stage& stage)
    : stage_(stage), where_("data '" + data.id() + "': pipeline step '" + stage.op() + "'") {}

void StageReader::refuse_step(const std::string& problem, const std::string& hint) const {
  throw Error(Exit::kUsage, where_ + " " + problem, hint);
}

void StageReader::refuse(const std::string& name, const std::string& problem,
                         const std::string& hint) const {
  throw Error(Exit::kUsage, where_ + ": " + name + " '" + text(name) + "' " + problem, hint);
}

const std::string& StageReader::text(const std::string& name) const {
  const auto found = stage_.arg().find(name);
  if (found == stage_.arg().end()) refuse_step("needs the argument '" + name + "'");
  return found->second;
}

std::vector<double> StageReader::numbers(const std::string& name) const {
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

double StageReader::number(const std::string& name) const {
  const std::vector<double> values = numbers(name);
  if (values.size() != 1) refuse(name, "is not a number");
  return values[0];
}

int64_t StageReader::whole(const std::string& name, double value, double least) const {
  if (value != std::floor(value) || value < least || value > kMostPixels)
    refuse(name, "is not a whole number of pixels");
  return static_cast<int64_t>(value);
}

int64_t StageReader::whole(const std::string& name) const { return whole(name, number(name), 0); }

std::vector<double> StageReader::pair(const std::string& name) const {
  std::vector<double> values = numbers(name);
  if (values.size() != 2) refuse(name, "is not a list of two numbers", "[0.08, 1]");
  return values;
}

int64_t StageReader::side(const std::string& name) const {
  const std::vector<double> to = pair(name);
  if (to[0] != to[1]) refuse(name, "is not square", "[224, 224]");
  return whole(name, to[0], 1);
}

}  // namespace reciperun::engine
