#include "tools/recipe_run/run_record/event_log.h"

#include "tools/recipe_run/run_record/json_file.h"

namespace reciperun {
namespace {

int64_t bytes_of_whole_lines(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return 0;
  const size_t end = read_file(path).rfind('\n');
  return end == std::string::npos ? 0 : static_cast<int64_t>(end) + 1;
}

}  // namespace

EventLog::EventLog(const fs::path& path) : file_(path, bytes_of_whole_lines(path)) {}

void EventLog::write(record::Event event) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto since_start = std::chrono::steady_clock::now() - start_;
  event.set_time(std::chrono::duration<double>(now).count());
  event.set_since_start(std::chrono::duration<double>(since_start).count());
  file_.append(json_line(event) + "\n");
}

void EventLog::write_durably(record::Event event) {
  write(std::move(event));
  file_.sync();
}

}  // namespace reciperun
