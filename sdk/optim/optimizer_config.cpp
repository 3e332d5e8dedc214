// The keys of optimizers, schedules and loss scaling, and the conditions between keys.
#include "sdk/optim/optimizer_config.h"

#include <algorithm>

#include "sdk/graph/variable.h"

namespace assay::optim {
namespace {

constexpr double kMostDecay = 1e6;
constexpr double kMostFactor = 1e30;
constexpr double kUnlimited = std::numeric_limits<double>::infinity();
constexpr Interval kPositive{0, kMostFactor, false, false};
// In f32 all of them are below 1, as bias correction wants.
constexpr Interval kBetas{0, 1 - 0x1p-24, true};

}  // namespace

void Group::fields(ConfigFields& f) {
  f("match", match, "names, with * for any run of characters; none: all");
  f("kind", kind, "what the parameters are; none: any").one_of(kVariableKinds);
  f("weight_decay", weight_decay, "instead of the optimizer's").in({0, kMostDecay});
  f("lr_scale", lr_scale, "factor of the learning rate").in({0, kMostDecay});
  f("no_trust_ratio", no_trust_ratio, "lamb: take trust ratio 1");
  f("frozen", frozen, "keep them as they are, without gradients");
}

void OptimizerConfig::fields(ConfigFields& f) {
  f("name", name, "which; required").one_of({"sgd", "adam", "adamw", "lamb"}).selects();
  f("learning_rate", learning_rate, "at schedule factor 1; required").in({0, kMaxF32, true, false});
  f("momentum", momentum, "0 is plain SGD").of({"sgd"}).in({0, 1}).otherwise(0.0);
  f("nesterov", nesterov, "needs momentum").of({"sgd"}).otherwise(false);
  f("momentum_convention", momentum_convention, "SgdUpdate has the formulas")
      .of({"sgd"})
      .one_of({"pytorch", "sutskever"})
      .otherwise("pytorch");
  f("beta1", beta1, "of the first moment").of({"adam", "adamw", "lamb"}).in(kBetas).otherwise(0.9);
  f("beta2", beta2, "of the second moment")
      .of({"adam", "adamw", "lamb"})
      .in(kBetas)
      .otherwise(0.999);
  f("epsilon", epsilon, "beside the root of the second moment; 1e-6 for lamb")
      .of({"adam", "adamw", "lamb"})
      .in({0, 1})
      .otherwise(name == "lamb" ? 1e-6 : 1e-8);
  f("epsilon_form", epsilon_form, "where epsilon stands; tensorflow's is epsilon-hat")
      .of({"adam", "adamw"})
      .one_of({"pytorch", "tensorflow"})
      .otherwise("pytorch");
  f("bias_correction", bias_correction, "BERT's AdamW switches it off")
      .of({"adam", "adamw", "lamb"})
      .otherwise(true);
  f("weight_decay", weight_decay, "L2 term of the gradient (sgd, adam), or decoupled (adamw, lamb)")
      .in({0, kMostDecay});
  f("decay_in_loss", decay_in_loss,
    "decay is a part of the loss, weight_decay / 2 |p|^2: its gradient is clipped with the rest")
      .of({"sgd", "adam"})
      .otherwise(false);
  f("group", group, "parameters with other settings; where several match, the last that gives one");
  f("clip_norm", clip_norm, "most norm of the gradient of all parameters; 0 is off")
      .in({0, kMaxF32, true});
  f("clip_each_norm", clip_each_norm,
    "most norm of the gradient of each parameter, before clip_norm; 0 is off")
      .in({0, kMaxF32, true});
  f("ema_decay", ema_decay, "moving average of the parameters; 0 is off").in({0, 1});
  f("ema_warmup", ema_warmup, "decay min(ema_decay, (1 + t) / (10 + t)) after t updates");
  f("ema_statistics", ema_statistics, "average running means and variances too");
}

void ScheduleConfig::fields(ConfigFields& f) {
  f("name", name, "shape after the warm-up; a schedule must have one")
      .one_of({"constant", "step", "polynomial", "cosine", "exponential"})
      .selects();
  f("warmup_steps", warmup_steps, "steps until the full rate").in({0, kUnlimited});
  f("total_steps", total_steps, "its end, more than warmup_steps; required")
      .of({"polynomial", "cosine"});
  f("end_factor", end_factor, "factor at the end")
      .of({"polynomial", "cosine"})
      .in({0, kMostFactor})
      .otherwise(0.0);
  f("decay_from_start", decay_from_start, "fall as if there were no warm-up before")
      .of({"polynomial", "cosine"});
  f("power", power, "1 is linear").of({"polynomial"}).in(kPositive).otherwise(1.0);
  f("gamma", gamma, "factor of a fall").of({"step", "exponential"}).in(kPositive).otherwise(0.1);
  f("boundaries", boundaries, "steps at which the rate falls, increasing; required").of({"step"});
  f("decay_steps", decay_steps, "steps of a factor gamma, may be a fraction; required")
      .of({"exponential"})
      .in(kPositive);
  f("warmup_start", warmup_start, "factor of the first step; none: (s + 1) / warmup_steps")
      .in({0, kMostFactor});
  f("on_skip", on_skip, "whether a skipped update moves the schedule on")
      .one_of({"advance", "hold"});
}

void LossScaleConfig::fields(ConfigFields& f) {
  f("mode", mode, "dynamic: lowered at overflow, raised after good steps")
      .one_of({"none", "static", "dynamic"})
      .selects()
      .otherwise("none");
  f("initial", initial, "scale of the first step")
      .of({"static", "dynamic"})
      .in(kLossScales)
      .otherwise(65536.0);
  f("growth", growth, "factor after `interval` good steps")
      .of({"dynamic"})
      .in({1, kMaxF32})
      .otherwise(2.0);
  f("backoff", backoff, "factor after an overflow")
      .of({"dynamic"})
      .in({0, 1, true, false})
      .otherwise(0.5);
  f("interval", interval, "good steps until it grows")
      .of({"dynamic"})
      .in({1, 2147483647, true})
      .otherwise(2000.0);
  f("minimum", minimum, "least scale").of({"dynamic"}).in(kLossScales).otherwise(1.0);
  f("maximum", maximum, "most scale")
      .of({"dynamic"})
      .in({minimum.value_or(0), kMaxF32, true})
      .otherwise(16777216.0);
}

// Files written before these texts were optional hold empty ones.
OptimizerConfig with_defaults(OptimizerConfig config) {
  for (auto* text : {&config.momentum_convention, &config.epsilon_form}) {
    if (*text == "") text->reset();
  }
  return with_config_defaults(std::move(config));
}

// Without a schedule the rate is constant; one of which something is given must say its name.
ScheduleConfig with_defaults(ScheduleConfig config) {
  if (to_json(config) == to_json(ScheduleConfig{})) config.name = "constant";
  return with_config_defaults(std::move(config));
}

void check_together(const OptimizerConfig& config) {
  expect(!config.nesterov.value_or(false) || *config.momentum > 0,
         {"trainer", "optimizer.momentum"}, config.momentum.value_or(0),
         "more than 0 with nesterov");
  expect(config.ema_decay > 0 || !(config.ema_warmup || config.ema_statistics),
         {"trainer", "optimizer.ema_decay"}, config.ema_decay,
         "more than 0 with ema_warmup or ema_statistics");
  for (size_t i = 0; i < config.group.size(); ++i) {
    const std::string path = cat("optimizer.group[", i, "].");
    expect(!config.group[i].match.empty() || !config.group[i].kind.empty(),
           {"trainer", path + "match"}, "empty", "at least one pattern, or a kind");
    expect(!config.group[i].no_trust_ratio || config.name == "lamb",
           {"trainer", path + "no_trust_ratio"}, "given", "absent: it belongs to lamb");
  }
}

void check_together(const ScheduleConfig& config) {
  const auto key = [](std::string_view path) { return Key{"trainer", path}; };
  expect(!config.warmup_start || config.warmup_steps > 0, key("schedule.warmup_steps"),
         config.warmup_steps, "1 or more with warmup_start");
  if (config.name == "cosine" || config.name == "polynomial") {
    const int64_t total = config.total_steps.value_or(0);
    expect(total > config.warmup_steps, key("schedule.total_steps"),
           config.total_steps ? cat(total) : "not given", "more than warmup_steps (",
           config.warmup_steps, ") for ", config.name);
  }
  expect(config.name != "exponential" || config.decay_steps, key("schedule.decay_steps"),
         "not given", "a number in ", kPositive);
  if (config.name != "step") return;
  expect(!config.boundaries.empty(), key("schedule.boundaries"), "not given",
         "the steps at which the rate falls");
  expect(std::is_sorted(config.boundaries.begin(), config.boundaries.end()),
         key("schedule.boundaries"), "unordered", "increasing steps");
}

}  // namespace assay::optim
