#include "tools/recipe_run/export/logged_events.h"

#include <google/protobuf/struct.pb.h>

#include <cmath>

#include "tools/recipe_run/base/error.h"
#include "tools/recipe_run/base/json_reader.h"

namespace reciperun {
namespace {

using google::protobuf::Struct;

double number(const Struct& object, const char* name) {
  const auto field = object.fields().find(name);
  if (field == object.fields().end()) return 0;
  if (field->second.has_number_value()) return field->second.number_value();
  const std::string& text = field->second.string_value();
  return text == "inf" ? HUGE_VAL : text == "-inf" ? -HUGE_VAL : std::nan("");
}

std::string text(const Struct& object, const char* name) {
  const auto field = object.fields().find(name);
  return field == object.fields().end() ? "" : field->second.string_value();
}

LoggedEvent event_of(const Struct& object) {
  LoggedEvent out;
  out.milliseconds = number(object, "t") / 1e6;
  out.since_process = number(object, "m");
  out.event = {
      text(object, "ev"), text(object, "key"), number(object, "val"), text(object, "unit"), {}, {}};
  const auto at = object.fields().find("at");
  if (at == object.fields().end()) return out;
  const Struct& place = at->second.struct_value();
  out.event.at.epoch = number(place, "epoch");
  out.event.at.step = static_cast<int64_t>(number(place, "step"));
  out.event.at.samples = static_cast<int64_t>(number(place, "samples"));
  return out;
}

}  // namespace

std::vector<LoggedEvent> logged_events(const fs::path& log) {
  const EventLogContent content = read_events(log);
  if (!content.problem.empty())
    throw Error(Exit::kTampered, "'" + log.string() + "': " + content.problem);
  std::vector<LoggedEvent> out;
  for (const std::string& line : content.lines) {
    Struct object;
    if (parse_json(line, object).empty()) out.push_back(event_of(object));
  }
  return out;
}

}  // namespace reciperun
