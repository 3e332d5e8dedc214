// Each fact is worked out here once, from the recipe alone.
#include "tools/recipe_run/recipe/facts.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "tools/recipe_run/stats/looks.h"
#include "tools/recipe_run/util/error.h"
#include "tools/recipe_run/util/text.h"

namespace reciperun {
namespace {

// The element of a repeated message with this id, or nullptr.
template <class Elements>
auto find_id(const Elements& elements, const std::string& id) -> decltype(&*elements.begin()) {
  const auto it = std::find_if(elements.begin(), elements.end(),
                               [&](const auto& element) { return element.id() == id; });
  return it == elements.end() ? nullptr : &*it;
}

// 0 if no data have folds.
uint32_t fold_count(const v1::Recipe& recipe) {
  for (const v1::DataRef& data : recipe.data()) {
    if (data.has_folds() && data.folds().k() > 0) return data.folds().k();
  }
  return 0;
}

// Samples of one epoch, 0 if the recipe does not say.
double epoch_samples(const v1::Recipe& recipe) {
  for (const v1::DataRef& data : recipe.data()) {
    if (data.role() != "train") continue;
    return static_cast<double>(data.nominal_epoch_samples() > 0 ? data.nominal_epoch_samples()
                                                                : data.expect_samples());
  }
  return 0;
}

TrainingPhase phase_of(const v1::Recipe& recipe, const std::string& name,
                       const v1::Training& training, uint32_t devices) {
  TrainingPhase out;
  out.name = name;
  out.batch_per_device = training.batch_per_device();
  const double global_batch = static_cast<double>(training.batch_per_device()) *
                              std::max(1u, training.accumulate()) * devices;
  if (training.has_steps()) {
    out.steps = static_cast<double>(training.steps());
    if (training.steps_divided_by_devices()) out.steps /= devices;
    out.items = out.steps * global_batch;
  } else if (global_batch > 0) {
    out.items = training.epochs() * epoch_samples(recipe);
    out.steps = out.items / global_batch;
  }
  return out;
}

}  // namespace

RowKind kind_of(const v1::Expect& expect) {
  if (expect.has_ratio()) return RowKind::kRatio;
  if (!expect.bench().empty()) return RowKind::kBench;
  return expect.metric() == "time_to_train" ? RowKind::kTime : RowKind::kTrials;
}

bool is_timing(const v1::Expect& expect) { return kind_of(expect) != RowKind::kTrials; }

bool has_published_value(const v1::Expect& expect) {
  return expect.value_case() != v1::Expect::VALUE_NOT_SET;
}

double unit_factor(const std::string& unit) {
  static const std::vector<std::pair<std::string, double>> kFactors = {
      {"1", 1},          {"%", 100},   {"x", 1},     {"nats", 1},
      {"s", 1},          {"ms", 1000}, {"us", 1e6},  {"min", 1.0 / 60},
      {"h", 1.0 / 3600}, {"img/s", 1}, {"seq/s", 1}, {"items/s", 1}};
  for (const auto& [name, factor] : kFactors) {
    if (name == unit) return factor;
  }
  std::vector<std::string> names;
  for (const auto& entry : kFactors) names.push_back(entry.first);
  throw Error(Exit::kUsage, "unit '" + unit + "' is unknown", "one of: " + join(names, ", "));
}

MetricName split_metric(const std::string& metric) {
  const size_t colon = metric.find(':');
  return {metric.substr(0, colon), colon == std::string::npos ? "" : metric.substr(colon + 1)};
}

const v1::Bench* find_bench(const v1::Recipe& recipe, const std::string& id) {
  return find_id(recipe.bench(), id);
}

const v1::Expect* find_expectation(const v1::Recipe& recipe, const std::string& id) {
  return find_id(recipe.expect(), id);
}

Quantile quantile_of(const v1::Expect& expect) {
  const v1::Quantile& quantile = expect.has_tail() ? expect.tail().q() : expect.quantile();
  switch (quantile.def()) {
    case v1::Quantile::MEAN_OF_LOWEST:
      return {quantile.p(), Estimator::kMeanOfLowest};
    case v1::Quantile::MEAN_UPPER_CI:
      return {quantile.p(), Estimator::kMeanUpperCi};
    case v1::Quantile::MEAN_OF_SEGMENT_TYPE7:
      return {quantile.p(), Estimator::kMeanOfSegmentType7};
    default:
      return {quantile.p(), Estimator::kNearestRank};
  }
}

std::vector<uint32_t> trial_looks(const v1::Recipe& recipe) {
  const uint32_t parts = trials_per_seed(recipe);
  const v1::Trials& trials = recipe.trials();
  if (trials.count() % parts != 0) return {trials.count()};  // an unfinished seed tells nothing
  std::vector<uint32_t> looks = planned_looks(trials.count() / parts, trials.max_count() / parts);
  for (uint32_t& look : looks) look *= parts;
  return looks;
}

uint32_t devices_of(const v1::Recipe& recipe) {
  const v1::Topology& topology = recipe.topology();
  return std::max(1u, topology.nodes()) * std::max(1u, topology.devices_per_node());
}

uint32_t devices_of(const v1::Recipe& recipe, const v1::Expect& expect) {
  if (expect.scope().devices() > 0) return expect.scope().devices();
  return kind_of(expect) == RowKind::kBench ? 1 : devices_of(recipe);
}

bool needs_gpu(const v1::Recipe& recipe) {
  const v1::Numerics::Compute compute = recipe.numerics().compute();
  return compute == v1::Numerics::TF32 || compute == v1::Numerics::AMP_FP16;
}

std::string device_count(uint32_t devices) {
  return fmt::format("{} device{}", devices, devices == 1 ? "" : "s");
}

TrialPart trial_part(const v1::Recipe& recipe, uint64_t trial) {
  if (recipe.trials().unit() != "fold") return {0, trial};
  const uint32_t k = fold_count(recipe);
  require(k > 0, "trials.unit is fold, but no data have folds", "give data.train.folds");
  return {trial % k, trial / k};
}

uint32_t trials_per_seed(const v1::Recipe& recipe) {
  return recipe.trials().unit() == "fold" ? std::max(1u, fold_count(recipe)) : 1;
}

std::string trial_title(const v1::Recipe& recipe, uint64_t trial) {
  const uint32_t k = trials_per_seed(recipe);
  if (k == 1) return fmt::format("seed {}", trial);
  const TrialPart part = trial_part(recipe, trial);
  return fmt::format("fold {} of {}, seed {}", part.fold + 1, k, part.seed);
}

std::vector<TrainingPhase> training_phases(const v1::Recipe& recipe, uint32_t devices) {
  const v1::Training& training = recipe.training();
  if (training.phase().empty()) return {phase_of(recipe, "", training, devices)};
  std::vector<TrainingPhase> out;
  for (const v1::Phase& phase : training.phase())
    out.push_back(phase_of(recipe, phase.name(), phase.training(), devices));
  return out;
}

uint32_t sequence_length(const v1::DataRef& data) {
  for (const v1::Stage& stage : data.pipeline()) {
    const auto length = stage.arg().find("sequence_length");
    if (length != stage.arg().end())
      return static_cast<uint32_t>(std::strtoul(length->second.c_str(), nullptr, 10));
  }
  return 0;
}

const v1::DataRef* phase_data(const v1::Recipe& recipe, const v1::Phase& phase) {
  if (!phase.data().empty()) return find_id(recipe.data(), phase.data());
  for (const v1::DataRef& data : recipe.data())
    if (data.role() == "train" || data.role() == "bench") return &data;
  return nullptr;
}

const v1::Bench* training_bench(const v1::Recipe& recipe, const TrainingPhase& phase) {
  for (const v1::Bench& bench : recipe.bench()) {
    const auto& batches = bench.batch();
    if (bench.mode() == v1::Bench::TRAIN && bench.phase() == phase.name &&
        std::find(batches.begin(), batches.end(), phase.batch_per_device) != batches.end())
      return &bench;
  }
  return nullptr;
}

std::string incomparable_as_it_stands(const v1::Recipe& recipe) {
  for (const v1::DataRef& data : recipe.data()) {
    if (!data.substitute_for().empty())
      return "substitute data: " + data.lock() + " for " + data.substitute_for();
  }
  std::vector<std::string> changes;
  for (const v1::Deviation& deviation : recipe.deviation()) {
    if (deviation.not_comparable()) changes.push_back(deviation.we_have());
  }
  return changes.empty() ? "" : "modified by the recipe: " + join(changes, "; ");
}

std::string other_hardware(const v1::Recipe& recipe, const std::string& device) {
  const v1::Platform& platform = recipe.platform();
  if (platform.device().empty()) return "the source does not say what it ran on";
  if (device == platform.device()) return "";
  for (const std::string& same : platform.same_class()) {
    if (device.find(same) != std::string::npos) return "";
  }
  return device + " is not " + platform.device();
}

}  // namespace reciperun
