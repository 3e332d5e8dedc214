// Processes that train together, one device each. The first conducts: it keeps the record of the
// run, and tells the others, before each thing that all must do, what that is.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "assay/assay_comm.h"
#include "tools/recipe_run/assay/objects.h"
#include "tools/recipe_run/run/trainer.h"

namespace reciperun::engine {

using Comm = assay::tools::Handle<assay_comm, assay_comm_free>;

// This process among those that mpirun or Slurm's srun has started, as their environment says.
struct RankPlace {
  uint32_t rank = 0, world = 1;
};
RankPlace rank_of_process();

class RankGroup {
 public:
  // Waits for the others. Error kNotRun if they cannot be reached, kUsage unless all have the same
  // `recipe` (any text of it) and data.
  RankGroup(const assay_context* context, const RankPlace& place, double timeout_seconds,
            const std::string& recipe);

  uint32_t rank() const { return place_.rank; }
  uint32_t world() const { return place_.world; }
  bool conducts() const { return place_.rank == 0; }
  assay_comm* comm() const { return comm_.get(); }
  // What each says, by rank.
  std::vector<std::string> gather(const std::string& mine) const;

 private:
  RankPlace place_;
  Comm comm_;
};

// Makes a trial, from a checkpoint unless that is empty: make_training_trial.
using MakeTrial =
    std::function<std::unique_ptr<TrainingTrial>(uint64_t seed, const fs::path& checkpoint)>;

// The first rank's trial, whose steps, evaluations and checkpoints the others do with it.
std::unique_ptr<TrainingTrial> conducted_trial(const RankGroup& ranks, const MakeTrial& make,
                                               uint64_t seed, const fs::path& checkpoint);
// What the other ranks do, until dismiss() or a failure.
void follow(const RankGroup& ranks, const MakeTrial& make);
// Ends what the others do. Nothing if they are not there any more.
void dismiss(const RankGroup& ranks) noexcept;

}  // namespace reciperun::engine
