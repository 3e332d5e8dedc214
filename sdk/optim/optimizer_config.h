// Configurations of optimizers, learning-rate schedules and loss scaling: the keys of the trainer's
// objects "optimizer", "schedule" and "loss_scale". assay.h says the same to callers.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "sdk/base/config.h"

namespace assay::optim {

// Some of the parameters, by name, by kind or by both, and what is different for them. What a group
// does not give is left to the groups before it and to the optimizer.
struct Group {
  std::vector<std::string> match;
  std::vector<std::string> kind;
  std::optional<double> weight_decay;
  std::optional<double> lr_scale;
  std::optional<bool> no_trust_ratio;
  std::optional<bool> frozen;
  void fields(ConfigFields& f);
};

struct OptimizerConfig {
  std::string name;
  double learning_rate = kNotGiven<double>;
  std::optional<double> momentum;
  std::optional<bool> nesterov;
  std::optional<std::string> momentum_convention;
  std::optional<double> beta1;
  std::optional<double> beta2;
  std::optional<double> epsilon;
  std::optional<std::string> epsilon_form;
  std::optional<bool> bias_correction;
  double weight_decay = 0;
  std::optional<bool> decay_in_loss;
  std::vector<Group> group;
  double clip_norm = 0;
  double clip_each_norm = 0;
  double ema_decay = 0;
  bool ema_warmup = false;
  bool ema_statistics = false;
  void fields(ConfigFields& f);
};

// Factor of the learning rate at step s (from 0), T = total_steps, W = warmup_steps:
//   s < W: (s + 1) / W, or with warmup_start = f: f + (1 - f) s / W
//   then, with t = (s - W) / (T - W), or s / T with decay_from_start, held in [0, 1], and
//   e = end_factor:
//   constant 1;  cosine e + (1 - e) (1 + cos(pi t)) / 2;  polynomial e + (1 - e) (1 - t)^power;
//   step gamma^(number of boundaries <= s);  exponential gamma^((s - W) / decay_steps)
struct ScheduleConfig {
  std::string name;
  int64_t warmup_steps = 0;
  std::optional<int64_t> total_steps;
  std::optional<double> end_factor;
  std::optional<bool> decay_from_start;
  std::optional<double> power;
  std::optional<double> gamma;
  std::vector<int64_t> boundaries;
  std::optional<double> decay_steps;
  std::optional<double> warmup_start;
  std::string on_skip = "hold";
  void fields(ConfigFields& f);
};

struct LossScaleConfig {
  std::optional<std::string> mode;
  std::optional<double> initial;
  std::optional<double> growth;
  std::optional<double> backoff;
  std::optional<int64_t> interval;
  std::optional<double> minimum;
  std::optional<double> maximum;
  void fields(ConfigFields& f);
};

// The scales whose inverse devices can compute with, in f32.
inline constexpr Interval kLossScales{std::numeric_limits<float>::min(), kMaxF32, true};

// Every default of the configuration's kind filled in.
OptimizerConfig with_defaults(OptimizerConfig config);
ScheduleConfig with_defaults(ScheduleConfig config);

// What ranges of single keys do not say, for configurations with their defaults; kInvalid names the
// key at fault. The ranges are check_config's (sdk/base/config.h).
void check_together(const OptimizerConfig& config);
void check_together(const ScheduleConfig& config);

}  // namespace assay::optim
