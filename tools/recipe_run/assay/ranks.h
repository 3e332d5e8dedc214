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
// Fails where other variables name a rank: each process would take itself for the only one.
void require_known_launcher();

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
  // Tells the others that this one gives up.
  void abort() const;
  // Calls `body`, which all ranks do at once. If it fails in a way that the others need not see,
  // they are told.
  template <class Body>
  auto together(const Body& body) const {
    try {
      return body();
    } catch (const std::exception& error) {
      if (!is_everywhere(error)) abort();
      throw;
    }
  }

 private:
  static bool is_everywhere(const std::exception& error);

  RankPlace place_;
  Comm comm_;
};

// Makes a trial, from a checkpoint unless that is empty: make_training_trial.
using MakeTrial =
    std::function<std::unique_ptr<TrainingTrial>(uint64_t seed, const fs::path& checkpoint)>;

// Makes a bench's session on all devices: make_bench.
using MakeBench =
    std::function<std::unique_ptr<BenchSession>(const std::string& bench, uint32_t batch)>;

// The first rank's trial, whose steps, evaluations and checkpoints the others do with it.
std::unique_ptr<TrainingTrial> conducted_trial(const RankGroup& ranks, const MakeTrial& make,
                                               uint64_t seed, const fs::path& checkpoint);
// The first rank's session, whose batches are those of all ranks.
std::unique_ptr<BenchSession> conducted_bench(const RankGroup& ranks, const MakeBench& make,
                                              const std::string& bench, uint32_t batch);
// What the other ranks do, until dismiss() or a failure.
void follow(const RankGroup& ranks, const MakeTrial& make_trial, const MakeBench& make_bench);
// Ends what the others do. Nothing if they are not there any more.
void dismiss(const RankGroup& ranks) noexcept;

}  // namespace reciperun::engine
