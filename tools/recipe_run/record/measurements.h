// What a run measured, as the verdicts need it: results of trials and benches, without files or
// formats.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "recipes/recipe.pb.h"
#include "tools/recipe_run/record/record.pb.h"
#include "tools/recipe_run/stats/noise.h"

namespace reciperun {

// How a row's number came about.
enum class Evidence { kMeasured, kEmulated, kProjected };
inline const char* evidence_word(Evidence evidence) {
  return evidence == Evidence::kProjected  ? "PROJECTED"
         : evidence == Evidence::kEmulated ? "EMULATED"
                                           : "MEASURED";
}

struct CurvePoint {
  double x = 0;  // epochs
  double y = 0;
};

struct Trial {
  std::string name;   // of its folder: "seed-0001"
  std::string title;  // "seed 1", "fold 1 of 5, seed 0"
  uint64_t seed = 0;
  // Selected by the recipe's rule, in base units (fractions, nats).
  std::map<std::string, double> metrics;
  double train_seconds = 0;  // active time of all segments, evaluations and checkpoints included
  int segments = 1;          // 1 = never interrupted
  std::string failure;       // "" or why it gave no result
  std::vector<CurvePoint> loss_curve;                  // training loss
  std::vector<CurvePoint> metric_curve;                // headline metric at each evaluation
  std::optional<record::Communication> communication;  // where several devices trained
  std::vector<record::Shard> shards;  // of the reported evaluation; none where it was one part
};

// One repeat of one configuration of a bench.
struct BenchTask {
  std::string bench;  // id
  uint32_t devices = 1;
  uint32_t batch = 1;
  uint32_t repeat = 1;
};

struct BenchRepeat {
  double items_per_second = 0;       // by the bench's rate definition
  std::vector<double> step_seconds;  // in time order
  // Items per second of loading and of computing, each alone; 0 = not in the timed span.
  double load_rate = 0, compute_rate = 0;
};

struct BenchResult {
  std::string bench;
  uint32_t devices = 1;
  uint32_t batch = 0;
  std::vector<BenchRepeat> repeats;
  std::vector<NoiseCheck> noise;
  std::string unwatched;  // "" or why the GPU it ran on was not watched
  std::string failure;    // "" or why it gave no result

  std::vector<double> rates() const {  // items per second, of every repeat
    std::vector<double> out;
    for (const BenchRepeat& repeat : repeats) out.push_back(repeat.items_per_second);
    return out;
  }
};

struct OtherRun;

struct Measurements {
  std::vector<Trial> trials;
  std::vector<BenchResult> benches;
  // "" or why no row can be compared, e.g. "modified: training.epochs 90 → 5".
  std::string not_comparable;
  std::string device;   // what it ran on
  std::string machine;  // digest of what makes timings comparable
  Evidence evidence = Evidence::kMeasured;
  uint32_t devices = 1;  // that the trials trained on, emulated ones included
  double level = 0.05;   // that this look at the trials may spend (stats/looks.h)
  bool tight = false;    // throughputs are held to 2 %, where the recipe sets no margin
  // Runs of other recipes, for rows that need more than this one.
  std::vector<OtherRun> others;
};

struct OtherRun {
  std::string run;  // id
  v1::Recipe recipe;
  Measurements measurements;
};

}  // namespace reciperun
