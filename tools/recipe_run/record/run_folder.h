// The run directory: where everything a run leaves behind is kept, and how it is found again.
//
//   runs/20261121T093012Z-cnn_2conv_bn-278d71e2/
//     run.json  recipe.resolved.json  recipe.resolved.textproto  recipe.lock  data.lock
//     env/machine.json
//     trials/seed-0001/  events.jsonl  steps.bin  state.json  metrics.json  checkpoint tensorboard/
//     bench/infer-d1-b64/rep-3/  steps.bin  result.json
//     report/report.md .html .json .txt
//     SHA256SUMS  of all but report/
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/recipe_run/recipe/load.h"
#include "tools/recipe_run/record/measurements.h"
#include "tools/recipe_run/record/record.pb.h"
#include "tools/recipe_run/util/file.h"

namespace reciperun {

// Now, "2026-11-21T09:30:12Z".
std::string utc_now();

// On what a run computes, and from which records: runs that differ in it are different runs.
struct RunPlace {
  std::string device = "cpu";     // or "cuda:0", "cuda:1", ...
  uint32_t emulated_devices = 0;  // that it plays one after another; 0 = none
  uint32_t ranks = 0;             // processes that train together, a device each; 0 = one
  std::map<std::string, std::string> data = {};  // digest of each split's records (data_lock.h)
  bool operator==(const RunPlace&) const = default;
};

class RunRecord {
 public:
  // A new folder below `runs`; writes the recipe, its lock, the machine and run.json.
  static RunRecord create(const fs::path& runs, const ResolvedRecipe& resolved,
                          const record::Machine& machine, const std::string& engine,
                          const RunPlace& place = {});

  // An existing folder. Fails (Exit::kTampered) if run.json or the recipe in it is damaged or its
  // digest does not fit.
  static RunRecord open(const fs::path& folder);

  const fs::path& folder() const { return folder_; }
  const record::Run& info() const { return info_; }
  const v1::Recipe& recipe() const { return recipe_; }
  RunPlace place() const;

  // Marks the run as running, without verdicts: its files may change until close().
  void begin_changes();
  // Seals every file (seal.h), and sets the status and the index of verdicts. A process that dies
  // in here leaves the run as running.
  void close(std::string status, const std::vector<record::Result>& results = {});
  bool is_running() const { return info_.status() == "running"; }
  // Fails (Exit::kTampered), naming the file, if a sealed file was changed.
  void require_intact() const;
  // The rows are judged now, with this many trials: later looks may claim less
  // (stats/looks.h).
  void add_look(uint32_t trials);

  // The expectations and free values of `resolved` replace those recorded; its exec digest must be
  // equal.
  void refresh(const ResolvedRecipe& resolved);

  fs::path trial_folder(uint64_t seed) const;
  // The checkpoint a trial stands at; "" if it has none.
  fs::path checkpoint_of(uint64_t seed) const;
  fs::path repeat_folder(const BenchTask& task) const;
  bool has_result(uint64_t seed) const;
  bool has_result(const BenchTask& task) const;

  // Everything measured so far, read back from the files.
  Measurements measurements() const;

 private:
  void save() const;
  void save_recipe(const ResolvedRecipe& resolved) const;
  Trial read_trial(const fs::path& folder) const;
  // At which a report over so many trials may claim equivalence.
  double level_of(uint32_t trials) const;

  fs::path folder_;
  record::Run info_;
  v1::Recipe recipe_;
};

// The newest run below `runs` with this exec digest, at this place. What is skipped is named in
// `skipped`: damaged folders, and runs that differ in nothing but their data.
std::optional<fs::path> find_run(const fs::path& runs, const ResolvedRecipe& resolved,
                                 const RunPlace& place, std::vector<std::string>& skipped);

// Seeds of the first `count` trials: the recipe's list, then derived from derive_root. All
// different.
std::vector<uint64_t> trial_seeds(const v1::Trials& trials, uint32_t count);

std::string trial_name(uint64_t seed);

}  // namespace reciperun
