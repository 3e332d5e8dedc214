#include "tools/recipe_run/report/shards.h"

#include <algorithm>

#include "tools/recipe_run/base/text.h"

namespace reciperun {
namespace {

constexpr double kPercent = 100;

ShardLine line_of(const Trial& trial, const std::string& metric) {
  ShardLine line{trial.title, metric, kPercent * trial.metrics.at(metric), {}};
  for (const TrialShard& shard : trial.shards) {
    line.parts.push_back(kPercent * shard.metrics.at(metric));
    line.fewest = line.parts.size() == 1 ? shard.samples : std::min(line.fewest, shard.samples);
    line.most = std::max(line.most, shard.samples);
  }
  return line;
}

// With thousands separators.
std::string count_text(int64_t count) {
  return significant(static_cast<double>(count), static_cast<int>(std::to_string(count).size()));
}

bool is_in_every_part(const Trial& trial, const std::string& metric) {
  return trial.metrics.contains(metric) &&
         std::all_of(trial.shards.begin(), trial.shards.end(),
                     [&](const TrialShard& shard) { return shard.metrics.contains(metric); });
}

}  // namespace

std::vector<ShardLine> shard_lines(const v1::Recipe& recipe, const std::vector<Trial>& trials) {
  std::vector<ShardLine> lines;
  for (const Trial& trial : trials) {
    if (trial.shards.empty()) continue;
    for (const std::string& metric : recipe.evaluation().metric()) {
      if (metric != "loss" && is_in_every_part(trial, metric))
        lines.push_back(line_of(trial, metric));
    }
  }
  return lines;
}

std::string shard_text(const ShardLine& line) {
  std::string samples = count_text(line.fewest);
  if (line.most != line.fewest) samples += " to " + count_text(line.most);
  std::string text = line.metric + ": " + fixed(line.merged, 2) + " % merged; " +
                     std::to_string(line.parts.size()) + " parts of " + samples + ":";
  for (const double part : line.parts) text += " " + fixed(part, 2);
  return text;
}

}  // namespace reciperun
