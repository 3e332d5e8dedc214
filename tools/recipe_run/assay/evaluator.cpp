// Sums over the batches of an evaluation, and what the metrics make of them, part by part where
// devices share the data.
#include "tools/recipe_run/assay/evaluator.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>

#include "tools/recipe_run/util/text.h"

namespace reciperun::engine {
namespace {

// By name, in base units: fractions, nats.
using Metrics = std::map<std::string, double>;

void set_metrics(const Metrics& metrics, google::protobuf::Map<std::string, double>& out) {
  out.insert(metrics.begin(), metrics.end());
}

}  // namespace

struct Evaluator::Sums {
  struct Mean {
    double sum = 0, weight = 0;
  };
  int64_t samples = 0, batches = 0;
  std::map<std::string, Mean> means;        // by the name that the model gives them
  double dice_loss = 0, cross_entropy = 0;  // of the batches' means

  // Of another part of the data.
  void add(const Sums& part) {
    samples += part.samples;
    for (const auto& [name, mean] : part.means) add(name, mean);
  }
  void add(const std::string& name, const Mean& part) {
    means[name].sum += part.sum;
    means[name].weight += part.weight;
  }
  void add_segmented(int64_t n, double dice_loss_sum, double cross_entropy_sum) {
    ++batches;
    dice_loss += dice_loss_sum / static_cast<double>(n);
    cross_entropy += cross_entropy_sum / static_cast<double>(n);
  }
  // "<samples> <name> <sum> <weight> ..." for another rank.
  std::string text() const {
    std::vector<std::string> words{std::to_string(samples)};
    for (const auto& [name, mean] : means)
      words.insert(words.end(), {name, shortest(mean.sum), shortest(mean.weight)});
    return join(words, " ");
  }
  static Sums of(const std::string& text) {
    const std::vector<std::string> words = split(text, ' ');
    Sums sums;
    sums.samples = std::stoll(words[0]);
    for (size_t i = 1; i + 2 < words.size(); i += 3)
      sums.means[words[i]] = {std::stod(words[i + 1]), std::stod(words[i + 2])};
    return sums;
  }
  Metrics of_means() const {
    Metrics metrics;
    for (const auto& [name, mean] : means)  // of nothing, as of no finds their precision: 0
      metrics[name] = mean.weight > 0 ? mean.sum / mean.weight : 0;
    if (const auto top1 = metrics.find("top1"); top1 != metrics.end())
      metrics["accuracy"] = top1->second;
    return metrics;
  }
  // As the published scripts score: a mean over the images of each batch, then over the batches
  // with equal weight, an incomplete last one included.
  Metrics segmentation() const {
    const auto n = static_cast<double>(batches);
    return {{"dice", 1 - dice_loss / n},
            {"cross_entropy", cross_entropy / n},
            {"loss", (cross_entropy + dice_loss) / n}};
  }
};

Evaluator::Evaluator(const assay_context* context, const v1::Recipe& recipe,
                     const assay_model* model, assay_trainer* trainer, uint32_t devices,
                     const RankGroup* ranks, Share held_out)
    : context_(context),
      recipe_(recipe),
      model_(model),
      trainer_(trainer),
      devices_(devices),
      ranks_(ranks),
      held_out_(std::move(held_out)),
      shards_(evaluation_shards(recipe)) {
  const auto& metrics = recipe_.evaluation().metric();
  segments_images_ = std::find(metrics.begin(), metrics.end(), "dice") != metrics.end();
  loader_ = new_loader_of(held_out_);
  const Struct report = report_of(Exit::kCrashed, assay_trainer_report, trainer_);
  for (const auto& name : assay::tools::at(report, "evaluated").list_value().values())
    evaluated_.push_back(name.string_value());
  if (answers_questions(recipe_)) answers_.emplace(context_, recipe_, model, held_out_.records);
  if (scores_detections(recipe_)) detections_.emplace(recipe_, model);
}

std::vector<std::string> Evaluator::metrics() const {
  Sums one{.samples = 1, .batches = 1};
  for (const std::string& name : evaluated_) one.add(name, {.sum = 0, .weight = 1});
  std::vector<std::string> names;
  for (const auto& [name, value] : segments_images_ ? one.segmentation() : one.of_means())
    names.push_back(name);
  if (answers_) names.insert(names.end(), {"exact_match", "f1"});
  if (detections_) names.insert(names.end(), {"AP", "AP50", "AP75"});
  return names;
}

record::Eval Evaluator::evaluate_whole(const fs::path& folder, const Tick& tick) {
  call(Exit::kCrashed, assay_loader_seek, loader_.get(), int64_t{0});
  if (answers_) answers_->begin();
  if (detections_) detections_->begin();
  const Sums sums = evaluate_part(loader_.get(), evaluated_samples(1), tick);
  record::Eval whole;
  set_metrics(segments_images_ ? sums.segmentation() : sums.of_means(), *whole.mutable_metric());
  if (answers_) set_metrics(answers_->finish(folder), *whole.mutable_metric());
  if (detections_) set_metrics(detections_->finish(folder), *whole.mutable_metric());
  return whole;
}

record::Eval Evaluator::evaluate(const fs::path& folder, const Tick& tick) {
  const Parts parts = shards();
  const bool alone = parts.empty() || shards_ != devices_;  // the first device does it all
  if (alone && ranks_ != nullptr && !ranks_->conducts()) return {};
  return parts.empty() ? evaluate_whole(folder, tick) : evaluate_parts(parts, tick);
}

Evaluator::Sums Evaluator::evaluate_share(const std::vector<int64_t>& records, int64_t parts,
                                          const Tick& tick) {
  const Loader loader = new_loader_of({.records = records});
  return evaluate_part(
      loader.get(), std::min(static_cast<int64_t>(records.size()), evaluated_samples(parts)), tick);
}

// Each rank its part.
std::vector<Evaluator::Sums> Evaluator::sums_of_ranks(const Parts& parts, const Tick& tick) {
  std::string mine;  // nothing of a rank without a part
  try {
    if (ranks_->rank() < parts.size())
      mine = evaluate_share(parts[ranks_->rank()], std::ssize(parts), tick).text();
  } catch (const Error& error) {
    if (error.exit_code() == Exit::kInterrupted) ranks_->gather("stopped");
    throw;
  }
  std::vector<Sums> found;
  for (const std::string& theirs : ranks_->gather(mine)) {
    if (theirs == "stopped") throw Error(Exit::kInterrupted, "stopped while evaluating");
    if (!theirs.empty()) found.push_back(Sums::of(theirs));
  }
  return found;
}

// One process all parts. A recipe that cuts the data for others than its devices has them all
// evaluated by the first.
std::vector<Evaluator::Sums> Evaluator::sums_in_turn(const Parts& parts, const Tick& tick) {
  const bool plays = devices_ > 1 && ranks_ == nullptr && shards_ == devices_;
  const auto take_statistics = [&](int64_t device) {
    if (plays)
      call(Exit::kCrashed, assay_trainer_set, trainer_, text("evaluated_device"),
           static_cast<double>(device));
  };
  std::vector<Sums> found;
  for (const std::vector<int64_t>& records : parts) {
    take_statistics(std::ssize(found));
    const auto done = static_cast<double>(found.size());
    const Tick part_of_all = [&](double fraction) {
      return tick((done + fraction) / static_cast<double>(parts.size()));
    };
    found.push_back(evaluate_share(records, std::ssize(parts), part_of_all));
  }
  take_statistics(0);
  return found;
}

record::Eval Evaluator::evaluate_parts(const Parts& parts, const Tick& tick) {
  const bool each_its_own = ranks_ != nullptr && shards_ == devices_;
  record::Eval out;
  Sums all;
  for (const Sums& sums : each_its_own ? sums_of_ranks(parts, tick) : sums_in_turn(parts, tick)) {
    record::Shard& shard = *out.add_shard();
    shard.set_samples(sums.samples);
    set_metrics(sums.of_means(), *shard.mutable_metric());
    all.add(sums);
  }
  set_metrics(all.of_means(), *out.mutable_metric());
  return out;
}

// `loader` stands at the beginning of the part.
Evaluator::Sums Evaluator::evaluate_part(assay_loader* loader, int64_t samples, const Tick& tick) {
  const uint32_t flags =
      recipe_.evaluation().select() == v1::Evaluation::EMA_LAST ? ASSAY_EVAL_EMA : 0;
  Sums sums;
  Batch batch(loader, model_);
  while (sums.samples < samples) {
    assay_batch_info loaded{};
    loaded.struct_size = sizeof loaded;
    batch.next(loader, &loaded);
    assay_eval_info info{};
    info.struct_size = sizeof info;
    call(Exit::kCrashed, assay_trainer_eval, trainer_, batch.data(), batch.size(), flags, &info);
    require_labels(info.samples);
    if (answers_) answers_->add(batch, loaded.valid);
    if (detections_) detections_->add(batch, loaded.valid);
    sums.samples += loaded.valid;
    for (const std::string& name : evaluated_)
      sums.add(name, {scalar(name), scalar(name + ".weight")});
    if (segments_images_)
      sums.add_segmented(info.samples, scalar("dice_loss"), scalar("cross_entropy"));
    if (!tick(static_cast<double>(sums.samples) / static_cast<double>(samples)))
      throw Error(Exit::kInterrupted, "stopped while evaluating");
  }
  return sums;
}

void Evaluator::require_labels(int64_t samples) const {
  if (samples > 0) return;
  throw Error(Exit::kDataMismatch, "data '" + evaluation_data(recipe_).id() +
                                       "': a batch without labels cannot be evaluated on");
}

Loader Evaluator::new_loader_of(const Share& share) const {
  const v1::DataRef& data = evaluation_data(recipe_);
  return new_loader(context_, recipe_, data, evaluation_loader_config(recipe_, data, share));
}

// The records of each part, none of them empty; no parts where one device evaluates everything.
Evaluator::Parts Evaluator::shards() const {
  std::vector<int64_t> records = held_out_.records;
  if (records.empty()) {
    records.resize(static_cast<size_t>(loader_samples(loader_.get())));
    std::iota(records.begin(), records.end(), int64_t{0});
  }
  const size_t count = std::min<size_t>(shards_, records.size());
  if (segments_images_ || answers_ || detections_ || count < 2) return {};
  const auto place = [&](size_t k) {
    return records.begin() + static_cast<std::ptrdiff_t>(records.size() * k / count);
  };
  Parts out;
  for (size_t k = 0; k < count; ++k) out.emplace_back(place(k), place(k + 1));
  return out;
}

// At most so many of each part, where the recipe only tries something.
int64_t Evaluator::evaluated_samples(int64_t parts) const {
  const int64_t all = loader_samples(loader_.get());
  const v1::Evaluation& evaluation = recipe_.evaluation();
  if (evaluation.batches() == 0) return all;
  const int64_t most = int64_t{evaluation.batches()} * evaluation_batch(recipe_);
  return std::min(all, (most + parts - 1) / parts);
}

// Of the last evaluation batch.
double Evaluator::scalar(std::string_view name) const {
  double value = 0;
  call(Exit::kUsage, assay_trainer_scalar, trainer_, text(name), &value);
  return value;
}

}  // namespace reciperun::engine
