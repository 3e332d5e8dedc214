#include "tools/recipe_run/engine/configuration.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <utility>

#include "tools/recipe_run/base/error.h"
#include "tools/recipe_run/base/json_writer.h"
#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/engine/pipeline.h"

namespace reciperun::engine {
namespace {

void require(bool ok, const std::string& message, const std::string& hint = {}) {
  if (!ok) throw Error(Exit::kUsage, message, hint);
}

// hparam values are JSON if they are numbers, booleans or lists, else text.
bool is_json_value(const std::string& value) {
  if (value == "true" || value == "false") return true;
  return !value.empty() &&
         (value[0] == '[' || value[0] == '-' || (value[0] >= '0' && value[0] <= '9'));
}

double learning_rate(const v1::Training& training, uint32_t devices) {
  const v1::Optimizer& optimizer = training.optimizer();
  if (optimizer.lr_rule() == "per_256_global_batch")
    return optimizer.lr() * training.batch_per_device() *
           std::max<uint32_t>(training.accumulate(), 1) * devices / 256.0;
  require(optimizer.lr_rule().empty() || optimizer.lr_rule() == "absolute",
          "training.optimizer.lr_rule '" + optimizer.lr_rule() + "' is not understood",
          "absolute or per_256_global_batch");
  return optimizer.lr();
}

// Whether a variable is of one of these kinds ("bn", "layer_norm", "bias", "scalar").
bool is_one_of(const google::protobuf::RepeatedPtrField<std::string>& kinds,
               const Variable& variable) {
  return std::any_of(kinds.begin(), kinds.end(), [&](const std::string& kind) {
    require(kind == "bn" || kind == "layer_norm" || kind == "bias" || kind == "scalar",
            "the parameter kind '" + kind + "' is not understood",
            "bn, layer_norm, bias or scalar");
    return kind == "bias"     ? variable.name.ends_with(".bias")
           : kind == "scalar" ? variable.scalar
                              : variable.normalisation;
  });
}

// One group for each way in which variables are exempt: from weight decay, LAMB's trust ratio,
// both.
void write_groups(JsonWriter& json, const v1::Optimizer& optimizer,
                  const std::vector<Variable>& variables) {
  std::map<std::pair<bool, bool>, std::vector<std::string>> groups;
  for (const Variable& variable : variables) {
    const bool no_decay = is_one_of(optimizer.no_decay(), variable) && optimizer.weight_decay() > 0;
    const bool no_trust_ratio = is_one_of(optimizer.no_trust_ratio(), variable);
    if (no_decay || no_trust_ratio) groups[{no_decay, no_trust_ratio}].push_back(variable.name);
  }
  if (groups.empty()) return;
  json.key("group").begin_array();
  for (const auto& [exempt, names] : groups) {
    json.begin_object().field("match", names);
    if (exempt.first) json.field("weight_decay", 0.0);
    if (exempt.second) json.field("no_trust_ratio", true);
    json.end_object();
  }
  json.end_array();
}

// A value that the kind of optimizer or schedule has no use for would be dropped in silence.
void require_of(bool is_set, const std::string& path, const std::string& kind,
                const std::vector<std::string>& kinds) {
  require(!is_set || std::find(kinds.begin(), kinds.end(), kind) != kinds.end(),
          path + " means nothing to '" + kind + "'", "it belongs to " + join(kinds, ", "));
}

void require_meaning(const v1::Optimizer& o) {
  const std::string path = "training.optimizer.";
  const std::vector<std::string> adam = {"adam", "adamw", "lamb"};
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
  require_of(s.end_lr() > 0, path + "end_lr", kind, {"cosine", "linear", "polynomial"});
  require_of(s.span() > 0, path + "span", kind, {"cosine", "linear", "polynomial"});
  require_of(s.power() > 0, path + "power", kind, {"polynomial"});
  require_of(s.factor() > 0, path + "factor", kind, {"step", "exponential"});
  require_of(!s.milestone().empty(), path + "milestone", kind, {"step"});
  require(s.start_lr() == 0 || s.warmup() > 0, path + "start_lr needs warmup");
}

void write_optimizer(JsonWriter& json, const v1::Training& training,
                     const std::vector<Variable>& variables, uint32_t devices) {
  const v1::Optimizer& o = training.optimizer();
  require_meaning(o);
  require(o.layerwise_lr_decay() == 0,
          "training.optimizer.layerwise_lr_decay is not offered by this engine");
  json.key("optimizer")
      .begin_object()
      .field("name", o.name())
      .field("learning_rate", learning_rate(training, devices));
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
  json.field("weight_decay", o.weight_decay()).field("clip_norm", training.clip_global_norm());
  json.field("ema_decay", training.ema_decay());
  write_groups(json, o, variables);
  json.end_object();
}

int64_t warmup_steps(const v1::Schedule& schedule, const Length& length) {
  const std::string& unit = schedule.warmup_unit();
  const double scale = unit == "epoch"      ? static_cast<double>(length.steps_per_epoch)
                       : unit == "fraction" ? static_cast<double>(length.total_steps)
                                            : 1.0;
  require(schedule.warmup() == 0 || unit == "step" || unit == "epoch" || unit == "fraction",
          "training.schedule.warmup_unit '" + unit + "' is not understood",
          "step, epoch or fraction");
  return std::llround(schedule.warmup() * scale);
}

// Steps the schedule is laid out over; training may end before.
int64_t schedule_steps(const v1::Schedule& schedule, const Length& length) {
  if (schedule.span() == 0) return length.total_steps;
  return std::llround(schedule.span() * static_cast<double>(length.steps_per_epoch));
}

void write_schedule(JsonWriter& json, const v1::Training& training, const Length& length,
                    uint32_t devices) {
  const v1::Schedule& s = training.schedule();
  require_meaning(s);
  const bool linear = s.kind() == "linear";
  json.key("schedule").begin_object();
  json.field("name", s.kind().empty() ? "constant" : linear ? "polynomial" : s.kind());
  json.field("warmup_steps", warmup_steps(s, length));
  const bool from_start = s.start_lr() > 0 || training.optimizer().convention() == "tensorflow";
  if (warmup_steps(s, length) > 0 && from_start)
    json.field("warmup_start", s.start_lr() / learning_rate(training, devices));
  if (linear || s.kind() == "polynomial" || s.kind() == "cosine") {
    json.field("total_steps", schedule_steps(s, length));
    json.field("end_factor", s.end_lr() / learning_rate(training, devices));
  }
  if (s.power() > 0 && !linear) json.field("power", s.power());
  if (s.factor() > 0) json.field("gamma", s.factor());
  if (s.kind() == "step") {
    std::vector<int64_t> boundaries;
    for (const double epoch : s.milestone())
      boundaries.push_back(std::llround(epoch * static_cast<double>(length.steps_per_epoch)));
    json.field("boundaries", boundaries);
  }
  if (s.kind() == "exponential")
    json.field("decay_steps", static_cast<double>(length.steps_per_epoch));
  json.end_object();
}

// "none", "static:128", "dynamic:32768/2000"
void write_loss_scale(JsonWriter& json, const std::string& text) {
  if (text.empty() || text == "none") return;
  const size_t colon = text.find(':');
  const std::string mode = text.substr(0, colon);
  require(mode == "static" || mode == "dynamic",
          "numerics.loss_scale '" + text + "' is not understood",
          "none, static:128 or dynamic:32768/2000");
  json.key("loss_scale").begin_object().field("mode", mode);
  if (colon != std::string::npos) {
    const std::string numbers = text.substr(colon + 1);
    const size_t slash = numbers.find('/');
    json.key("initial").raw(numbers.substr(0, slash));
    if (slash != std::string::npos) json.key("interval").raw(numbers.substr(slash + 1));
  }
  json.end_object();
}

LoaderConfig loader_config(const v1::Recipe& recipe, const v1::DataRef& data, JsonWriter loader,
                           const Share& share) {
  require(!data.has_range() && data.nominal_epoch_samples() == 0,
          "data '" + data.id() +
              "': ranges and nominal epoch lengths are not offered by this engine yet");
  if (!share.records.empty()) loader.field("record", share.records);
  if (share.world_size > 1) loader.field("rank", share.rank).field("world_size", share.world_size);
  if (recipe.io().workers() > 0) loader.field("workers", recipe.io().workers());
  if (recipe.io().prefetch() > 0) loader.field("prefetch", recipe.io().prefetch());
  return {loader.end_object().text(), transform_config(data)};
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

}  // namespace

std::string precision_name(v1::Numerics::Compute compute) {
  switch (compute) {
    case v1::Numerics::TF32:
      return "tf32";
    case v1::Numerics::AMP_FP16:
      return "amp-fp16";
    case v1::Numerics::AMP_BF16:
      return "amp-bf16";
    default:
      return "fp32";
  }
}

Length training_length(const v1::Recipe& recipe, int64_t samples, uint32_t devices) {
  const v1::Training& t = recipe.training();
  require(t.batch_per_device() > 0, "training.batch_per_device must be at least 1");
  require(t.phase().empty(), "training.phase is not offered by this engine yet");
  const int64_t samples_per_step =
      int64_t{t.batch_per_device()} * std::max<int64_t>(t.accumulate(), 1) * devices;
  Length length;
  length.steps_per_epoch = t.drop_last() ? samples / samples_per_step
                                         : (samples + samples_per_step - 1) / samples_per_step;
  // A stream has no epochs; fewer samples than a step takes make one.
  const v1::DataRef* data = data_of_role(recipe, {"train", "bench"});
  if (data != nullptr && streamed(*data))
    length.steps_per_epoch = std::max<int64_t>(1, length.steps_per_epoch);
  require(length.steps_per_epoch > 0, "a step needs " + std::to_string(samples_per_step) +
                                          " samples, the training data have " +
                                          std::to_string(samples));
  length.total_steps = t.length_case() == v1::Training::kSteps
                           ? static_cast<int64_t>(t.steps())
                           : std::llround(t.epochs() * static_cast<double>(length.steps_per_epoch));
  if (t.steps_divided_by_devices()) length.total_steps /= devices;
  require(length.total_steps > 0, "training.steps or training.epochs must be positive");
  return length;
}

void require_offered(const v1::Recipe& recipe, uint32_t devices) {
  struct Scorer {
    std::string name, version;
  };
  static const std::vector<Scorer> kScorers = {
      {"top1", "1"}, {"top1_center_crop_224", "1"}, {"soft_dice_mean_over_classes", "1"}};
  const v1::Evaluation& evaluation = recipe.evaluation();
  require(evaluation.evaluator().empty() ||
              std::any_of(kScorers.begin(), kScorers.end(),
                          [&](const Scorer& scorer) {
                            return scorer.name == evaluation.evaluator() &&
                                   scorer.version == evaluation.evaluator_version();
                          }),
          "evaluation.evaluator '" + evaluation.evaluator() + "', version '" +
              evaluation.evaluator_version() + "', is not offered by this engine",
          "version 1 of top1, top1_center_crop_224 or soft_dice_mean_over_classes");
  for (const auto& [key, value] : evaluation.arg())
    require(key == "shards", "evaluation.arg." + key + " is not offered by this engine", "shards");
  const std::string& wire = recipe.numerics().gradient_wire();
  require(devices < 2 || wire.empty() || wire == "fp32",
          "numerics.gradient_wire '" + wire + "' is not offered by this engine", "\"fp32\"");
}

void require_offered(const v1::Bench& bench) {
  require(!bench.allow_partial_batch(), "bench '" + bench.id() +
                                            "': allow_partial_batch is not offered by this engine: "
                                            "it fills up the last batch");
  require(bench.arg().empty(), "bench '" + bench.id() +
                                   "': arg is not offered by this engine, which times the network "
                                   "alone");
}

std::string model_config(const v1::Model& model) {
  require(model.pretrained().empty(), "model.pretrained is not offered by this engine yet");
  JsonWriter json;
  json.begin_object();
  for (const auto& [key, value] : model.hparam()) {
    json.key(key);
    if (is_json_value(value)) {
      json.raw(value);
    } else {
      json.value(value);
    }
  }
  return json.end_object().text();
}

std::string trainer_config(const v1::Recipe& recipe, const std::vector<Variable>& variables,
                           const Length& length, uint64_t seed, int64_t batch, uint32_t devices,
                           const std::string& raw_images) {
  require(recipe.training().clip_variable_norm() == 0,
          "training.clip_variable_norm is not offered by this engine yet");
  require(recipe.training().loss().empty(),
          "training.loss is not offered by this engine yet: its models bring their own");
  require(!recipe.training().ema_warmup(), "training.ema_warmup is not offered by this engine yet");
  const v1::Training& t = recipe.training();
  JsonWriter json;
  json.begin_object();
  write_optimizer(json, t, variables, devices);
  write_schedule(json, t, length, devices);
  write_loss_scale(json, recipe.numerics().loss_scale());
  json.field("batch_size", batch > 0 ? batch : int64_t{t.batch_per_device()});
  if (recipe.evaluation().batch() > 0) json.field("eval_batch_size", recipe.evaluation().batch());
  json.field("accumulate", batch > 0 ? 1 : std::max<int64_t>(t.accumulate(), 1) * devices);
  json.field("precision", precision_name(recipe.numerics().compute())).field("seed", seed);
  json.field("label_smoothing", t.label_smoothing());
  if (t.mixup_alpha() > 0) json.field("mixup_alpha", t.mixup_alpha());
  if (!raw_images.empty()) json.key("raw_images").raw(raw_images);
  return json.end_object().text();
}

std::string predictor_config(const v1::Recipe& recipe, int64_t batch) {
  // Never the averaged weights: a model loaded for timing has none, and the time is the same.
  JsonWriter json;
  json.begin_object().field("precision", precision_name(recipe.numerics().compute()));
  json.field("max_batch", batch);
  return json.end_object().text();
}

LoaderConfig training_loader_config(const v1::Recipe& recipe, const v1::DataRef& data,
                                    uint64_t seed, int64_t batch, const Share& share) {
  JsonWriter json;
  json.begin_object().field("batch_size", batch).field("seed", seed);
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

LoaderConfig bench_loader_config(const v1::Recipe& recipe, const v1::DataRef& data, int64_t batch) {
  JsonWriter json;
  json.begin_object().field("batch_size", batch).field("order", "sequential");
  json.field("last_batch", "wrap");
  return loader_config(recipe, data, json, {});
}

int64_t evaluation_batch(const v1::Recipe& recipe) {
  const uint32_t batch = recipe.evaluation().batch();
  return batch > 0 ? batch : recipe.training().batch_per_device();
}

uint32_t evaluation_shards(const v1::Recipe& recipe) {
  const auto asked = recipe.evaluation().arg().find("shards");
  if (asked == recipe.evaluation().arg().end()) return recipe_devices(recipe);
  constexpr uint32_t kMost = 4096;
  const std::string& text = asked->second;
  uint32_t shards = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), shards);
  require(
      error == std::errc() && end == text.data() + text.size() && shards >= 1 && shards <= kMost,
      "evaluation.arg.shards '" + text + "' is not a number of shards",
      "1 to " + std::to_string(kMost));
  return shards;
}

LoaderConfig evaluation_loader_config(const v1::Recipe& recipe, const v1::DataRef& data,
                                      const Share& share) {
  JsonWriter json;
  json.begin_object()
      .field("batch_size", evaluation_batch(recipe))
      .field("order", "sequential")
      .field("last_batch", "pad");
  json.field("epochs", 1);
  return loader_config(recipe, data, json, share);
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

uint32_t recipe_devices(const v1::Recipe& recipe) {
  return std::max(1u, recipe.topology().nodes()) *
         std::max(1u, recipe.topology().devices_per_node());
}

}  // namespace reciperun::engine
