// Optimizers, schedules, precisions and loaders of a recipe as JSON texts, with refusals of what
// the engine does not offer; and which data of a recipe serve what.
#include "tools/recipe_run/assay/configuration.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <utility>

#include "tools/recipe_run/assay/answers.h"
#include "tools/recipe_run/assay/detections.h"
#include "tools/recipe_run/assay/pipeline.h"
#include "tools/recipe_run/recipe/facts.h"
#include "tools/recipe_run/util/error.h"
#include "tools/recipe_run/util/json.h"
#include "tools/recipe_run/util/text.h"

namespace reciperun::engine {
namespace {

using Words = std::vector<std::string>;

// hparam values are JSON if they are numbers, booleans, lists or texts in quotes, else text.
bool is_json_value(const std::string& value) {
  if (value == "true" || value == "false") return true;
  const char first = value.empty() ? ' ' : value[0];
  return first == '[' || first == '"' || first == '-' || (first >= '0' && first <= '9');
}

void require_no(bool asked_for, const std::string& field, const std::string& instead = {}) {
  require(!asked_for, field + " is not offered by this engine", instead);
}

double learning_rate(const v1::Training& training, uint32_t devices) {
  const v1::Optimizer& optimizer = training.optimizer();
  if (optimizer.lr_rule() != "per_256_global_batch") return optimizer.lr();
  return optimizer.lr() * training.batch_per_device() *
         std::max<uint32_t>(training.accumulate(), 1) * devices / 256.0;
}

// A group of the parameters of these kinds, as the engine calls them, for which `key` is `value`.
template <class T>
std::string group_of(const google::protobuf::RepeatedPtrField<std::string>& kinds, const char* key,
                     T value) {
  Words names(kinds.begin(), kinds.end());
  std::replace(names.begin(), names.end(), std::string("bn"), std::string("batch_norm"));
  JsonObject group;
  return group.field("kind", names).field(key, value).text();
}

// Rates by layer: the heads', which stand two above the last block, times decay for each layer down
// to the embeddings.
Words layer_groups(double decay, int64_t layers) {
  const std::string path = "training.optimizer.layerwise_lr_decay";
  require(decay > 0 && decay <= 1, path + " must be above 0 and at most 1");
  require(layers > 0, path + " means nothing to a model without layers", "a model of text");
  Words groups;
  const auto add = [&](const std::string& names, int64_t below) {
    groups.push_back(JsonObject()
                         .field("match", Words{names})
                         .field("lr_scale", std::pow(decay, static_cast<double>(below)))
                         .text());
  };
  add("*embeddings.*", layers + 2);
  for (int64_t i = 0; i < layers; ++i) add(fmt::format("*encoder.layer.{}.*", i), layers + 1 - i);
  return groups;
}

// The weight of a loss over parameters, half the sum of their squares; 0 without one.
double decay_in_loss(const v1::Training& training) {
  for (const v1::Loss& loss : training.loss())
    if (loss.kind() == "l2") return loss.weight();
  return 0;
}

// As a recipe names parameters.
std::string group_of(const v1::ParameterGroup& own) {
  const std::string path = "training.optimizer.group";
  require(!own.match().empty(), path + " needs match, patterns of names");
  require(own.lr_scale() >= 0, path + ".lr_scale must not be negative");
  JsonObject group;
  group.field("match", Words(own.match().begin(), own.match().end()));
  if (own.has_frozen()) group.field("frozen", own.frozen());
  if (own.lr_scale() > 0) group.field("lr_scale", own.lr_scale());
  return group.text();
}

// Rates by layer, what is exempt from weight decay and from LAMB's trust ratio, and the recipe's
// own groups.
Words groups_of(const v1::Training& training, int64_t layers) {
  const v1::Optimizer& o = training.optimizer();
  const bool decays = o.weight_decay() > 0 || decay_in_loss(training) > 0;
  Words groups;
  if (o.layerwise_lr_decay() != 0) groups = layer_groups(o.layerwise_lr_decay(), layers);
  if (!o.no_decay().empty() && decays)
    groups.push_back(group_of(o.no_decay(), "weight_decay", 0.0));
  if (!o.no_trust_ratio().empty())
    groups.push_back(group_of(o.no_trust_ratio(), "no_trust_ratio", true));
  for (const v1::ParameterGroup& own : o.group()) groups.push_back(group_of(own));
  return groups;
}

// A value that the kind of optimizer or schedule has no use for would be dropped in silence.
void require_of(bool is_set, const std::string& path, const std::string& kind, const Words& kinds) {
  require(!is_set || std::find(kinds.begin(), kinds.end(), kind) != kinds.end(),
          path + " means nothing to '" + kind + "'", "it belongs to " + join(kinds, ", "));
}

void require_meaning(const v1::Optimizer& o) {
  const std::string path = "training.optimizer.";
  const Words adam = {"adam", "adamw", "lamb"};
  require_of(o.momentum() > 0, path + "momentum", o.name(), {"sgd"});
  require_of(o.nesterov(), path + "nesterov", o.name(), {"sgd"});
  require(!o.nesterov() || o.momentum() > 0, path + "nesterov needs momentum");
  require_of(o.beta1() > 0, path + "beta1", o.name(), adam);
  require_of(o.beta2() > 0, path + "beta2", o.name(), adam);
  require_of(o.epsilon() > 0, path + "epsilon", o.name(), adam);
  require_of(o.no_bias_correction(), path + "no_bias_correction", o.name(), adam);
  require_of(!o.no_trust_ratio().empty(), path + "no_trust_ratio", o.name(), {"lamb"});
}

void require_meaning(const v1::Schedule& s) {
  const std::string path = "training.schedule.";
  const std::string kind = s.kind().empty() ? "constant" : s.kind();
  const Words with_length = {"cosine", "linear", "polynomial"};
  require_of(s.end_lr() > 0, path + "end_lr", kind, with_length);
  require_of(s.span() > 0, path + "span", kind, with_length);
  require_of(s.decay_from_start(), path + "decay_from_start", kind, with_length);
  require_of(s.power() > 0, path + "power", kind, {"polynomial"});
  require_of(s.factor() > 0, path + "factor", kind, {"step", "exponential"});
  require_of(!s.milestone().empty(), path + "milestone", kind, {"step"});
  require(s.start_lr() == 0 || s.warmup() > 0, path + "start_lr needs warmup");
  require(s.warmup() == 0 || !s.warmup_unit().empty(), path + "warmup needs warmup_unit",
          "step, epoch or fraction");
}

std::string optimizer_config(const v1::Training& training, int64_t layers, uint32_t devices) {
  const v1::Optimizer& o = training.optimizer();
  require_meaning(o);
  JsonObject json;
  json.field("name", o.name()).field("learning_rate", learning_rate(training, devices));
  const bool tensorflow = o.convention() == "tensorflow";
  if (o.name() == "sgd") {
    if (o.momentum() > 0) {
      json.field("momentum", o.momentum()).field("nesterov", o.nesterov());
      json.field("momentum_convention", tensorflow ? "sutskever" : "pytorch");
    }
  } else {
    if (o.beta1() > 0) json.field("beta1", o.beta1());
    if (o.beta2() > 0) json.field("beta2", o.beta2());
    if (o.epsilon() > 0) json.field("epsilon", o.epsilon());
    if (o.no_bias_correction()) json.field("bias_correction", false);
    if (o.name() != "lamb") json.field("epsilon_form", tensorflow ? "tensorflow" : "pytorch");
  }
  const double in_loss = decay_in_loss(training);
  require(in_loss == 0 || o.weight_decay() == 0,
          "training.optimizer.weight_decay and a loss of kind l2 are the same twice");
  json.field("weight_decay", std::max(o.weight_decay(), in_loss));
  if (in_loss > 0) json.field("decay_in_loss", true);
  json.field("clip_norm", training.clip_global_norm());
  if (training.clip_variable_norm() > 0)
    json.field("clip_each_norm", training.clip_variable_norm());
  json.field("ema_decay", training.ema_decay());
  if (training.ema_warmup()) json.field("ema_warmup", true);
  if (training.ema_decay() > 0) json.field("ema_statistics", true);
  if (const Words groups = groups_of(training, layers); !groups.empty())
    json.raw("group", "[" + join(groups, ",") + "]");
  return json.text();
}

std::string schedule_config(const v1::Recipe& recipe, const Length& length, uint32_t devices) {
  const v1::Training& training = recipe.training();
  const v1::Schedule& s = training.schedule();
  require_meaning(s);
  const auto steps_of = [&](double epochs) {
    return std::llround(epochs * static_cast<double>(length.steps_per_epoch));
  };
  const int64_t warmup =
      s.warmup_unit() == "epoch" ? steps_of(s.warmup())
      : s.warmup_unit() == "fraction"
          ? static_cast<int64_t>(s.warmup() * static_cast<double>(length.total_steps))
          : std::llround(s.warmup());
  const bool linear = s.kind() == "linear";
  JsonObject json;
  json.field("name", s.kind().empty() ? "constant" : linear ? "polynomial" : s.kind());
  json.field("warmup_steps", warmup);
  const bool from_start = s.start_lr() > 0 || training.optimizer().convention() == "tensorflow";
  if (warmup > 0 && from_start)
    json.field("warmup_start", s.start_lr() / learning_rate(training, devices));
  if (linear || s.kind() == "polynomial" || s.kind() == "cosine") {
    // Laid out over `span` epochs, though training may end before.
    json.field("total_steps", s.span() == 0 ? length.total_steps : steps_of(s.span()));
    json.field("end_factor", s.end_lr() / learning_rate(training, devices));
    if (s.decay_from_start()) json.field("decay_from_start", true);
  }
  if (s.power() > 0 && !linear) json.field("power", s.power());
  if (s.factor() > 0) json.field("gamma", s.factor());
  if (s.kind() == "step") {
    std::vector<int64_t> boundaries;
    for (const double epoch : s.milestone()) boundaries.push_back(steps_of(epoch));
    json.field("boundaries", boundaries);
  }
  if (s.kind() == "exponential")
    json.field("decay_steps", static_cast<double>(length.steps_per_epoch));
  return json.text();
}

// Of "static:128", "dynamic:32768/2000".
std::string loss_scale_config(const std::string& text) {
  const size_t colon = text.find(':');
  const std::string mode = text.substr(0, colon);
  require(mode == "static" || mode == "dynamic",
          "numerics.loss_scale '" + text + "' is not understood",
          "none, static:128 or dynamic:32768/2000");
  JsonObject json;
  json.field("mode", mode);
  if (colon != std::string::npos) {
    const Words numbers = split(text.substr(colon + 1), '/');
    json.raw("initial", numbers[0]);
    if (numbers.size() > 1) json.raw("interval", numbers[1]);
  }
  return json.text();
}

LoaderConfig loader_config(const v1::Recipe& recipe, const v1::DataRef& data, JsonObject loader,
                           const Share& share, bool origin = false) {
  require_no(data.has_range() && share.records.empty(),
             "data." + data.id() + ".range of what is timed");
  if (!share.records.empty()) loader.field("record", share.records);
  if (share.world_size > 1) loader.field("rank", share.rank).field("world_size", share.world_size);
  if (recipe.io().workers() > 0) loader.field("workers", recipe.io().workers());
  if (recipe.io().prefetch() > 0) loader.field("prefetch", recipe.io().prefetch());
  return {loader.text(), transform_config(data, origin)};
}

const v1::DataRef* data_of_role(const v1::Recipe& recipe,
                                std::initializer_list<const char*> roles) {
  for (const char* role : roles) {
    for (const v1::DataRef& data : recipe.data()) {
      if (data.role() == role) return &data;
    }
  }
  return nullptr;
}

// Detectors bring their losses: a recipe may only say what they are, and add one over parameters.
void require_losses(const v1::Recipe& recipe) {
  static const std::map<std::string, std::string> kOfDetectors = {
      {"focal", "1 of classes, alpha 0.25, gamma 1.5, mean_over matched anchors + 1"},
      {"huber",
       "50 of boxes, delta 0.1, mean_over 4 (matched anchors + 1), skip_zero_targets true"},
      {"l2", ""}};
  const v1::DataRef* data = data_of_role(recipe, {"train", "bench"});
  const bool detects = data != nullptr && !image_size(*data).empty();
  for (const v1::Loss& loss : recipe.training().loss()) {
    const auto own = kOfDetectors.find(loss.kind());
    require_no(!detects || own == kOfDetectors.end(), "training.loss of kind '" + loss.kind() + "'",
               "its models bring their own");
    std::string asked = fmt::format("{} of {}", loss.weight(), loss.of());
    for (const auto& [name, value] :
         std::map<std::string, std::string>(loss.arg().begin(), loss.arg().end()))
      asked += fmt::format(", {} {}", name, value);
    if (loss.kind() == "l2")
      require_no(loss.of() != "kernel", "training.loss of kind 'l2' of '" + loss.of() + "'",
                 "kernel; optimizer.no_decay names the other kinds");
    else
      require_no(asked != own->second,
                 fmt::format("training.loss of kind '{}' ({})", loss.kind(), asked), own->second);
  }
}

// Of batches of text, which trainers and predictors are made for.
TextShape shape_of_batches(const v1::Recipe& recipe) {
  const v1::DataRef* data = data_of_role(recipe, {"train", "bench"});
  return data == nullptr ? TextShape() : text_shape(*data);
}

void add_image_size(JsonObject& json, const v1::Recipe& recipe) {
  const v1::DataRef* data = data_of_role(recipe, {"train", "bench", "eval"});
  if (data == nullptr) return;
  if (const std::vector<int64_t> size = image_size(*data); !size.empty())
    json.field("image_size", size);
}

void add_text_shape(JsonObject& json, const TextShape& shape) {
  if (shape.length > 0) json.field("sequence_length", shape.length);
  if (shape.slots > 0) json.field("prediction_slots", shape.slots);
}

}  // namespace

std::string precision_name(v1::Numerics::Compute compute) {
  static const std::array kNames = {"fp32", "fp32", "tf32", "amp-fp16", "amp-bf16"};
  return kNames.at(compute);
}

std::vector<v1::Recipe> phases_of(const v1::Recipe& recipe) {
  if (recipe.training().phase().empty()) return {recipe};
  std::vector<v1::Recipe> phases;
  for (const v1::Phase& phase : recipe.training().phase()) {
    const std::string& kind = recipe.training().phase(0).training().optimizer().name();
    require(phase.training().optimizer().name() == kind,
            fmt::format("training.phase.{}: '{}' cannot go on with the moments of '{}'",
                        phase.name(), phase.training().optimizer().name(), kind));
    v1::Recipe& one = phases.emplace_back(recipe);
    *one.mutable_training() = phase.training();
    const v1::DataRef* data = phase_data(recipe, phase);
    require(data != nullptr, fmt::format("training.phase.{}.data names '{}', which the recipe does "
                                         "not have",
                                         phase.name(), phase.data()));
    const v1::DataRef own = *data;
    one.clear_data();
    *one.add_data() = own;
    for (const v1::DataRef& other : recipe.data())
      if (other.role() != "train" && other.role() != "bench") *one.add_data() = other;
  }
  return phases;
}

int64_t samples_per_step(const v1::Recipe& recipe, uint32_t devices) {
  const v1::Training& t = recipe.training();
  return int64_t{t.batch_per_device()} * std::max<int64_t>(t.accumulate(), 1) * devices;
}

Length training_length(const v1::Recipe& recipe, int64_t samples, uint32_t devices) {
  const v1::Training& t = recipe.training();
  require(t.batch_per_device() > 0, "training.batch_per_device must be at least 1");
  const int64_t per_step = samples_per_step(recipe, devices);
  const v1::DataRef* data = data_of_role(recipe, {"train", "bench"});
  const int64_t nominal = data == nullptr ? 0 : static_cast<int64_t>(data->nominal_epoch_samples());
  if (nominal > 0) samples = nominal;
  Length length;
  // A nominal epoch ends with a whole step.
  length.steps_per_epoch =
      t.drop_last() && nominal == 0 ? samples / per_step : (samples + per_step - 1) / per_step;
  // A stream has no epochs; fewer samples than a step takes make one.
  if (data != nullptr && streamed(*data))
    length.steps_per_epoch = std::max<int64_t>(1, length.steps_per_epoch);
  require(length.steps_per_epoch > 0, fmt::format("a step needs {} samples, the training data have "
                                                  "{}",
                                                  per_step, samples));
  length.total_steps = t.has_steps()
                           ? static_cast<int64_t>(t.steps())
                           : std::llround(t.epochs() * static_cast<double>(length.steps_per_epoch));
  if (t.steps_divided_by_devices()) length.total_steps /= devices;
  require(length.total_steps > 0, "training.steps or training.epochs must be positive");
  return length;
}

void require_offered(const v1::Recipe& recipe, uint32_t devices) {
  const std::string& digest = recipe.model().pretrained_sha256();
  const bool is_digest =
      digest.size() == 64 && digest.find_first_not_of("0123456789abcdef") == std::string::npos;
  require(digest.empty() || (is_digest && !recipe.model().pretrained().empty()),
          "model.pretrained_sha256 is '" + digest + "'",
          "64 digits of 0 to 9 and a to f, where model.pretrained names weights");
  const v1::Evaluation& evaluation = recipe.evaluation();
  // By name: the version that is offered.
  static const std::map<std::string, std::string> kScorers = {{"", ""},
                                                              {"coco_bbox_ap", "1"},
                                                              {"masked_words", "1"},
                                                              {"replaced_words", "1"},
                                                              {"soft_dice_mean_over_classes", "1"},
                                                              {"squad_v1.1", "1.1"},
                                                              {"squad_v2.0", "2.0"},
                                                              {"top1", "1"},
                                                              {"top1_center_crop_224", "1"},
                                                              {"training_loss", "1"}};
  const auto known = kScorers.find(evaluation.evaluator());
  Words offered;
  for (const auto& [name, version] : kScorers)
    if (!name.empty()) offered.push_back(name + " " + version);
  require_no(known == kScorers.end() || known->second != evaluation.evaluator_version(),
             fmt::format("evaluation.evaluator '{}', version '{}',", evaluation.evaluator(),
                         evaluation.evaluator_version()),
             join(offered, ", "));
  Words arguments = {"shards"};
  if (answers_questions(recipe))
    arguments.assign(std::begin(kAnswerArguments), std::end(kAnswerArguments));
  if (scores_detections(recipe)) require_detection_arguments(evaluation);
  for (const auto& [key, value] : evaluation.arg())
    require_no(!scores_detections(recipe) &&
                   std::find(arguments.begin(), arguments.end(), key) == arguments.end(),
               "evaluation.arg." + key, join(arguments, ", "));
  const std::string& wire = recipe.numerics().gradient_wire();
  require_no(devices > 1 && wire == "bf16", "numerics.gradient_wire 'bf16'", "\"fp32\", \"fp16\"");
}

void require_offered(const v1::Bench& bench) {
  const std::string name = "bench '" + bench.id() + "': ";
  require_no(
      bench.allow_partial_batch() && (bench.mode() == v1::Bench::TRAIN || bench.input() != "real"),
      name + "allow_partial_batch of training and of synthetic input");
  static const std::map<std::string, std::string> kHardSuppression = {
      {"candidates", "5000"}, {"max_detections", "100"}, {"min_score", "0.4"},
      {"nms", "hard"},        {"nms_iou", "0.5"},        {"nms_per_class", "false"}};
  const std::map<std::string, std::string> args(bench.arg().begin(), bench.arg().end());
  require_no(!args.empty() && args != kHardSuppression, name + "arg",
             "none, or a detector's hard suppression: candidates 5000, max_detections 100, "
             "min_score 0.4, nms hard, nms_iou 0.5, nms_per_class false");
}

bool scores_training_loss(const v1::Recipe& recipe) {
  return recipe.evaluation().evaluator() == "training_loss";
}

std::string model_config(const v1::Model& model) {
  JsonObject json;
  for (const auto& [key, value] : model.hparam())
    json.raw(key, is_json_value(value) ? value : json_of(value));
  return json.text();
}

std::string trainer_config(const v1::Recipe& recipe, const Length& length, int64_t layers,
                           uint64_t seed, int64_t batch, uint32_t devices,
                           const std::string& raw_images) {
  const v1::Training& t = recipe.training();
  require_losses(recipe);
  JsonObject json;
  json.raw("optimizer", optimizer_config(t, layers, devices));
  json.raw("schedule", schedule_config(recipe, length, devices));
  const std::string& loss_scale = recipe.numerics().loss_scale();
  if (!loss_scale.empty() && loss_scale != "none")
    json.raw("loss_scale", loss_scale_config(loss_scale));
  json.field("batch_size", batch > 0 ? batch : int64_t{t.batch_per_device()});
  if (recipe.evaluation().batch() > 0) json.field("eval_batch_size", recipe.evaluation().batch());
  json.field("accumulate", (batch > 0 ? 1 : std::max<int64_t>(t.accumulate(), 1)) * devices);
  if (devices > 1) {
    json.field("emulated_devices", devices);
    if (recipe.numerics().gradient_wire() == "fp16") json.field("gradient_wire", "fp16");
  }
  json.field("precision", precision_name(recipe.numerics().compute())).field("seed", seed);
  json.field("label_smoothing", t.label_smoothing());
  if (t.mixup_alpha() > 0) json.field("mixup_alpha", t.mixup_alpha());
  if (!raw_images.empty()) json.raw("raw_images", raw_images);
  add_image_size(json, recipe);
  const TextShape text = shape_of_batches(recipe);
  add_text_shape(json, text);
  if (text.packed) json.field("packed", true);
  return json.text();
}

Prediction prediction_of(const v1::Bench& bench) {
  return {.averages = false, .suppression = bench.arg().empty() ? "" : "hard"};
}

std::string predictor_config(const v1::Recipe& recipe, int64_t batch,
                             const Prediction& prediction) {
  // Not for timing: a model loaded for that has no averages, and the time is the same.
  JsonObject json;
  json.field("precision", precision_name(recipe.numerics().compute())).field("max_batch", batch);
  if (prediction.averages) json.field("use_ema", true);
  if (!prediction.suppression.empty()) json.field("suppression", prediction.suppression);
  add_image_size(json, recipe);
  add_text_shape(json, shape_of_batches(recipe));
  return json.text();
}

LoaderConfig training_loader_config(const v1::Recipe& recipe, const v1::DataRef& data,
                                    uint64_t seed, int64_t batch, const Share& share) {
  JsonObject json;
  json.field("batch_size", batch).field("seed", seed);
  if (streamed(data)) {
    json.field("order", "stream");
    json.field("buffer", std::llround(stream_buffer_batches(data) * static_cast<double>(batch)));
  } else {
    json.field("order", "shuffled");
    json.field("last_batch", recipe.training().drop_last() ? "drop" : "wrap");
    json.field("accumulate", std::max<int64_t>(recipe.training().accumulate(), 1));
  }
  return loader_config(recipe, data, json, share);
}

LoaderConfig bench_loader_config(const v1::Recipe& recipe, const v1::DataRef& data, int64_t batch,
                                 bool partial) {
  JsonObject json;
  json.field("batch_size", batch).field("order", "sequential");
  json.field("last_batch", partial ? "pad" : "wrap");
  return loader_config(recipe, data, json, {});
}

LoaderConfig evaluation_loader_config(const v1::Recipe& recipe, const v1::DataRef& data,
                                      const Share& share) {
  JsonObject json;
  json.field("batch_size", evaluation_batch(recipe)).field("order", "sequential");
  json.field("last_batch", "pad").field("epochs", 1);
  return loader_config(recipe, data, json, share, scores_detections(recipe));
}

int64_t evaluation_batch(const v1::Recipe& recipe) {
  const uint32_t batch = recipe.evaluation().batch();
  return batch > 0 ? batch : recipe.training().batch_per_device();
}

uint32_t evaluation_shards(const v1::Recipe& recipe) {
  const auto asked = recipe.evaluation().arg().find("shards");
  if (asked == recipe.evaluation().arg().end()) return devices_of(recipe);
  constexpr uint32_t kMost = 4096;
  const std::string& text = asked->second;
  uint32_t shards = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), shards);
  require(
      error == std::errc() && end == text.data() + text.size() && shards >= 1 && shards <= kMost,
      "evaluation.arg.shards '" + text + "' is not a number of shards",
      fmt::format("1 to {}", kMost));
  return shards;
}

const v1::DataRef& training_data(const v1::Recipe& recipe) {
  const v1::DataRef* data = data_of_role(recipe, {"train", "bench"});
  require(data != nullptr, "the recipe has no data of role train or bench");
  return *data;
}

bool has_evaluation_data(const v1::Recipe& recipe) {
  return !recipe.evaluation().data().empty() ||
         data_of_role(recipe, {"eval", "test", "validation"}) != nullptr;
}

const v1::DataRef& evaluation_data(const v1::Recipe& recipe) {
  const std::string& id = recipe.evaluation().data();
  for (const v1::DataRef& data : recipe.data()) {
    if (!id.empty() && data.id() == id) return data;
  }
  require(id.empty(), "evaluation.data names '" + id + "', which the recipe does not have");
  const v1::DataRef* data = data_of_role(recipe, {"eval", "test", "validation"});
  require(data != nullptr, "the recipe has no data of role eval or test");
  return *data;
}

const v1::DataRef& bench_data(const v1::Recipe& recipe) {
  const v1::DataRef* data = data_of_role(recipe, {"bench"});
  return data != nullptr ? *data : evaluation_data(recipe);
}

}  // namespace reciperun::engine
