#include "sdk/train/trainer_config.h"

#include <algorithm>
#include <charconv>

#include "sdk/base/expect.h"
#include "sdk/base/json_text.h"
#include "sdk/base/proto_json.h"
#include "sdk/optim/loss_scale.h"
#include "sdk/optim/optimizer.h"
#include "sdk/optim/schedule.h"
#include "sdk/passes/precision.h"

namespace assay::train {
namespace {

void check_count(std::string_view key, int64_t value) {
  expect(value >= 1 && value <= (int64_t{1} << 30), {"trainer", key}, value, "1 to 2^30");
}

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

TrainerConfig with_defaults(TrainerConfig config) {
  if (!config.has_eval_batch_size()) config.set_eval_batch_size(config.batch_size());
  if (!config.has_accumulate()) config.set_accumulate(1);
  if (!config.has_precision()) config.set_precision("fp32");
  *config.mutable_optimizer() = optim::with_defaults(config.optimizer());
  *config.mutable_schedule() = optim::with_defaults(config.schedule());
  // f16 gradients underflow without a scale.
  if (!config.loss_scale().has_mode() && config.precision() == "amp-fp16")
    config.mutable_loss_scale()->set_mode("dynamic");
  *config.mutable_loss_scale() = optim::with_defaults(config.loss_scale());
  return config;
}

void check(const TrainerConfig& config) {
  check_count("batch_size", config.batch_size());
  check_count("eval_batch_size", config.eval_batch_size());
  check_count("accumulate", config.accumulate());
  expect_number({"trainer", "label_smoothing"}, config.label_smoothing(), {0, 1});
  expect_number({"trainer", "mixup_alpha"}, config.mixup_alpha(), {0, 1e6, true});
  parse_precision(config.precision());
  optim::check(config.optimizer());
  optim::check(config.schedule());
  optim::check(config.loss_scale());
}

nn::TrainingOptions training_options(const TrainerConfig& config) {
  nn::TrainingOptions options{.label_smoothing = static_cast<float>(config.label_smoothing()),
                              .mixup_alpha = config.mixup_alpha()};
  if (config.has_raw_images()) {
    const RawImages& raw = config.raw_images();
    options.raw_images.emplace();
    options.raw_images->channels = raw.channels();
    Normalisation& normalisation = options.raw_images->normalisation;
    if (raw.has_scale()) normalisation.scale = raw.scale();
    normalisation.mean.assign(raw.mean().begin(), raw.mean().end());
    normalisation.stddev.assign(raw.stddev().begin(), raw.stddev().end());
  }
  return options;
}

std::optional<ConfigDifference> first_difference(const TrainerConfig& ours,
                                                 const TrainerConfig& theirs) {
  TrainerConfig a = ours, b = theirs;
  // What decides no bit of the training: sizes of evaluation, and whether the loader or the device
  // finishes images.
  const bool both_raw = a.has_raw_images() && b.has_raw_images();
  for (TrainerConfig* config : {&a, &b}) {
    config->clear_eval_batch_size();
    if (!both_raw) config->clear_raw_images();
  }
  return first_difference(to_json(a), to_json(b));
}

std::optional<ConfigDifference> first_difference(const std::string& ours,
                                                 const std::string& theirs) {
  const Parsed a(ours), b(theirs);
  return Comparison(a, b).objects(a.root, b.root, "");
}

}  // namespace assay::train
