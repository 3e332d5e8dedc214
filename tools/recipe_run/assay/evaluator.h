// What a trainer trained, evaluated over the recipe's held-out data through the C interface.
#pragma once

#include <optional>
#include <vector>

#include "tools/recipe_run/assay/answers.h"
#include "tools/recipe_run/assay/detections.h"
#include "tools/recipe_run/assay/objects.h"
#include "tools/recipe_run/assay/ranks.h"
#include "tools/recipe_run/run/trainer.h"

namespace reciperun::engine {

class Evaluator {
 public:
  // `context`, `model`, `trainer` and `ranks` outlive it; so many `devices` train, which the
  // trainer plays if there are no ranks. Error kUsage if the recipe asks for no number of parts.
  Evaluator(const assay_context* context, const v1::Recipe& recipe, const assay_model* model,
            assay_trainer* trainer, uint32_t devices, const RankGroup* ranks, Share held_out);

  // In as many contiguous parts as devices share the data (evaluation_shards), one after another or
  // each by its rank, with the running statistics of its device; models that label pixels, find
  // objects or answer questions evaluate everything as one. Answers are left in `folder`. Every
  // rank must call it; the result is the first one's.
  record::Eval evaluate(const fs::path& folder, const Tick& tick);
  // Names of the metrics that evaluate() tells.
  std::vector<std::string> metrics() const;

  // Models of images to images are measured by the overlap of their classes.
  bool segments_images() const { return segments_images_; }

  // Of everything that is held out, in order.
  assay_loader* loader() const { return loader_.get(); }
  // Numbers of these records in their split; none: all of them.
  const std::vector<int64_t>& records() const { return held_out_.records; }

 private:
  struct Sums;                                      // what an evaluation adds up, batch after batch
  using Parts = std::vector<std::vector<int64_t>>;  // records

  record::Eval evaluate_whole(const fs::path& folder, const Tick& tick);
  record::Eval evaluate_parts(const Parts& parts, const Tick& tick);
  std::vector<Sums> sums_of_ranks(const Parts& parts, const Tick& tick);
  std::vector<Sums> sums_in_turn(const Parts& parts, const Tick& tick);
  Sums evaluate_share(const std::vector<int64_t>& records, int64_t parts, const Tick& tick);
  Sums evaluate_part(assay_loader* loader, int64_t samples, const Tick& tick);
  Loader new_loader_of(const Share& share) const;
  Parts shards() const;
  void require_labels(int64_t samples) const;
  int64_t evaluated_samples(int64_t parts) const;
  double scalar(std::string_view name) const;

  const assay_context* context_;
  v1::Recipe recipe_;
  const assay_model* model_;
  assay_trainer* trainer_;
  uint32_t devices_;
  const RankGroup* ranks_;
  Share held_out_;
  uint32_t shards_;
  bool segments_images_;
  std::vector<std::string> evaluated_;    // means that the engine tells of an evaluation
  std::optional<Answers> answers_;        // where they are scored
  std::optional<Detections> detections_;  // likewise
  Loader loader_;
};

}  // namespace reciperun::engine
