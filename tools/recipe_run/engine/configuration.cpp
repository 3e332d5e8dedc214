#include "tools/recipe_run/engine/configuration.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "tools/recipe_run/base/error.h"
#include "tools/recipe_run/base/json_writer.h"
#include "tools/recipe_run/base/text.h"

namespace reciperun {
namespace {

[[noreturn]] void fail_at(const std::string& path, const std::string& what,
                          const std::string& hint = {}) {
  throw Error(Exit::kUsage, path + ": " + what, hint);
}

bool is_plain_json(const std::string& text) {
  if (text == "true" || text == "false") return true;
  const bool candidate = !text.empty() && (text[0] == '[' || text[0] == '-' ||
                                           std::isdigit(static_cast<unsigned char>(text[0])));
  google::protobuf::Value value;
  return candidate && google::protobuf::util::JsonStringToMessage(text, &value).ok();
}

double number_arg(const v1::Stage& stage, const std::string& name, double fallback,
                  const std::string& path) {
  const auto it = stage.arg().find(name);
  if (it == stage.arg().end()) return fallback;
  double value = 0;
  const char* end = it->second.data() + it->second.size();
  if (std::from_chars(it->second.data(), end, value).ptr != end || it->second.empty()) {
    fail_at(path + "." + name, "'" + it->second + "' is not a number");
  }
  return value;
}

// Numbers of "0.485, 0.456, 0.406".
std::vector<double> list_arg(const v1::Stage& stage, const std::string& name,
                             const std::string& path) {
  std::vector<double> out;
  const auto it = stage.arg().find(name);
  if (it == stage.arg().end()) return out;
  for (std::string part : split(it->second, ',')) {
    part.erase(0, part.find_first_not_of(' '));
    v1::Stage one;
    (*one.mutable_arg())[name] = part;
    out.push_back(number_arg(one, name, 0, path));
  }
  return out;
}

void refuse_unknown_args(const v1::Stage& stage, const std::vector<std::string>& known,
                         const std::string& path) {
  for (const auto& entry : stage.arg()) {
    if (std::find(known.begin(), known.end(), entry.first) == known.end()) {
      fail_at(path, stage.op() + " has no argument '" + entry.first + "'",
              "it takes: " + join(known, ", "));
    }
  }
}

void write_stage(JsonWriter& json, const v1::Stage& stage, const std::string& path) {
  const auto number = [&](const char* name, double fallback) {
    return number_arg(stage, name, fallback, path);
  };
  if (stage.op() == "random_crop") {
    refuse_unknown_args(stage, {"pad"}, path);
    json.field("crop_padding", static_cast<int64_t>(number("pad", 0)));
  } else if (stage.op() == "random_flip") {
    refuse_unknown_args(stage, {"axis", "p"}, path);
    const auto axis = stage.arg().find("axis");
    const bool vertical = axis != stage.arg().end() && axis->second == "vertical";
    if (axis != stage.arg().end() && !vertical && axis->second != "horizontal")
      fail_at(path + ".axis", "'" + axis->second + "' is neither horizontal nor vertical");
    json.field(vertical ? "flip_vertical" : "flip_horizontal", number("p", 0.5));
  } else if (stage.op() == "random_rotation") {
    refuse_unknown_args(stage, {"degrees"}, path);
    json.field("rotation_degrees", number("degrees", 0));
  } else if (stage.op() == "scale") {
    refuse_unknown_args(stage, {"by"}, path);
    json.field("scale", number("by", 1));
  } else if (stage.op() == "normalize") {
    refuse_unknown_args(stage, {"mean", "std"}, path);
    json.field("mean", list_arg(stage, "mean", path)).field("stddev", list_arg(stage, "std", path));
  } else {
    refuse_unknown_args(stage, {"p", "value"}, path);
    json.field("erasing_probability", number("p", 0.5)).field("erasing_value", number("value", 0));
  }
}

double learning_rate(const v1::Recipe& recipe) {
  const v1::Training& training = recipe.training();
  const double lr = training.optimizer().lr();
  const std::string& rule = training.optimizer().lr_rule();
  if (rule.empty() || rule == "absolute") return lr;
  if (rule != "per_256_global_batch")
    fail_at("training.optimizer.lr_rule", "'" + rule + "' is unknown",
            "absolute or per_256_global_batch");
  const double devices =
      std::max(1u, recipe.topology().nodes()) * std::max(1u, recipe.topology().devices_per_node());
  return lr * training.batch_per_device() * std::max(1u, training.accumulate()) * devices / 256;
}

std::vector<std::string> names_without_decay(const v1::Optimizer& optimizer,
                                             const std::vector<Variable>& variables) {
  std::vector<std::string> out;
  for (const Variable& variable : variables) {
    const bool bias =
        variable.name.size() > 5 && variable.name.substr(variable.name.size() - 5) == ".bias";
    const bool vector = variable.dimensions <= 1 && !bias;
    const bool wanted = std::any_of(
        optimizer.no_decay().begin(), optimizer.no_decay().end(), [&](const std::string& kind) {
          return (kind == "bias" && bias) || ((kind == "bn" || kind == "layer_norm") && vector);
        });
    if (wanted) out.push_back(variable.name);
  }
  return out;
}

void write_optimizer(JsonWriter& json, const v1::Recipe& recipe, const TrainerSetup& setup) {
  const v1::Optimizer& optimizer = recipe.training().optimizer();
  if (optimizer.layerwise_lr_decay() != 0)
    fail_at("training.optimizer.layerwise_lr_decay", "this engine's groups cannot do that yet");
  json.key("optimizer")
      .begin_object()
      .field("name", optimizer.name())
      .field("learning_rate", learning_rate(recipe));
  json.field("weight_decay", optimizer.weight_decay());
  const bool tensorflow = optimizer.convention() == "tensorflow";
  if (!tensorflow && !optimizer.convention().empty() && optimizer.convention() != "pytorch") {
    fail_at("training.optimizer.convention", "'" + optimizer.convention() + "' is unknown",
            "pytorch or tensorflow");
  }
  if (optimizer.name() == "sgd") {
    json.field("momentum", optimizer.momentum()).field("nesterov", optimizer.nesterov());
    json.field("momentum_convention", tensorflow ? "sutskever" : "pytorch");
  } else {
    if (optimizer.beta1() > 0) json.field("beta1", optimizer.beta1());
    if (optimizer.beta2() > 0) json.field("beta2", optimizer.beta2());
    if (optimizer.epsilon() > 0) json.field("epsilon", optimizer.epsilon());
    if (optimizer.name() != "lamb")
      json.field("epsilon_form", tensorflow ? "tensorflow" : "pytorch");
  }
  json.field("clip_norm", recipe.training().clip_global_norm())
      .field("ema_decay", recipe.training().ema_decay());
  const std::vector<std::string> plain = names_without_decay(optimizer, setup.variables);
  if (!plain.empty() && optimizer.weight_decay() > 0) {
    json.key("group")
        .begin_array()
        .begin_object()
        .field("match", plain)
        .field("weight_decay", 0.0)
        .end_object()
        .end_array();
  }
  json.end_object();
}

void write_schedule(JsonWriter& json, const v1::Recipe& recipe, const TrainerSetup& setup) {
  const v1::Schedule& schedule = recipe.training().schedule();
  const std::string kind = schedule.kind().empty() ? "constant" : schedule.kind();
  double warmup = schedule.warmup();
  if (schedule.warmup_unit() == "epoch") {
    warmup *= setup.steps_per_epoch;
  } else if (schedule.warmup_unit() == "fraction") {
    warmup *= static_cast<double>(setup.total_steps);
  } else if (!schedule.warmup_unit().empty() && schedule.warmup_unit() != "step") {
    fail_at("training.schedule.warmup_unit", "'" + schedule.warmup_unit() + "' is unknown",
            "step, epoch or fraction");
  }
  json.key("schedule").begin_object().field("name", kind == "linear" ? "polynomial" : kind);
  json.field("warmup_steps", static_cast<int64_t>(std::llround(warmup)))
      .field("total_steps", setup.total_steps);
  if (schedule.end_lr() > 0)
    json.field("end_factor", schedule.end_lr() / recipe.training().optimizer().lr());
  if (kind == "polynomial" && schedule.power() > 0) json.field("power", schedule.power());
  if (schedule.factor() > 0) json.field("gamma", schedule.factor());
  if (kind == "exponential")
    json.field("decay_steps", static_cast<int64_t>(std::llround(setup.steps_per_epoch)));
  std::vector<int64_t> boundaries;
  for (const double epoch : schedule.milestone())
    boundaries.push_back(std::llround(epoch * setup.steps_per_epoch));
  if (!boundaries.empty()) json.field("boundaries", boundaries);
  json.end_object();
}

// "none", "static:128", "dynamic", "dynamic:32768/2000".
void write_loss_scale(JsonWriter& json, const std::string& text) {
  const std::vector<std::string> parts = split(text.empty() ? "none" : text, ':');
  if (parts[0] != "none" && parts[0] != "static" && parts[0] != "dynamic")
    fail_at("numerics.loss_scale", "'" + text + "' is not understood",
            "none, static:128 or dynamic:32768/2000");
  json.key("loss_scale").begin_object().field("mode", parts[0]);
  if (parts.size() > 1) {
    const std::vector<std::string> numbers = split(parts[1], '/');
    if (!std::all_of(numbers.begin(), numbers.end(), is_plain_json))
      fail_at("numerics.loss_scale", "'" + text + "' is not understood");
    json.key("initial").raw(numbers[0]);
    if (numbers.size() > 1) json.key("interval").raw(numbers[1]);
  }
  json.end_object();
}

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

}  // namespace

std::string model_config(const v1::Model& model) {
  const std::map<std::string, std::string> sorted(model.hparam().begin(), model.hparam().end());
  JsonWriter json;
  json.begin_object();
  for (const auto& [name, value] : sorted) {
    json.key(name);
    if (is_plain_json(value)) {
      json.raw(value);
    } else {
      json.value(value);
    }
  }
  json.end_object();
  return json.text();
}

std::string trainer_config(const v1::Recipe& recipe, const TrainerSetup& setup) {
  if (recipe.training().mixup_alpha() != 0)
    fail_at("training.mixup_alpha", "this engine has no mixup yet");
  if (recipe.training().phase_size() > 0)
    fail_at("training.phase", "this engine trains in one phase");
  JsonWriter json;
  json.begin_object();
  write_optimizer(json, recipe, setup);
  write_schedule(json, recipe, setup);
  write_loss_scale(json, recipe.numerics().loss_scale());
  json.field("batch_size", setup.batch)
      .field("eval_batch_size", setup.eval_batch > 0 ? setup.eval_batch : setup.batch);
  json.field("accumulate", static_cast<int64_t>(std::max(1u, recipe.training().accumulate())));
  json.field("precision", precision_name(recipe.numerics().compute())).field("seed", setup.seed);
  json.field("label_smoothing", recipe.training().label_smoothing()).end_object();
  return json.text();
}

std::string loader_config(const v1::Recipe& recipe, const LoaderSetup& setup) {
  JsonWriter json;
  json.begin_object().field("batch_size", setup.batch).field("seed", setup.seed);
  json.field("order", setup.training ? "shuffled" : "sequential");
  json.field("last_batch", !setup.training                 ? "pad"
                           : recipe.training().drop_last() ? "drop"
                                                           : "wrap");
  json.field("epochs", setup.training ? 0 : 1);
  if (recipe.io().workers() > 0) json.field("workers", recipe.io().workers());
  if (recipe.io().prefetch() > 0)
    json.field("prefetch", std::max(recipe.io().prefetch(), recipe.io().workers()));
  json.end_object();
  return json.text();
}

std::string transform_config(const v1::DataRef& data) {
  static const std::vector<std::string> kOrder = {"random_crop", "random_flip", "random_rotation",
                                                  "scale",       "normalize",   "random_erasing"};
  if (data.has_range())
    fail_at("data." + data.id() + ".range", "this engine's loader reads whole splits only");
  JsonWriter json;
  json.begin_object();
  ptrdiff_t last = -1;
  for (int i = 0; i < data.pipeline_size(); ++i) {
    const v1::Stage& stage = data.pipeline(i);
    const std::string path = "data." + data.id() + ".pipeline." + std::to_string(i);
    const ptrdiff_t rank = std::find(kOrder.begin(), kOrder.end(), stage.op()) - kOrder.begin();
    if (rank == static_cast<ptrdiff_t>(kOrder.size()))
      fail_at(path, "there is no stage '" + stage.op() + "'", "there are: " + join(kOrder, ", "));
    // Flips on both axes are two stages of one rank.
    if (rank < last || (rank == last && stage.op() != "random_flip")) {
      fail_at(path, stage.op() + " cannot stand after " + data.pipeline(i - 1).op(),
              "the order is: " + join(kOrder, ", "));
    }
    last = rank;
    write_stage(json, stage, path);
  }
  json.end_object();
  return json.text();
}

int64_t total_steps(const v1::Training& training, double steps_per_epoch) {
  const double steps = training.has_steps() ? static_cast<double>(training.steps())
                                            : training.epochs() * steps_per_epoch;
  return std::max<int64_t>(1, std::llround(steps));
}

const v1::DataRef& data_of_role(const v1::Recipe& recipe, const std::vector<std::string>& roles) {
  for (const std::string& role : roles) {
    for (const v1::DataRef& data : recipe.data()) {
      if (data.role() == role) return data;
    }
  }
  fail_at("data", "there is no entry with role " + join(roles, " or "));
}

}  // namespace reciperun
