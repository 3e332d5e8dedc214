// What the devices of a run would each have measured: evaluations by their parts of the data.
#pragma once

#include <string>
#include <vector>

#include "tools/recipe_run/run_record/measurements.h"

namespace reciperun {

// One metric of one trial over its parts, in per cent.
struct ShardLine {
  std::string trial;   // "seed 1"
  std::string metric;  // "top1"
  double merged = 0;
  std::vector<double> parts;
  int64_t fewest = 0, most = 0;  // samples of a part
};

// Of the metrics that the recipe names and that are shares of the samples; none of trials that
// were evaluated in one part.
std::vector<ShardLine> shard_lines(const v1::Recipe& recipe, const std::vector<Trial>& trials);

// "top1: 76.31 % merged; 8 parts of 6,250: 76.10 76.52 ...".
std::string shard_text(const ShardLine& line);

inline constexpr char kShardsTitle[] = "evaluation by part, as the devices share the data";

}  // namespace reciperun
