#include "tools/recipe_run/report/run_check.h"

#include <fmt/core.h>

#include <map>

#include "tools/recipe_run/base/error.h"
#include "tools/recipe_run/report/report.h"
#include "tools/recipe_run/run_record/seal.h"

namespace reciperun {
namespace {

void check_verdicts(const RunRecord& run, RunCheck& out) {
  std::map<std::string, std::string> derived;
  for (const Row& row : make_report(run).rows)
    derived[row.id] = verdict_word(row.judgement.verdict);
  out.rows = static_cast<int>(derived.size());
  for (const record::Result& recorded : run.info().result()) {
    const auto found = derived.find(recorded.row());
    const std::string now = found == derived.end() ? "no such row" : found->second;
    if (now == recorded.verdict()) continue;
    out.problems.push_back(
        fmt::format("run.json: row {} is recorded as {}, the measurements give {}", recorded.row(),
                    recorded.verdict(), now));
  }
}

}  // namespace

RunCheck check_run(const RunRecord& run) {
  RunCheck out;
  out.problems =
      seal_problems(run.folder(), run.is_running() ? RunState::kRunning : RunState::kClosed);
  out.files = static_cast<int>(covered_digests(run.folder()).size());
  try {
    check_verdicts(run, out);
  } catch (const Error& error) {  // a file too damaged to be read is one more problem
    out.problems.emplace_back(error.what());
  }
  return out;
}

}  // namespace reciperun
