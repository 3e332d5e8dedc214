// The configuration of a trainer, read from JSON text. assay.h says the same to callers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sdk/base/config.h"
#include "sdk/base/dtype.h"
#include "sdk/comm/channel.h"
#include "sdk/nn/training_options.h"
#include "sdk/optim/optimizer_config.h"

namespace assay::train {

// Byte b becomes (b * scale - mean) / stddev. mean and stddev hold nothing (0 and 1), one value for
// all channels or one for each.
struct RawImagesConfig {
  std::optional<float> scale;
  std::vector<float> mean, stddev;
  int32_t channels = 0;
  void fields(ConfigFields& f);
};

struct TrainerConfig {
  optim::OptimizerConfig optimizer;
  optim::ScheduleConfig schedule;
  optim::LossScaleConfig loss_scale;
  int64_t batch_size = kNotGiven<int64_t>;
  std::optional<int64_t> eval_batch_size;
  std::optional<int64_t> accumulate;
  std::optional<int64_t> emulated_devices;
  std::optional<std::string> gradient_wire;
  std::optional<std::string> precision;
  uint64_t seed = 0;
  double label_smoothing = 0;
  std::vector<std::string> disabled_pass;
  double mixup_alpha = 0;
  std::optional<RawImagesConfig> raw_images;
  std::vector<int64_t> image_size;
  std::optional<int64_t> sequence_length;
  std::optional<int64_t> prediction_slots;
  bool packed = false;
  void fields(ConfigFields& f);
};

// Every default filled in: what reports and checkpoints show, and what follows takes.
TrainerConfig with_defaults(TrainerConfig config);

// kInvalid names the key at fault. Names of parameters and passes are checked where the graph is
// built.
void check(const TrainerConfig& config);

// Sixteenths: packed batches run in programs that have room for that many of a padded batch's
// tokens.
inline constexpr int kWholeBatch = 16;

// Every default filled in for a trainer that is one of the channel's devices, if there is one: the
// configuration is then that of all of them together. kInvalid: emulated_devices or accumulate does
// not fit their number.
TrainerConfig with_devices(TrainerConfig config, const Channel* channel);
// f16 where what devices send each other is rounded to it; played by one, their sums are rounded
// alike. Nothing where there is one device.
std::optional<DType> gradient_wire(const TrainerConfig& config);
// How many of an update's batches one device of the channel sees; all without a channel.
int64_t batches_of_rank(const TrainerConfig& config, const Channel* channel);

// What of it is the model's to heed.
nn::TrainingOptions training_options(const TrainerConfig& config);

// The first key in which two configurations differ, and its two values as JSON text.
struct ConfigDifference {
  std::string key;  // its path: "optimizer.momentum"
  std::string ours, theirs;
};

// Looks at everything that changes how training goes on: all keys but eval_batch_size. Both have
// their defaults.
std::optional<ConfigDifference> first_difference(const TrainerConfig& ours,
                                                 const TrainerConfig& theirs);

// The same for two JSON objects, key by key.
std::optional<ConfigDifference> first_difference(const std::string& ours,
                                                 const std::string& theirs);

}  // namespace assay::train
