// The event log of a trial as numbers, for the exporters.
#pragma once

#include <vector>

#include "tools/recipe_run/base/file.h"
#include "tools/recipe_run/run_record/event_log.h"

namespace reciperun {

struct LoggedEvent {
  double milliseconds = 0;   // since 1970
  double since_process = 0;  // seconds
  Event event;               // without `extra`
};

// Fails (Exit::kTampered) if the log's chain is broken.
std::vector<LoggedEvent> logged_events(const fs::path& log);

}  // namespace reciperun
