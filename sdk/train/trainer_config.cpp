// The keys of a trainer's configuration, their defaults, and which differences between two of them
// change the training.
#include "sdk/train/trainer_config.h"

#include <algorithm>
#include <charconv>

#include "sdk/base/expect.h"
#include "sdk/base/json_text.h"
#include "sdk/passes/precision.h"

namespace assay::train {
namespace {

// A configuration as text and as the tree of that text.
struct Parsed {
  explicit Parsed(const std::string& json)
      : text(json), root(parse_json_text({json, "configuration"})) {}
  std::string_view text;
  JsonValue root;
};

const JsonValue* find(const JsonValue& object, std::string_view key) {
  const auto found = std::ranges::find(object.members, key, &JsonMember::key);
  return found == object.members.end() ? nullptr : &found->value;
}

bool same_scalar(const JsonValue& a, const JsonValue& b) {
  if (a.kind != b.kind || a.text == b.text) return a.kind == b.kind;
  double x = 0, y = 0;  // 1e-8 is 0.00000001
  const auto read = [](const std::string& text, double& number) {
    std::from_chars(text.data(), text.data() + text.size(), number);
  };
  read(a.text, x), read(b.text, y);
  return a.kind == JsonValue::Kind::kNumber && x == y;
}

// Goes through both trees in the order of ours; what only theirs has comes last.
class Comparison {
 public:
  Comparison(const Parsed& ours, const Parsed& theirs) : ours_(ours), theirs_(theirs) {}

  std::optional<ConfigDifference> objects(const JsonValue& a, const JsonValue& b,
                                          const std::string& path) const {
    const auto below = [&](const std::string& key) {
      return path.empty() ? key : path + "." + key;
    };
    for (const JsonMember& member : a.members) {
      auto difference = values(&member.value, find(b, member.key), below(member.key));
      if (difference) return difference;
    }
    for (const JsonMember& member : b.members) {
      if (find(a, member.key) == nullptr) return values(nullptr, &member.value, below(member.key));
    }
    return std::nullopt;
  }

 private:
  std::optional<ConfigDifference> values(const JsonValue* a, const JsonValue* b,
                                         const std::string& path) const {
    using Kind = JsonValue::Kind;
    const ConfigDifference difference{path, text(ours_, a), text(theirs_, b)};
    if (a == nullptr || b == nullptr || a->kind != b->kind) return difference;
    if (a->kind == Kind::kObject) return objects(*a, *b, path);
    if (a->kind != Kind::kList)
      return same_scalar(*a, *b) ? std::nullopt : std::optional(difference);
    if (a->items.size() != b->items.size()) return difference;
    for (size_t i = 0; i < a->items.size(); ++i) {
      auto in_item = values(&a->items[i], &b->items[i], cat(path, "[", i, "]"));
      if (in_item) return in_item;
    }
    return std::nullopt;
  }

  static std::string text(const Parsed& source, const JsonValue* value) {
    return value == nullptr ? "nothing"
                            : std::string(source.text.substr(value->offset, value->size));
  }

  const Parsed& ours_;
  const Parsed& theirs_;
};

}  // namespace

void RawImagesConfig::fields(ConfigFields& f) {
  f("scale", scale, "factor of a byte; 1/255 if not given");
  f("mean", mean, "taken away then: one, or one of each channel; none is 0");
  f("stddev", stddev, "divisor then: one, or one of each channel; none is 1");
  f("channels", channels, "of the bytes; 0: the image's. Those beyond them are 0");
}

void TrainerConfig::fields(ConfigFields& f) {
  constexpr Interval kCounts{1, 1 << 30, true};
  f("optimizer", optimizer, "what changes the weights; required");
  f("schedule", schedule, "factor of the learning rate, step by step");
  f("loss_scale", loss_scale, "dynamic unless given for amp-fp16, whose gradients underflow");
  f("batch_size", batch_size, "samples of a training batch; required").in(kCounts);
  f("eval_batch_size", eval_batch_size, "samples of an evaluation batch; if not given, batch_size")
      .in(kCounts)
      .otherwise(static_cast<double>(batch_size));
  f("accumulate", accumulate, "batches whose gradients are averaged into one update")
      .in(kCounts)
      .otherwise(1.0);
  f("emulated_devices", emulated_devices,
    "whose batches follow each other in an update, each with running statistics of its own")
      .in(kCounts)
      .otherwise(1.0);
  f("gradient_wire", gradient_wire, "what devices send each other, emulated ones too")
      .one_of({"fp32", "fp16"})
      .otherwise("fp32");
  f("precision", precision, "what is computed with")
      .one_of({"fp32", "tf32", "amp-fp16", "amp-bf16"})
      .otherwise("fp32");
  f("seed", seed, "of fresh weights and of what is drawn in training");
  f("label_smoothing", label_smoothing, "mass of the target moved to all classes alike").in({0, 1});
  f("disabled_pass", disabled_pass, "rewrites to leave out, to find out what one does");
  f("mixup_alpha", mixup_alpha, "images are mixed with weights of Beta(alpha, alpha); 0 is off")
      .in({0, 1e6, true});
  f("raw_images", raw_images, "batches bring bytes, and the device makes them numbers");
  f("image_size", image_size, "[rows, columns] of models that take several; theirs if not given")
      .in(kCounts);
  f("sequence_length", sequence_length,
    "tokens of a sequence with its padding; the model's if not given")
      .in(kCounts);
  f("prediction_slots", prediction_slots, "masked words of a sequence; the model's if not given")
      .in(kCounts);
  f("packed", packed, "padding of sequences is not computed");
}

TrainerConfig with_defaults(TrainerConfig config) {
  config.optimizer = optim::with_defaults(std::move(config.optimizer));
  config.schedule = optim::with_defaults(std::move(config.schedule));
  // f16 gradients underflow without a scale.
  if (!config.loss_scale.mode && config.precision == "amp-fp16") config.loss_scale.mode = "dynamic";
  return with_config_defaults(std::move(config));
}

void check(const TrainerConfig& config) {
  check_config("trainer", "", config);
  optim::check_together(config.optimizer);
  optim::check_together(config.schedule);
  expect(*config.accumulate % *config.emulated_devices == 0, {"trainer", "accumulate"},
         *config.accumulate, "a multiple of emulated_devices (", *config.emulated_devices, ")");
}

TrainerConfig with_devices(TrainerConfig config, const Channel* channel) {
  if (channel != nullptr) {
    const int64_t devices = channel->size();
    if (!config.emulated_devices) config.emulated_devices = devices;
    if (!config.accumulate) config.accumulate = devices;
    expect(*config.emulated_devices == devices, {"trainer", "emulated_devices"},
           *config.emulated_devices, devices, ", the number of ranks, or left out");
  }
  return with_defaults(std::move(config));
}

std::optional<DType> gradient_wire(const TrainerConfig& config) {
  const bool rounded = *config.emulated_devices > 1 && config.gradient_wire == "fp16";
  return rounded ? std::optional(DType::kF16) : std::nullopt;
}

int64_t batches_of_rank(const TrainerConfig& config, const Channel* channel) {
  return *config.accumulate / (channel == nullptr ? 1 : channel->size());
}

nn::TrainingOptions training_options(const TrainerConfig& config) {
  nn::TrainingOptions options{.label_smoothing = static_cast<float>(config.label_smoothing),
                              .mixup_alpha = config.mixup_alpha,
                              .image_size = config.image_size,
                              .sequence_length = config.sequence_length,
                              .prediction_slots = config.prediction_slots,
                              .packed_sixteenths = config.packed ? kWholeBatch : 0};
  if (config.raw_images) {
    const RawImagesConfig& raw = *config.raw_images;
    options.raw_images.emplace();
    options.raw_images->channels = raw.channels;
    options.raw_images->normalisation = {
        .scale = raw.scale.value_or(Normalisation{}.scale), .mean = raw.mean, .stddev = raw.stddev};
  }
  return options;
}

std::optional<ConfigDifference> first_difference(const TrainerConfig& ours,
                                                 const TrainerConfig& theirs) {
  TrainerConfig a = ours, b = theirs;
  // What decides no bit of the training: sizes of evaluation, and whether the loader or the device
  // finishes images.
  const bool both_raw = a.raw_images && b.raw_images;
  for (TrainerConfig* config : {&a, &b}) {
    config->eval_batch_size.reset();
    if (!both_raw) config->raw_images.reset();
  }
  return first_difference(to_json(a), to_json(b));
}

std::optional<ConfigDifference> first_difference(const std::string& ours,
                                                 const std::string& theirs) {
  const Parsed a(ours), b(theirs);
  return Comparison(a, b).objects(a.root, b.root, "");
}

}  // namespace assay::train
