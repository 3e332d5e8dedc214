#include "tools/recipe_run/run_record/event_log.h"

#include <google/protobuf/struct.pb.h>

#include <optional>

#include "tools/recipe_run/base/error.h"
#include "tools/recipe_run/base/json_reader.h"
#include "tools/recipe_run/base/json_writer.h"
#include "tools/recipe_run/base/sha256.h"

namespace reciperun {
namespace {

EventLogContent read_or_refuse(const fs::path& path) {
  EventLogContent content = read_events(path);
  if (!content.problem.empty()) {
    throw Error(Exit::kTampered, "'" + path.string() + "': " + content.problem,
                "the record was changed or damaged; move the run's folder away and run again");
  }
  return content;
}

// nullopt if there is no such field, or it is no text.
std::optional<std::string> text_field(const google::protobuf::Struct& object, const char* name) {
  const auto field = object.fields().find(name);
  if (field == object.fields().end() || !field->second.has_string_value()) return std::nullopt;
  return field->second.string_value();
}

}  // namespace

EventLogContent read_events(const fs::path& path) {
  EventLogContent out;
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return out;
  const std::string text = read_file(path);
  for (size_t from = 0; from < text.size();) {
    const size_t end = text.find('\n', from);
    if (end == std::string::npos) {
      out.torn_tail = true;
      break;
    }
    const std::string line = text.substr(from, end - from);
    from = end + 1;
    const auto n = static_cast<int64_t>(out.lines.size());
    google::protobuf::Struct object;
    if (!parse_json(line, object).empty()) {
      // Not JSON: a tear if it is the last line, damage otherwise.
      out.torn_tail = from >= text.size();
      if (!out.torn_tail) out.problem = "line " + std::to_string(n + 1) + " is not JSON";
      break;
    }
    if (text_field(object, "prev") != out.hash) {
      out.problem = "the hash chain breaks at line " + std::to_string(n + 1);
      break;
    }
    if (object.fields().count("n") == 0 ||
        object.fields().at("n").number_value() != static_cast<double>(n)) {
      out.problem = "line " + std::to_string(n + 1) + " has the wrong number";
      break;
    }
    out.lines.push_back(line);
    out.hash = sha256_hex(line);
    out.whole_bytes = static_cast<int64_t>(from);
  }
  return out;
}

EventLog::EventLog(const fs::path& path, std::string trial)
    : trial_(std::move(trial)), file_(path, [&] {
        const EventLogContent content = read_or_refuse(path);
        next_ = static_cast<int64_t>(content.lines.size());
        hash_ = content.hash;
        return content.whole_bytes;
      }()) {}

void EventLog::write(const Event& event) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const std::chrono::duration<double> since_start = std::chrono::steady_clock::now() - start_;
  JsonWriter json;
  json.begin_object().field("v", 2).field("n", next_).key("t");
  // Nanoseconds do not fit a double, but JSON has no limit and readers of this log want a plain
  // number.
  json.raw(std::to_string(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count()));
  json.field("m", since_start.count()).field("tr", trial_).field("rank", 0);
  json.field("ev", event.kind)
      .field("key", event.key)
      .field("val", event.value)
      .field("unit", event.unit);
  json.key("at").begin_object().field("epoch", event.at.epoch).field("step", event.at.step);
  json.field("samples", event.at.samples).end_object();
  if (!event.extra.empty()) {
    json.key("x").begin_object();
    for (const auto& [key, value] : event.extra) json.field(key, value);
    json.end_object();
  }
  json.field("prev", hash_).end_object();
  file_.append(json.text() + "\n");
  hash_ = sha256_hex(json.text());
  ++next_;
}

void EventLog::write_durably(const Event& event) {
  write(event);
  file_.sync();
}

}  // namespace reciperun
